// What calls of collectives return, refuse and leave unchanged.
#include <locus/ops/collective.h>

#include <atomic>
#include <thread>

#include <locus/core/autograd.h>
#include <locus/core/parallel.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/reduce.h>
#include "tests/ranks/groups.h"

namespace locus::test {
namespace {

using Values = std::vector<double>;

Tensors tenths(const Group& g) {
  Tensors parts;
  for (int i = 0; i < g.size(); ++i) parts.push_back(full({1003}, .1 * (i + 1), g[i]));
  return parts;
}

TEST(CollectiveCalls, ReturnTheirTargets) {
  for (const Group& g : groups()) {
    const Tensors parts = tenths(g);
    EXPECT_TRUE(all_reduce(g, parts, {.out = parts})[0].is(parts[0])) << to_string(g);
  }
}

TEST(CollectiveCalls, RefuseEmptyTensors) {
  const Group g(hosts(2));
  EXPECT_THROW(send_recv(g, {Tensor(), ones({2}, cpu(1))}, {1, -1}), EmptyTensor);
}

TEST(CollectiveCalls, GatherPartsThatDifferAlongTheAxisOnly) {
  const Group g(hosts(2));
  const Tensors in{ones({1, 2}, g[0]), ones({2, 2}, g[1])};
  EXPECT_EQ(all_gather(g, in, {.axis = 0})[0].shape(), (Shape{3, 2}));
  EXPECT_THROW(all_gather(g, in, {.axis = 1}), ShapeError);
}

TEST(CollectiveCalls, OfManyTensorsWriteNothingIfOneIsRefused) {
  for (const auto& where : places(2)) {
    const Group g(where);
    const std::vector<Tensors> all{{ones({2}, g[0]), ones({2}, g[1])},
                                   {ones({2}, g[0]), ones({3}, g[1])}};
    EXPECT_THROW(all_reduce_many(g, all), ShapeError);
    EXPECT_EQ(values(all[0][0]), Values(2, 1));
  }
}

TEST(CollectiveCalls, OfManyTensorsRefuseWhatIsRecorded) {
  for (const auto& where : places(2)) {
    const Group g(where);
    const std::vector<Tensors> all{{ones({2}, g[0]), ones({2}, g[1])}};
    all[0][0].attach_grad();
    const autograd::Record record;
    EXPECT_THROW(all_reduce_many(g, all), Error);
    EXPECT_EQ(values(all[0][0].detach()), Values(2, 1));
  }
}

// A maximum that keeps exp() in range, as in a softmax over the contexts.
TEST(CollectiveCalls, AMaximumIsUsedWhileRecordingWithoutItsGradient) {
  for (const auto& where : places(2)) {
    const Group g(where);
    const Tensors in{full({2}, 3, g[0]), full({2}, 4, g[1])};
    for (const Tensor& x : in) x.attach_grad();
    Tensor y;
    {
      const autograd::Record record;
      const Tensor most = all_reduce(g, in, {.op = ReduceOp::max})[0];
      y = (in[0] - most.detach()).sum();
    }
    EXPECT_EQ(y.item<float>(), -2);
    y.backward();
    EXPECT_EQ(values(in[0].grad()), Values(2, 1));
  }
}

// Of the caller's thread and, where parallel() left them awake, the contexts' threads.
TEST(CollectiveCalls, WhatComesBehindMayCallThemOnAllThreads) {
  for (const auto& where : places(2)) {
    const Group g(where);
    std::atomic<int> elsewhere = 0;
    for (int round = 0; round < 2000 && elsewhere < 20; ++round) {
      parallel(g.contexts(), [](int) {});
      const Tensors sums{ones({3}, g[0]), ones({3}, g[1])};
      std::vector<Tensors> twice(2);
      const auto caller = std::this_thread::get_id();
      all_reduce_many(g, std::vector<Tensors>{sums}, {.behind = [&](int i) {
                        if (std::this_thread::get_id() != caller) ++elsewhere;
                        twice[static_cast<size_t>(i)] = all_reduce(g, sums);
                      }});
      for (const Tensors& each : twice)
        for (const Tensor& t : each) ASSERT_EQ(values(t), Values(3, 4));
    }
    EXPECT_GT(elsewhere, 0);
  }
}

TEST(CollectiveCalls, OfAPinnedContextGiveAResultOnTheHostWithoutAGradient) {
  const Group g({cpu_pinned(), cpu(1)});
  const Tensors in{ones({2}, g[0]), ones({2}, g[1])};
  for (const Tensor& x : in) x.attach_grad();
  Tensors y;
  {
    const autograd::Record record;
    y = all_reduce(g, in);
  }
  EXPECT_EQ(y[0].context(), cpu(0));
  EXPECT_EQ(values(y[0]), Values(2, 2));
  EXPECT_THROW(y[0].backward(), ContextMismatch);
}

// In f16, 2048 + 1 is 2048.
TEST(CollectiveCalls, OfTheHostRoundEachStepOfATreeFromTheResultsContext) {
  const Group g(hosts(4));
  Tensors in;
  for (int i = 0; i < 4; ++i) in.push_back(full({4}, i == 0 ? 2048 : i < 3 ? 1 : 0, {g[i], f16}));
  const double from_0 = 2048 /* (2048 + 1) + (1 + 0) */, from_1 = 2050 /* (1 + 1) + (0 + 2048) */;
  for (const Tensor& y : all_reduce(g, in)) EXPECT_EQ(values(y), Values(4, from_0));
  EXPECT_EQ(values(reduce(g, in, 0)), Values(4, from_0));
  EXPECT_EQ(values(reduce(g, in, 1)), Values(4, from_1));
  const Tensors slices = reduce_scatter(g, in);
  EXPECT_EQ(values(slices[0]), Values(1, from_0));
  EXPECT_EQ(values(slices[1]), Values(1, from_1));
  reduce_many(g, std::vector<Tensors>{in}, std::vector<int>{1});
  EXPECT_EQ(values(in[1]), Values(4, from_0));
}

TEST(CollectiveCalls, ReduceManyHasTheBitsOfAllReduceMany) {
  for (const auto& where : fours()) {
    const Group g(where);
    const std::vector<Tensors> a{tenths(g)}, b{tenths(g)};
    const std::vector<int> roots{1};
    all_reduce_many(g, a);
    reduce_many(g, b, roots);
    EXPECT_EQ(values(b[0][1]), values(a[0][1])) << to_string(g);
  }
}

}  // namespace
}  // namespace locus::test
