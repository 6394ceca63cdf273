// The algorithms that combine parts, by size, with streams, threads, copies and plans.
#include <locus/ops/collective.h>

#include <optional>
#include <thread>

#include <locus/core/autograd.h>
#include <locus/core/compile.h>
#include <locus/core/stream.h>
#include <locus/nn/layers.h>
#include <locus/nn/trainer.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/reduce.h>
#include "tests/ranks/groups.h"

namespace locus::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Values = std::vector<double>;

TEST(CollectiveWays, ManyTensorsAreCombinedTogether) {
  for (const Group& g : groups())
    for (const DType d : {f32, f16, f64}) {
      // More than one launch takes: odd lengths, none, a scalar, an unaligned part, a part with
      // gaps.
      std::vector<Tensors> many;
      for (int k = 0; k < 40; ++k) many.push_back(parts(g, {k * 37 % 50}, d));
      many.push_back(parts(g, {}, d));
      many.push_back(parts(g, {20000}, d));
      for (const bool gaps : {false, true}) {
        many.push_back(parts(g, {100}, d));
        for (Tensor& t : many.back()) t = t(gaps ? Slice(0, 99, 3) : Slice(1, 98));
      }
      std::vector<std::vector<Values>> expected;
      for (const Tensors& t : many) {
        expected.emplace_back();
        for (const Tensor& x : all_reduce(g, t)) expected.back().push_back(values(x));
      }
      all_reduce_many(g, many);
      for (size_t k = 0; k < many.size(); ++k)
        for (size_t i = 0; i < many[k].size(); ++i)
          EXPECT_EQ(values(many[k][i]), expected[k][i]) << to_string(g) << " tensor " << k;
    }
}

// One dtype, two, parts with gaps, and no parts.
TEST(CollectiveWays, LaterCallsSeeTheSums) {
  for (const Group& g : groups())
    for (const int kinds : {0, 1, 2, 3})
      for (const bool to_roots : {false, true}) {
        std::vector<Tensors> many;
        if (kinds > 0) many.push_back(parts(g, {1000}, f32));
        if (kinds > 1) many.push_back(parts(g, {1000}, f64));
        if (kinds > 2) many.push_back(parts(g, {100}, f64));
        if (kinds > 2)
          for (Tensor& t : many.back()) t = t(Slice(0, 99, 3));
        std::vector<std::vector<Values>> expected;
        for (const Tensors& t : many) {
          expected.emplace_back();
          for (const Tensor& x : all_reduce(g, t)) expected.back().push_back(values(x * 2));
        }
        std::vector<int> calls(static_cast<size_t>(g.size()));
        std::vector<Tensors> twice(many.size(), Tensors(calls.size()));
        const AllReduceManyOptions options{.behind = [&](int i) {
          const auto at = static_cast<size_t>(i);
          ++calls[at];
          for (size_t k = 0; k < many.size(); ++k) twice[k][at] = many[k][at] * 2;
        }};
        const int root = g.size() - 1;
        if (to_roots)
          reduce_many(g, many, std::vector<int>(many.size(), root), options);
        else
          all_reduce_many(g, many, options);
        EXPECT_THAT(calls, testing::Each(1));
        for (size_t k = 0; k < many.size(); ++k)
          for (int i = to_roots ? root : 0; i < g.size(); ++i)
            EXPECT_EQ(values(twice[k][static_cast<size_t>(i)]), expected[k][static_cast<size_t>(i)])
                << to_string(g) << " tensor " << k;
      }
}

TEST(CollectiveWays, ManyTensorsAreCombinedEachAtItsRoot) {
  for (const Group& g : groups())
    for (const DType d : {f32, f16}) {
      std::vector<Tensors> many;
      std::vector<int> roots;
      for (int k = 0; k < 40; ++k) {
        many.push_back(parts(g, {k * 37 % 50, k % 3}, d));
        roots.push_back(k % g.size());
      }
      for (Tensor& t : many.back()) t = t(Slice(0, 99, 3));
      std::vector<Values> expected;
      for (size_t k = 0; k < many.size(); ++k)
        expected.push_back(values(all_reduce(g, many[k])[static_cast<size_t>(roots[k])]));
      reduce_many(g, many, roots);
      for (size_t k = 0; k < many.size(); ++k)
        EXPECT_EQ(values(many[k][static_cast<size_t>(roots[k])]), expected[k])
            << to_string(g) << " tensor " << k;
      const std::vector<Tensors> one{parts(g, {2}, d)};
      const Values before = values(one[0][0]);
      EXPECT_THROW(reduce_many(g, one, std::vector<int>{g.size()}), IndexError);
      EXPECT_THAT(message_of<Error>([&] { reduce_many(g, one, roots); }),
                  HasSubstr("40 roots for 1 tensors"));
      EXPECT_EQ(values(one[0][0]), before);
    }
}

