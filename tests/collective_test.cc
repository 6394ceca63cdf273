// Collectives against sums and slices written out, on the host, emulated and real GPUs.
#include <locus/ops/collective.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <thread>

#include <locus/core/autograd.h>
#include <locus/core/compile.h>
#include <locus/core/stream.h>
#include <locus/core/transfer_log.h>
#include <locus/nn/layers.h>
#include <locus/nn/trainer.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/join.h>
#include <locus/ops/reduce.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>
#include "tests/contexts.h"
#include "tests/gradcheck.h"

namespace locus {
namespace {

using test::values;
using testing::AllOf;
using testing::HasSubstr;
using Values = std::vector<double>;

std::vector<Context> hosts(int n) {
  std::vector<Context> list;
  for (int i = 0; i < n; ++i) list.push_back(cpu(i));
  return list;
}

// Of 1 to 5 contexts of the host, and of all the GPUs there are.
std::vector<Group> groups() {
  std::vector<Group> all;
  for (int n = 1; n <= 5; ++n) all.emplace_back(hosts(n));
  for (int n = 1; n <= num_gpus(); ++n) all.emplace_back(gpus(n));
  return all;
}

// A whole number an element, another for each context.
double element(int context, int64_t at) {
  return static_cast<double>((context * 7 + at * 3) % 11 - 5);
}

Tensors parts(const Group& g, const Shape& shape, DType d = f32) {
  Tensors all;
  for (int i = 0; i < g.size(); ++i) {
    Values v(static_cast<size_t>(shape.size()));
    for (size_t k = 0; k < v.size(); ++k) v[k] = element(i, static_cast<int64_t>(k));
    all.push_back(array(v).reshape(shape).astype(d).copyto(g[i]));
  }
  return all;
}

double folded(ReduceOp op, int n, int64_t at) {
  double all = element(0, at);
  for (int i = 1; i < n; ++i) {
    const double v = element(i, at);
    all = op == ReduceOp::max    ? std::max(all, v)
          : op == ReduceOp::min  ? std::min(all, v)
          : op == ReduceOp::prod ? all * v
                                 : all + v;
  }
  return op == ReduceOp::mean ? all / n : all;
}

TEST(Collective, AllReduceCombinesOnEveryContext) {
  for (const Group& g : groups())
    for (const ReduceOp op :
         {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min, ReduceOp::prod})
      for (const DType d : {f32, f64, f16, bf16, i32}) {
        if (op == ReduceOp::mean && d == i32) continue;
        const Tensors in = parts(g, {3, 5}, d), out = all_reduce(g, in, {.op = op});
        for (int i = 0; i < g.size(); ++i) {
          const Tensor& y = out[static_cast<size_t>(i)];
          EXPECT_EQ(y.context(), g[i]);
          EXPECT_EQ(y.dtype(), d);
          Values expected(15);
          for (size_t k = 0; k < 15; ++k)
            expected[k] = folded(op, g.size(), static_cast<int64_t>(k));
          const double tolerance = op == ReduceOp::mean || op == ReduceOp::prod ? .02 : 0;
          EXPECT_THAT(values(y), testing::Pointwise(testing::Truly([=](const auto& pair) {
                                                      const auto [a, b] = pair;
                                                      return std::abs(a - b) <=
                                                             tolerance * std::abs(b);
                                                    }),
                                                    expected))
              << to_string(g) << " " << name(d);
        }
      }
}

TEST(Collective, TheResultIsNotThePartAlsoWhereOneContextIsAlone) {
  const Group g(cpu(0));
  const Tensor x = ones({3});
  Tensor y = all_reduce(g, {x})[0];
  y += 1;
  EXPECT_EQ(values(x), Values(3, 1));
  y = broadcast(g, x)[0];
  y += 1;
  EXPECT_EQ(values(x), Values(3, 1));
}

TEST(Collective, AllReduceWritesIntoTargetsThatMayBeTheParts) {
  for (const Group& g : groups()) {
    const Tensors in = parts(g, {40});
    const Tensors sums = all_reduce(g, in);
    all_reduce(g, in, {.out = in});
    for (size_t i = 0; i < in.size(); ++i) EXPECT_EQ(values(in[i]), values(sums[i]));
  }
}

TEST(Collective, ManyTensorsAreCombinedTogether) {
  for (const Group& g : groups())
    for (const DType d : {f32, f16, f64}) {
      // More than one launch takes; odd lengths, none, a scalar, one that is not aligned, one with
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

TEST(Collective, LargePartsTakeOtherWaysToTheSameSums) {
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

// Larger than what a kernel of ours takes on two GPUs.
TEST(Collective, TheLibrarysSumsAreRightToo) {
  LOCUS_NEEDS_ANY_GPUS(2);
  const Group g(gpus(2));
  const int64_t n = test::emulated_gpus() ? 100000 : 20 << 20;
  const Tensors in{full({n}, 2, g[0]), full({n}, 3, g[1])};
  for (const auto& [op, expected] :
       {std::pair{ReduceOp::sum, 5.}, {ReduceOp::mean, 2.5}, {ReduceOp::prod, 6.}})
    for (const Tensor& y : all_reduce(g, in, {.op = op})) {
      EXPECT_EQ(min(y).item<float>(), expected);
      EXPECT_EQ(max(y).item<float>(), expected);
    }
  all_reduce_many(g, {in});
  for (const Tensor& y : in) EXPECT_EQ(min(y).item<float>() + max(y).item<float>(), 10);
}

// Each of the two would fill a GPU and leave the other no room.
TEST(Collective, LargeSumsSideBySideDoNotWaitForEachOther) {
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
    const int64_t n = g[0].type == DeviceType::gpu && !test::emulated_gpus() ? 4 << 20 : 5000;
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

// What copies wait for is not between the two halves of a sum.
TEST(Collective, SumsAndCopiesOfACompiledFunctionComeInTheirOrder) {
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

TEST(Collective, TargetsThatOverlapAPartOrEachOther) {
  for (const Group& g : groups()) {
    if (g.size() != 2) continue;
    const Tensors all = parts(g, {100001}), expected = all_reduce(g, all);
    Tensors in, out;
    for (const Tensor& x : all)
      in.push_back(x(Slice(0, 100000))), out.push_back(x(Slice(1, 100001)));
    all_reduce(g, in, {.out = out});
    for (const Tensor& y : out) EXPECT_EQ(values(y), values(expected[0](Slice(0, 100000))));
    EXPECT_THROW(all_reduce_many(g, {in, out}), ValueError);
    EXPECT_THROW(all_reduce_many(g, {in, in}), ValueError);
  }
}

TEST(Collective, StreamsOfThreadsKeepTheirSumsApart) {
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
      for (const Tensor& y : x) wrong[t] += abs(y - v).sum().item<double>();
      scopes[1].reset();
      scopes[0].reset();
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, Values(4, 0));
}

TEST(Collective, TheSameBitsComeOnEveryContextAndEachTime) {
  for (const Group& g : groups()) {
    Tensors in;
    for (int i = 0; i < g.size(); ++i)
      in.push_back((arange(1000) * (.1 + i)).astype(f32).copyto(g[i]));
    const Tensors first = all_reduce(g, in), again = all_reduce(g, in);
    for (size_t i = 0; i < in.size(); ++i) {
      EXPECT_EQ(values(first[i]), values(first[0]));
      EXPECT_EQ(values(again[i]), values(first[0]));
    }
  }
}

TEST(Collective, ReduceLeavesTheSumAtTheRoot) {
  for (const Group& g : groups())
    for (int root = 0; root < g.size(); ++root) {
      const Tensor y = reduce(g, parts(g, {6}), root);
      EXPECT_EQ(y.context(), g[root]);
      for (int64_t k = 0; k < 6; ++k)
        EXPECT_EQ(values(y)[static_cast<size_t>(k)], folded(ReduceOp::sum, g.size(), k));
    }
}

TEST(Collective, BroadcastGivesEveryContextACopy) {
  for (const Group& g : groups())
    for (const Tensor& x : parts(g, {2, 3})) {
      const Tensors all = broadcast(g, x);
      for (int i = 0; i < g.size(); ++i) {
        EXPECT_EQ(all[static_cast<size_t>(i)].context(), g[i]);
        EXPECT_EQ(values(all[static_cast<size_t>(i)]), values(x));
      }
    }
}

TEST(Collective, ReduceScatterGivesEachContextItsSlice) {
  for (const Group& g : groups())
    for (int axis : {0, 1, -1}) {
      const int64_t n = g.size();
      const Tensors in = parts(g, {2 * n, 3 * n});
      const Tensors out = reduce_scatter(g, in, {.axis = axis}), whole = all_reduce(g, in);
      for (int i = 0; i < g.size(); ++i) {
        const int64_t length = axis == 0 ? 2 : 3;
        const Tensor& y = out[static_cast<size_t>(i)];
        EXPECT_EQ(y.context(), g[i]);
        EXPECT_EQ(values(y),
                  values(slice_axis(whole[0], axis, Slice(i * length, (i + 1) * length))));
      }
    }
}

TEST(Collective, AllGatherJoinsPartsThatMayDifferInLength) {
  for (const Group& g : groups())
    for (int axis : {0, 1}) {
      Tensors in, on_host;
      for (int i = 0; i < g.size(); ++i) {
        const Shape shape = axis == 0 ? Shape{i + 1, 2} : Shape{2, i + 1};
        in.push_back(full(shape, i, g[i]));
        on_host.push_back(full(shape, i));
      }
      const Tensors out = all_gather(g, in, {.axis = axis});
      for (int i = 0; i < g.size(); ++i) {
        EXPECT_EQ(out[static_cast<size_t>(i)].context(), g[i]);
        EXPECT_EQ(values(out[static_cast<size_t>(i)]), values(concat(on_host, {.axis = axis})));
      }
    }
}

TEST(Collective, AllToAllTransposesSlicesAndContexts) {
  for (const Group& g : groups()) {
    const int64_t n = g.size();
    Tensors in;
    for (int i = 0; i < g.size(); ++i)
      in.push_back(
          (arange(static_cast<double>(n * 2)) + 100 * i).astype(f32).reshape({n, 2}).copyto(g[i]));
    const Tensors out = all_to_all(g, in, {.split_axis = 0, .concat_axis = 1});
    for (int i = 0; i < g.size(); ++i) {
      Values expected;
      for (int from = 0; from < g.size(); ++from)
        for (int k = 0; k < 2; ++k) expected.push_back(100 * from + 2 * i + k);
      EXPECT_EQ(out[static_cast<size_t>(i)].shape(), Shape({1, 2 * n}));
      EXPECT_EQ(values(out[static_cast<size_t>(i)]), expected);
    }
  }
}

// Each result of a collective of parts, weighed and added up, as a function of the parts' joined
// elements.
void check_gradients(const Group& g, const Shape& shape,
                     const std::function<Tensors(const Tensors&)>& collective) {
  const Tensors in = parts(g, shape, f64);
  for (const Tensor& x : in) x.attach_grad();
  Tensors weights;
  const auto loss = [&](const Tensors& x) {
    const Tensors y = collective(x);
    Tensor sum;
    for (size_t i = 0; i < y.size(); ++i) {
      if (weights.size() == i)
        weights.push_back(
            (arange(static_cast<double>(y[i].size())).astype(f64).reshape(y[i].shape()) +
             static_cast<double>(i + 1))
                .copyto(y[i].context()));
      const Tensor part = (y[i] * weights[i]).sum().as_in_context(y[0].context());
      sum = sum.defined() ? sum + part : part;
    }
    return sum;
  };
  Tensor y;
  {
    const autograd::Record record;
    y = loss(in);
  }
  y.backward();
  // What is linear changes by the weight of each element.
  for (size_t i = 0; i < in.size(); ++i) {
    const Values gradient = values(in[i].grad());
    for (size_t k = 0; k < gradient.size(); ++k) {
      Tensors moved = in;
      Values one(gradient.size());
      one[k] = 1;
      moved[i] = in[i].detach() + array(one).astype(f64).reshape(shape).copyto(in[i].context());
      EXPECT_NEAR(gradient[k], loss(moved).item<double>() - y.item<double>(), 1e-9)
          << to_string(g) << " part " << i << " element " << k;
    }
  }
}

TEST(Collective, GradientsAreThoseOfSumsAndCopies) {
  for (const Group& g : groups()) {
    if (g.size() > 3) continue;
    const int64_t n = g.size();
    const Shape shape{n, 2 * n};
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean}) {
      check_gradients(g, shape, [&](const Tensors& x) { return all_reduce(g, x, {.op = op}); });
      check_gradients(g, shape,
                      [&](const Tensors& x) { return Tensors{reduce(g, x, g.size() - 1, op)}; });
      check_gradients(
          g, shape, [&](const Tensors& x) { return reduce_scatter(g, x, {.op = op, .axis = 1}); });
    }
    check_gradients(g, shape, [&](const Tensors& x) { return broadcast(g, x.back()); });
    check_gradients(g, shape, [&](const Tensors& x) { return all_gather(g, x, {.axis = 1}); });
    check_gradients(g, shape, [&](const Tensors& x) {
      return all_to_all(g, x, {.split_axis = 1, .concat_axis = 0});
    });
    // Only one of the results is used.
    check_gradients(g, shape, [&](const Tensors& x) { return Tensors{all_reduce(g, x).back()}; });
  }
}

TEST(Collective, ThereIsNoGradientOfAMaximum) {
  const Group g(hosts(2));
  const Tensors in = parts(g, {3});
  in[0].attach_grad();
  Tensor y;
  {
    const autograd::Record record;
    y = all_reduce(g, in, {.op = ReduceOp::max})[0];
  }
  EXPECT_THAT(test::message_of<Error>([&] { y.backward(); }), HasSubstr("expected sum or mean"));
}

TEST(Collective, ACompiledFunctionReplaysIt) {
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

TEST(Collective, CopiesAreTheCallersInTheLedger) {
  const Group g(hosts(4));
  const Tensors in = parts(g, {256});
  TransferLog log;
  all_reduce(g, in);
  const int line = __LINE__ - 1;
  int64_t count = 0, bytes = 0;
  for (const TransferEntry& e : log.entries()) {
    EXPECT_EQ(e.caller.line, line);
    count += static_cast<int64_t>(e.count);
    bytes += static_cast<int64_t>(e.bytes);
  }
  EXPECT_EQ(count, 6);  // three up, three down
  EXPECT_EQ(bytes, 6 * 1024);
}

TEST(Collective, PartsThatDoNotFitAreNamedAndNothingIsWritten) {
  const Group g(hosts(2));
  const Tensor a = ones({3}, cpu(0)), b = ones({3}, cpu(1));
  EXPECT_THAT(test::message_of<Error>([&] { all_reduce(g, {a}); }),
              AllOf(HasSubstr("all_reduce: 1 parts"), HasSubstr("expected one a context, 2")));
  EXPECT_THROW(all_reduce(g, {}), Error);
  EXPECT_THAT(test::message_of<ContextMismatch>([&] {
                all_reduce(g, {b, a});
              }),
              AllOf(HasSubstr("all_reduce: part 0 of [cpu(0), cpu(1)]"), HasSubstr("cpu(1) (3,)"),
                    HasSubstr("part.as_in_context(cpu(0))")));
  EXPECT_THAT(test::message_of<ShapeError>([&] {
                all_reduce(g, {a, ones({4}, cpu(1))});
              }),
              AllOf(HasSubstr("all_reduce: part 1"), HasSubstr("(4,)"), HasSubstr("(3,)")));
  EXPECT_THROW(all_reduce(g, {a, b.astype(f64)}), DTypeError);
  EXPECT_THROW(all_reduce(g, {a, Tensor()}), Error);
  EXPECT_THROW(all_reduce(g, {a.astype(i32), b.astype(i32)}, {.op = ReduceOp::mean}), DTypeError);
  EXPECT_THROW(all_reduce(g, {a, b}, {.out = {a}}), Error);
  EXPECT_THROW(all_reduce(g, {a, b}, {.out = {a, ones({2}, cpu(1))}}), ShapeError);
  EXPECT_THROW(all_reduce(g, {a, b}, {.out = {b, a}}), ContextMismatch);
  EXPECT_THROW(all_reduce(g, {a, b}, {.out = {a.astype(f64), b}}), DTypeError);
  EXPECT_EQ(values(a), Values(3, 1));
  EXPECT_THAT(test::message_of<ShapeError>([&] {
                reduce_scatter(g, {a, b});
              }),
              AllOf(HasSubstr("reduce_scatter: axis 0"), HasSubstr("multiple of the group's 2")));
  EXPECT_THROW(all_to_all(g, {a, b}), ShapeError);
  EXPECT_THROW(reduce(g, {a, b}, 2), IndexError);
  EXPECT_THROW(reduce(g, {a, b}, -1), IndexError);
  EXPECT_THROW(all_gather(g, {a, b}, {.axis = 1}), ShapeError);
  EXPECT_THAT(test::message_of<ContextMismatch>([&] { broadcast(g, ones({1}, cpu(2))); }),
              HasSubstr("expected it on one of [cpu(0), cpu(1)]"));
}

TEST(Collective, ATrainerRefusesReplicasOfTwoKindsBeforeItChangesAny) {
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
  EXPECT_THAT(test::message_of<ContextMismatch>([&] { trainer.step(2); }),
              AllOf(HasSubstr("Parameter `"), HasSubstr("weight"), HasSubstr("cpu(0) and gpu(0)")));
  EXPECT_EQ(values(net.parameters()[0].second.data(cpu(0))), Values(6, 1));
}

TEST(Group, IsOfContextsOfOneKindEachOnce) {
  EXPECT_EQ(Group(hosts(3)), Group(hosts(3)));
  EXPECT_FALSE(Group(hosts(3)) == Group(hosts(2)));
  EXPECT_EQ(to_string(Group(hosts(2))), "[cpu(0), cpu(1)]");
  EXPECT_NO_THROW(Group({cpu(0), cpu_pinned(0)}));
  EXPECT_THROW(Group({cpu(0), cpu(0)}), ValueError);
  EXPECT_THROW(Group(cpu(100000)), DeviceError);
  EXPECT_THROW(Group(gpu(num_gpus())), DeviceError);
  LOCUS_NEEDS_ANY_GPUS(1);
  EXPECT_THAT(test::message_of<ContextMismatch>([] {
                Group({cpu(0), gpu(0)});
              }),
              HasSubstr("cpu(0) and gpu(0) are contexts of different kinds"));
}

}  // namespace
}  // namespace locus
