// Exchanges of parts by each algorithm: equal on devices and host, eager and compiled.
#include <locus/ops/collective.h>

#include <locus/core/compile.h>
#include <locus/core/transfer_log.h>
#include <locus/ops/elementwise.h>
#include "tests/ranks/groups.h"

namespace locus::test {
namespace {

using testing::HasSubstr;
using Values = std::vector<double>;

std::vector<Group> device_groups() {
  std::vector<Group> all;
  for (int n = 2; n <= num_gpus(); ++n) all.emplace_back(gpus(n));
  return all;
}

void expect_same(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].defined(), b[i].defined());
    if (!a[i].defined()) continue;
    EXPECT_EQ(a[i].shape(), b[i].shape());
    EXPECT_EQ(values(a[i]), values(b[i])) << i;
  }
}

// All exchanges, in sequence. The parts have two axes, each a multiple of the group's size.
Tensors all_exchanges(const Group& g, const Tensors& in) {
  Tensors all = broadcast(g, in.back());
  const auto add = [&](const Tensors& more) { all.insert(all.end(), more.begin(), more.end()); };
  for (const int axis : {0, 1}) {
    add(all_gather(g, in, {.axis = axis}));
    add(all_to_all(g, in, {.split_axis = axis, .concat_axis = 0}));
    add(reduce_scatter(g, in, {.axis = axis}));
  }
  std::vector<int> sources(static_cast<size_t>(g.size()), 0);
  sources.back() = -1;
  add(send_recv(g, in, sources));
  add({reduce(g, in, g.size() - 1)});
  return all;
}

TEST(CollectiveExchange, GivesWhatTheHostsContextsGet) {
  LOCUS_NEEDS_ANY_GPUS(2);
  for (const Group& g : device_groups())
    for (const DType d : {f32, f16, f64, i64, u8, bool_})
      // The largest uses copies.
      for (const int64_t n : {1, 111, 7000, emulated_gpus() ? 10 : 600000}) {
        if (n == 600000 && d != f32) continue;
        SCOPED_TRACE(to_string(g) + name(d) + std::to_string(n));
        const bool adds = d != u8 && d != bool_;
        const auto of = [&](const Group& where) {
          Tensors x = parts(where, {2 * g.size(), n * g.size()}, adds ? d : i32);
          if (!adds)
            for (Tensor& t : x) t = t.astype(d);
          return all_exchanges(where, x);
        };
        expect_same(of(g), of(Group(hosts(g.size()))));
      }
}

TEST(CollectiveExchange, TakesPartsWithGapsAndWithoutAlignment) {
  LOCUS_NEEDS_ANY_GPUS(2);
  for (const Group& g : device_groups()) {
    SCOPED_TRACE(to_string(g));
    const int64_t n = g.size();
    const auto of = [&](const Group& where, int way) {
      Tensors x = parts(where, {n, 3001 * n + 1});
      for (Tensor& t : x)
        t = way == 0   ? t(Slice(), Slice(1, 3001 * n + 1))
            : way == 1 ? t.reshape({t.size()})(Slice(1, 3000 * n * n + 1)).reshape({n, 3000 * n})
                       : t(Slice(), Slice(0, 3000 * n)).T();
      return all_exchanges(where, x);
    };
    for (const int way : {0, 1, 2}) expect_same(of(g, way), of(Group(hosts(g.size())), way));
  }
}

TEST(CollectiveExchange, OfTwoReduceScatterIsTheSliceOfAllReduceToTheBit) {
  for (const Group& g : groups()) {
    if (g.size() != 2) continue;
    for (const DType d : {f32, f16, bf16})
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean})
        for (const int64_t n : {6, 500000}) {
          Tensors in;
          for (int i = 0; i < 2; ++i)
            in.push_back((arange(static_cast<double>(n)) * (.1 + i)).astype(d).copyto(g[i]));
          const Tensors some = reduce_scatter(g, in, {.op = op}),
                        all = all_reduce(g, in, {.op = op});
          for (int i = 0; i < 2; ++i) {
            const auto k = static_cast<size_t>(i);
            EXPECT_EQ(values(some[k]), values(all[k](Slice(i * n / 2, (i + 1) * n / 2))))
                << to_string(g) << name(d);
          }
        }
  }
}