TEST(CollectiveWays, LargePartsTakeOtherWaysToTheSameSums) {
  LOCUS_NEEDS_ANY_GPUS(2);
  for (const Group& g : groups()) {
    if (g.size() == 1 || g[0].type == DeviceType::cpu) continue;
    for (const int64_t n : {int64_t{100003}, int64_t{2097153}, int64_t{4194304}}) {
      const Tensors in = parts(g, {n}), out = all_reduce(g, in);
      double total = 0;
      for (int64_t k = 0; k < n; ++k) total += folded(ReduceOp::sum, g.size(), k);
      for (int i = 0; i < g.size(); ++i) {
        EXPECT_EQ(out[static_cast<size_t>(i)].astype(f64).sum().item<double>(), total);
        for (const int64_t k : {int64_t{0}, n / 2, n - 1})
          EXPECT_EQ(out[static_cast<size_t>(i)](k).item<float>(),
                    folded(ReduceOp::sum, g.size(), k));
      }
    }
  }
}

// No waits in between: a sum must not write what an earlier sum reads.
TEST(CollectiveWays, SumsOfManySizesFollowEachOther) {
  const int64_t sizes[] = {1000, 3, 400001, 260000, 8, 2048};
  for (const Group& g : groups()) {
    std::vector<Tensors> sums;
    for (int round = 0; round < 60; ++round) {
      Tensors& x = sums.emplace_back();
      for (int i = 0; i < g.size(); ++i)
        x.push_back(full({sizes[round % std::size(sizes)]}, 10 * round + i, g[i]));
      all_reduce(g, x, {.out = x});
    }
    for (int round = 0; round < 60; ++round)
      for (const Tensor& y : sums[static_cast<size_t>(round)]) {
        const float expected = 10.f * round * g.size() + g.size() * (g.size() - 1) / 2.f;
        EXPECT_EQ(min(y).item<float>(), expected) << to_string(g) << " round " << round;
        EXPECT_EQ(max(y).item<float>(), expected) << to_string(g) << " round " << round;
      }
  }
}

// Too large for our kernel on two GPUs.
TEST(CollectiveWays, TheLibrarysSumsAreRightToo) {
  LOCUS_NEEDS_ANY_GPUS(2);
  if (emulated_gpus()) GTEST_SKIP() << "emulated GPUs have no library";
  const Group g(gpus(2));
  const int64_t n = 20 << 20;
  const Tensors in{full({n}, 2, g[0]), full({n}, 3, g[1])};
  for (const auto& [op, expected] :
       {std::pair{ReduceOp::sum, 5.}, {ReduceOp::mean, 2.5}, {ReduceOp::prod, 6.}})
    for (const Tensor& y : all_reduce(g, in, {.op = op})) {
      EXPECT_EQ(min(y).item<float>(), expected);
      EXPECT_EQ(max(y).item<float>(), expected);
    }
  all_reduce_many(g, std::vector<Tensors>{in});
  for (const Tensor& y : in) EXPECT_EQ(min(y).item<float>() + max(y).item<float>(), 10);
}

// Each of the two fills a GPU, so they could block each other.
TEST(CollectiveWays, LargeSumsSideBySideDoNotWaitForEachOther) {
  for (const Group& g : groups()) {
    if (g.size() != 2) continue;
    const auto sums = [&](const Tensors& x) {
      Tensors all = all_reduce(g, {x[0], x[1]});
      for (const Tensor& y : all_reduce(g, {x[2], x[3]})) all.push_back(y);
      for (Tensor& y : all)
        for (int i = 0; i < 5; ++i) y = y + 1;
      return all;
    };
    Compiled f(sums);
    const auto x = [&](int64_t n, double v, int i) { return full({n}, v, {g[i], bf16}); };
    const int64_t n = g[0].type == DeviceType::gpu && !emulated_gpus() ? 4 << 20 : 5000;
    const Tensors in{x(n, 1, 0), x(n, 2, 1), x(n, 3, 0), x(n, 4, 1)};
    for (int round = 0; round < 5; ++round) {
      const Tensors y = f(in);
      for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(min(y[i]).item<float>(), i < 2 ? 8 : 12);
        EXPECT_EQ(max(y[i]).item<float>(), i < 2 ? 8 : 12);
      }
    }
  }
}

