// Collectives against explicit sums and slices, on the host, emulated and real GPUs.
#include <locus/ops/collective.h>

#include <functional>
#include <optional>

#include <locus/core/autograd.h>
#include <locus/core/transfer_log.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/join.h>
#include <locus/ops/reduce.h>
#include "tests/ranks/groups.h"

namespace locus::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Values = std::vector<double>;

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

TEST(Collective, ResultsHaveTheSameBitsOnEveryContextAndEachTime) {
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

// For each context, its predecessor in a ring.
std::vector<int> neighbours(const Group& g) {
  std::vector<int> all;
  for (int i = 0; i < g.size(); ++i) all.push_back((i + g.size() - 1) % g.size());
  return all;
}

TEST(Collective, SendRecvTakesEachPartWhereItIsAskedFor) {
  for (const Group& g : groups()) {
    Tensors in;
    for (int i = 0; i < g.size(); ++i)
      in.push_back(full({i + 1}, i, {g[i], i % 2 == 0 ? f32 : i64}));
    std::vector<int> sources = neighbours(g);
    if (g.size() > 2) sources[2] = -1, sources[1] = 2;
    const Tensors out = send_recv(g, in, sources);
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(out[i].defined(), sources[i] >= 0);
      if (sources[i] < 0) continue;
      const Tensor& sent = in[static_cast<size_t>(sources[i])];
      EXPECT_EQ(out[i].context(), g[static_cast<int>(i)]);
      EXPECT_EQ(out[i].dtype(), sent.dtype());
      EXPECT_EQ(values(out[i]), values(sent));
      EXPECT_FALSE(out[i].shares_memory_with(sent));
    }
  }
}

// Checks gradients of a weighted sum of a collective's results with respect to each element of the
// parts.
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
  // A linear function changes by the weight of each element.
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
    check_gradients(g, shape, [&](const Tensors& x) { return send_recv(g, x, neighbours(g)); });
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
  EXPECT_THAT(message_of<Error>([&] { y.backward(); }), HasSubstr("expected sum or mean"));
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
  EXPECT_THAT(message_of<Error>([&] { all_reduce(g, {a}); }),
              AllOf(HasSubstr("all_reduce: 1 parts"), HasSubstr("expected one per context, 2")));
  EXPECT_THROW(all_reduce(g, {}), Error);
  EXPECT_THAT(message_of<ContextMismatch>([&] {
                all_reduce(g, {b, a});
              }),
              AllOf(HasSubstr("all_reduce: part 0 of [cpu(0), cpu(1)]"), HasSubstr("cpu(1) (3,)"),
                    HasSubstr("part.as_in_context(cpu(0))")));
  EXPECT_THAT(message_of<ShapeError>([&] {
                all_reduce(g, {a, ones({4}, cpu(1))});
              }),
              AllOf(HasSubstr("all_reduce: part 1"), HasSubstr("(4,)"), HasSubstr("(3,)")));
  EXPECT_THROW(all_reduce(g, {a, b.astype(f64)}), DTypeError);
  EXPECT_THAT(message_of<Error>([&] {
                all_reduce(g, {a, Tensor()});
              }),
              HasSubstr("all_reduce: part 1 of [cpu(0), cpu(1)] is an empty Tensor"));
  EXPECT_THROW(all_reduce(g, {a.astype(i32), b.astype(i32)}, {.op = ReduceOp::mean}), DTypeError);
  EXPECT_THROW(all_reduce(g, {a, b}, {.out = {a}}), Error);
  EXPECT_THROW(all_reduce(g, {a, b}, {.out = {a, ones({2}, cpu(1))}}), ShapeError);
  EXPECT_THROW(all_reduce(g, {a, b}, {.out = {b, a}}), ContextMismatch);
  EXPECT_THROW(all_reduce(g, {a, b}, {.out = {a.astype(f64), b}}), DTypeError);
  for (const bool recorded : {false, true}) {
    std::optional<autograd::Record> record;
    if (recorded) record.emplace();
    EXPECT_THAT(message_of<Error>([&] {
                  all_reduce(g, {a, b}, {.out = {zeros({3}, cpu(0)), Tensor()}});
                }),
                HasSubstr("all_reduce: target 1 of [cpu(0), cpu(1)] is an empty Tensor"));
  }
  EXPECT_EQ(values(a), Values(3, 1));
  EXPECT_THAT(message_of<ShapeError>([&] {
                reduce_scatter(g, {a, b});
              }),
              AllOf(HasSubstr("reduce_scatter: axis 0"), HasSubstr("multiple of the group's 2")));
  EXPECT_THROW(all_to_all(g, {a, b}), ShapeError);
  EXPECT_THROW(reduce(g, {a, b}, 2), IndexError);
  EXPECT_THROW(reduce(g, {a, b}, -1), IndexError);
  EXPECT_THROW(all_gather(g, {a, b}, {.axis = 1}), ShapeError);
  EXPECT_THROW(send_recv(g, {a}, {0, 0}), Error);
  EXPECT_THROW(send_recv(g, {a, b}, {0}), Error);
  EXPECT_THROW(send_recv(g, {b, a}, {0, 1}), ContextMismatch);
  EXPECT_THAT(message_of<IndexError>([&] {
                send_recv(g, {a, b}, {0, 2});
              }),
              HasSubstr("send_recv: source 2; expected 0 to 1, or -1"));
  EXPECT_THAT(message_of<ContextMismatch>([&] { broadcast(g, ones({1}, cpu(2))); }),
              HasSubstr("expected it on one of [cpu(0), cpu(1)]"));
}

TEST(Collective, ACombinationThatIsNoneIsAnError) {
  const Group g(hosts(2));
  const Tensors parts{ones({2}, cpu(0)), ones({2}, cpu(1))};
  const std::vector<Tensors> many{parts};
  const int root = 0;
  const auto none = static_cast<ReduceOp>(9);
  const std::function<void()> calls[] = {[&] { all_reduce(g, parts, {.op = none}); },
                                         [&] { reduce(g, parts, 0, none); },
                                         [&] { reduce_scatter(g, parts, {.op = none}); },
                                         [&] { all_reduce_many(g, many, {.op = none}); },
                                         [&] {
                                           reduce_many(g, many, {&root, 1}, {.op = none});
                                         }};
  for (const auto& call : calls)
    EXPECT_THAT(message_of<ValueError>(call),
                AllOf(HasSubstr("reduce"), HasSubstr("ReduceOp 9: expected a ReduceOp, one of "
                                                     "sum, mean, max, min, prod")));
  EXPECT_EQ(values(parts[0]), Values(2, 1));
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
  EXPECT_THAT(message_of<ContextMismatch>([] {
                Group({cpu(0), gpu(0)});
              }),
              HasSubstr("cpu(0) and gpu(0) are contexts of different kinds"));
}

}  // namespace
}  // namespace locus::test