TEST(CollectiveExchange, ManyTensorsGetTheirRootsValues) {
  for (const Group& g : groups()) {
    std::vector<Tensors> many;
    std::vector<int> roots;
    for (int k = 0; k < 70; ++k) {
      many.push_back(parts(g, {k * 37 % 50, k % 3}, k % 2 == 0 ? f32 : f16));
      roots.push_back(k % 7 == 0 ? 0 : g.size() - 1);
    }
    for (Tensor& t : many[44]) t = t(Slice(0, 20, 3));
    std::vector<Values> expected;
    for (size_t k = 0; k < many.size(); ++k)
      expected.push_back(values(many[k][static_cast<size_t>(roots[k])]));
    broadcast_many(g, many, roots);
    for (size_t k = 0; k < many.size(); ++k)
      for (const Tensor& t : many[k])
        EXPECT_EQ(values(t), expected[k]) << to_string(g) << " tensor " << k;
    const std::vector<Tensors> one{parts(g, {2})};
    EXPECT_THROW(broadcast_many(g, one, std::vector<int>{g.size()}), IndexError);
    EXPECT_THAT(message_of<Error>([&] { broadcast_many(g, one, roots); }),
                HasSubstr("70 roots for 1 tensors"));
  }
}

TEST(CollectiveExchange, ACompiledFunctionReplaysIt) {
  for (const Group& g : groups()) {
    const int64_t n = g.size();
    Compiled f([&](const Tensors& x) {
      Tensors y = all_exchanges(g, x);
      std::vector<Tensors> many{Tensors()};
      for (int i = 0; i < g.size(); ++i) many[0].push_back(x[static_cast<size_t>(i)] * 3);
      reduce_many(g, many, std::vector<int>{0});
      broadcast_many(g, many, std::vector<int>{0});
      for (const Tensor& t : many[0]) y.push_back(t * 1);
      Tensors defined;
      for (const Tensor& t : y)
        if (t.defined()) defined.push_back(t * 2);
      return defined;
    });
    for (int round = 0; round < 4; ++round) {
      Tensors in = parts(g, {n, 50 * n}), there = parts(Group(hosts(g.size())), {n, 50 * n});
      for (Tensors* x : {&in, &there})
        for (Tensor& t : *x) t = t + round;
      const Tensors out = f(in);
      size_t k = 0;
      for (const Tensor& t : all_exchanges(Group(hosts(g.size())), there)) {
        if (!t.defined()) continue;
        EXPECT_EQ(values(out[k]), values(t * 2)) << to_string(g) << round << " " << k;
        ++k;
      }
      const Values sum = values(all_reduce(Group(hosts(g.size())), there)[0] * 6);
      for (; k < out.size(); ++k) EXPECT_EQ(values(out[k]), sum) << to_string(g) << round;
    }
  }
}

TEST(CollectiveExchange, BytesThatGoFromContextToContextAreInTheLedger) {
  for (const Group& g : groups()) {
    const Tensors in = parts(g, {g.size(), 64});
    const auto bytes = [&](const auto& f) {
      TransferLog log;
      f();
      uint64_t sum = 0;
      for (const TransferEntry& e : log.entries()) {
        EXPECT_NE(e.from, e.to);
        sum += e.bytes;
      }
      return sum;
    };
    const auto others = static_cast<uint64_t>(g.size() - 1), row = uint64_t{256},
               all = row * (others + 1);
    EXPECT_EQ(bytes([&] { broadcast(g, in[0]); }), others * all) << to_string(g);
    EXPECT_EQ(bytes([&] { all_gather(g, in); }), (others + 1) * others * all) << to_string(g);
    EXPECT_EQ(bytes([&] { all_to_all(g, in); }), (others + 1) * others * row) << to_string(g);
    EXPECT_EQ(bytes([&] { reduce_scatter(g, in); }), (others + 1) * others * row) << to_string(g);
    EXPECT_EQ(bytes([&] { reduce(g, in); }), others * all) << to_string(g);
  }
}

}  // namespace
}  // namespace locus::test