// A copy's wait must not separate the two halves of a sum.
TEST(CollectiveWays, SumsAndCopiesOfACompiledFunctionRunInOrder) {
  for (const Group& g : groups()) {
    if (g.size() != 2) continue;
    const Tensor buffer = zeros({50}, g[1]);
    Compiled f([&](const Tensors& in) {
      const Tensor before = (buffer + 1).sum(), x = in[0] * 1, z = in[1] * 1;
      x.copyto(buffer);
      all_reduce(g, {x, z}, {.out = {x, z}});
      return Tensors{before, x, z, buffer + 0};
    });
    double held = 0;
    for (int round = 1; round < 5; ++round) {
      const Tensors y = f({full({50}, round, g[0]), full({50}, 10, g[1])});
      EXPECT_EQ(y[0].item<float>(), 50 * (held + 1));
      EXPECT_EQ(values(y[1]), Values(50, 10 + round));
      EXPECT_EQ(values(y[2]), Values(50, 10 + round));
      EXPECT_EQ(values(y[3]), Values(50, round));
      held = round;
    }
  }
}

TEST(CollectiveWays, TargetsThatOverlapAPartOrEachOther) {
  for (const Group& g : groups()) {
    if (g.size() != 2) continue;
    const Tensors all = parts(g, {100001}), expected = all_reduce(g, all);
    Tensors in, out;
    for (const Tensor& x : all)
      in.push_back(x(Slice(0, 100000))), out.push_back(x(Slice(1, 100001)));
    all_reduce(g, in, {.out = out});
    for (const Tensor& y : out) EXPECT_EQ(values(y), values(expected[0](Slice(0, 100000))));
    EXPECT_THROW(all_reduce_many(g, std::vector<Tensors>{in, out}), ValueError);
    EXPECT_THROW(all_reduce_many(g, std::vector<Tensors>{in, in}), ValueError);
  }
}

TEST(CollectiveWays, ThreadsWithStreamsDoNotMixTheirSums) {
  LOCUS_NEEDS_ANY_GPUS(2);
  const Group g(gpus(2));
  std::vector<std::thread> threads;
  std::vector<double> wrong(4, 0);
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      std::optional<Stream> streams[2];
      std::optional<StreamScope> scopes[2];
      for (size_t i = 0; i < 2 && t > 0; ++i) {
        streams[i].emplace(g[static_cast<int>(i)]);
        scopes[i].emplace(*streams[i]);
      }
      const double v = static_cast<double>(t + 1);
      Tensors x{full({5000}, v, g[0]), full({5000}, v, g[1])};
      for (int round = 0; round < 20; ++round) x = all_reduce(g, x, {.op = ReduceOp::mean});
      for (const Tensor& y : x) wrong[t] += norm(y - v, {.ord = 1}).item<double>();
      scopes[1].reset();
      scopes[0].reset();
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, Values(4, 0));
}

TEST(CollectiveWays, ACompiledFunctionReplaysIt) {
  for (const Group& g : groups()) {
    Compiled f([&](const Tensors& x) {
      Tensors y = all_reduce(g, x);
      for (Tensor& t : y) t = t * 2;
      return y;
    });
    for (int round = 0; round < 4; ++round) {
      Tensors in = parts(g, {33});
      for (Tensor& x : in) x = x + round;
      const Tensors out = f(in), expected = all_reduce(g, in);
      for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(values(out[i]), values(expected[i] * 2));
    }
  }
}

TEST(CollectiveWays, ATrainerRefusesReplicasOfTwoKindsBeforeItChangesAny) {
  LOCUS_NEEDS_ANY_GPUS(1);
  nn::Dense net(2, {}, {.in_units = 3});
  net.initialize(init::One(), {cpu(0), gpu(0)});
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = 1}));
  for (const Context c : {cpu(0), gpu(0)}) {
    Tensor y;
    {
      const autograd::Record record;
      y = net(ones({1, 3}, c)).sum();
    }
    y.backward();
  }
  EXPECT_THAT(message_of<ContextMismatch>([&] { trainer.step(2); }),
              AllOf(HasSubstr("Parameter `"), HasSubstr("weight"), HasSubstr("cpu(0) and gpu(0)")));
  EXPECT_EQ(values(net.parameters()[0].second.data(cpu(0))), Values(6, 1));
}

}  // namespace
}  // namespace locus::test
