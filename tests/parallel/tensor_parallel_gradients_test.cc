// Gradients, shapes and dtypes of dense layers that are cut over contexts.
#include <locus/nn/tensor_parallel.h>

#include <utility>

#include <locus/core/amp.h>
#include <locus/core/autograd.h>
#include <locus/core/generator.h>
#include <locus/core/transfer_log.h>
#include <locus/nn/containers.h>
#include <locus/nn/layers.h>
#include <locus/ops/collective.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/join.h>
#include <locus/ops/reduce.h>
#include "tests/ranks/groups.h"
#include "tests/train/training.h"

namespace locus::test {
namespace {

using nn::ColumnParallelDense, nn::RowParallelDense;
using testing::HasSubstr;
using Values = std::vector<double>;

Tensor on_cpu(const Tensors& parts, int axis) {
  Tensors here;
  for (const Tensor& t : parts) here.push_back(t.copyto(cpu()));
  return concat(here, {.axis = axis});
}
// Slices of x along the last axis, as a row takes them.
Tensors cut(const Group& g, const Tensor& x) {
  const int64_t length = x.shape()[x.ndim() - 1], n = g.size();
  Tensors all;
  for (int64_t i = 0, begin = 0; i < n; ++i) {
    const int64_t end = begin + length / n + (i < length % n ? 1 : 0);
    all.push_back(slice_axis(x, -1, Slice(begin, end)).copyto(g[static_cast<int>(i)]));
    begin = end;
  }
  return all;
}
void expect_near(const Tensor& got, const Tensor& expected) {
  ASSERT_EQ(got.shape(), expected.shape());
  const Values a = values(got), b = values(expected);
  for (size_t k = 0; k < b.size(); ++k) EXPECT_NEAR(a[k], b[k], 1e-12);
}
// The same values for all layers of one shape.
auto drawn(auto layer) {
  random::seed(6);
  layer.initialize(init::Xavier());
  return layer;
}
nn::Dense whole(int64_t units, int64_t in, bool flatten = true) {
  return drawn(nn::Dense(units, {}, {.flatten = flatten, .in_units = in, .dtype = f64}));
}

TEST(TensorParallelShapes, WithoutFlattenLeadingAxesStay) {
  const Tensor x = sample_values(cpu(), f64, {2, 3, 4});
  for (const Group& g : groups()) {
    SCOPED_TRACE(to_string(g));
    for (const bool flatten : {true, false})
      for (const bool gathers : {true, false}) {
        auto up = drawn(ColumnParallelDense(7, g.contexts(), {},
                                            {.flatten = flatten,
                                             .gather_output = gathers,
                                             .in_units = flatten ? 12 : 4,
                                             .dtype = f64}));
        const Tensors ys = up(broadcast(g, x.copyto(g[0])));
        expect_near(gathers ? ys.back().copyto(cpu()) : on_cpu(ys, -1),
                    whole(7, flatten ? 12 : 4, flatten)(x));
      }
    if (g.size() > 4) continue;
    auto down = drawn(RowParallelDense(7, g.contexts(), {}, {.in_units = 4, .dtype = f64}));
    for (const Tensor& y : down(cut(g, x))) expect_near(y.copyto(cpu()), whole(7, 4, false)(x));
  }
}

// x is one leaf per context, not a broadcast.
TEST(TensorParallelGradients, OfEqualInputsEachHasTheTermOfItsPart) {
  const Tensor x = sample_values(cpu(), f64, {3, 6});
  for (const Group& g : groups()) {
    SCOPED_TRACE(to_string(g));
    for (const bool row : {false, true}) {
      auto up = drawn(ColumnParallelDense(7, g.contexts(), {},
                                          {.gather_output = true, .in_units = 6, .dtype = f64}));
      auto down = drawn(RowParallelDense(
          7, g.contexts(), {}, {.input_is_parallel = false, .in_units = 6, .dtype = f64}));
      const nn::Dense dense = whole(7, 6);
      const auto gradients = [&](const Tensors& xs, const auto& layer) {
        for (const Tensor& t : xs) t.attach_grad();
        Tensor l;
        {
          const autograd::Record record;
          l = pow(layer(xs), 2).sum();
        }
        l.backward();
        Tensors all;
        for (const Tensor& t : xs) all.push_back(t.grad().copyto(cpu()));
        return all;
      };
      const Tensor expected = gradients(
          {x.copyto(cpu())}, [&](const Tensors& in) { return nn::Dense(dense)(in[0]); })[0];
      Tensors xs;
      for (const Context c : g) xs.push_back(x.copyto(c));
      const Tensors terms =
          gradients(xs, [&](const Tensors& in) { return (row ? down(in) : up(in))[0]; });
      Tensor sum = terms[0];
      for (size_t i = 1; i < terms.size(); ++i) {
        EXPECT_NE(values(terms[i]), values(expected)) << "one term only";
        sum = sum + terms[i];
      }
      expect_near(sum, expected);
      if (!row) continue;
      // Parts of the input have their whole gradients.
      auto parallel = drawn(RowParallelDense(7, g.contexts(), {}, {.in_units = 6, .dtype = f64}));
      expect_near(concat(gradients(cut(g, x), [&](const Tensors& in) { return parallel(in)[0]; }),
                         {.axis = -1}),
                  expected);
    }
  }
}

TEST(TensorParallelGradients, OfEqualLossesAddUp) {
  const Tensor x = sample_values(cpu(), f64, {3, 4});
  for (const Group& g : groups()) {
    if (g.size() > 4) continue;
    SCOPED_TRACE(to_string(g));
    for (const bool row : {false, true}) {
      const auto gradient = [&](bool all) {
        auto up = drawn(ColumnParallelDense(7, g.contexts(), {},
                                            {.gather_output = true, .in_units = 4, .dtype = f64}));
        auto down = drawn(RowParallelDense(
            7, g.contexts(), {}, {.input_is_parallel = false, .in_units = 4, .dtype = f64}));
        Tensors losses;
        {
          const autograd::Record record;
          const Tensors xs = broadcast(g, x.copyto(g[0]));
          for (const Tensor& y : row ? down(xs) : up(xs)) losses.push_back(pow(y, 2).sum());
        }
        if (!all) losses.resize(1);
        autograd::backward(losses);
        const nn::Parameters parts = row ? down.parameters() : up.parameters();
        return parts[0].second.grad().copyto(cpu());
      };
      expect_near(gradient(true), gradient(false) * g.size());
    }
  }
}

TEST(TensorParallelGradients, ThePairMovesOneSumInEachDirection) {
  const auto where = num_gpus() >= 2 ? gpus(2) : hosts(2);
  nn::Sequential net;
  net.add(ColumnParallelDense(8, where, nn::relu, {.in_units = 4}),
          RowParallelDense(6, where, {}, {.in_units = 8}));
  net.initialize(init::Xavier());
  const Tensors xs = broadcast(Group(where), ones({5, 4}, where[0]));
  const auto moved = [](const auto& f) {
    const TransferLog log;
    f();
    uint64_t bytes = 0;
    for (const TransferEntry& e : log.entries()) bytes += e.bytes;
    return bytes;
  };
  Tensor l;
  const uint64_t forth = moved([&] {
    const autograd::Record record;
    l = net(xs)[0];
  });
  const uint64_t back = moved([&] { l.backward(); });
  EXPECT_EQ(forth, 2u * 5 * 6 * sizeof(float));
  EXPECT_EQ(back, forth);
}

TEST(TensorParallelDTypes, AScopeTakesInputsOfAnyFloatingDType) {
  const Group g(hosts(2));
  ColumnParallelDense up(4, g.contexts(), nn::relu, {.in_units = 3});
  RowParallelDense down(2, g.contexts(), {}, {.in_units = 4});
  up.initialize(init::One());
  down.initialize(init::One());
  const auto in = [&](DType d) { return broadcast(g, ones({2, 3}, d)); };
  for (const DType d : {f16, bf16, f64}) EXPECT_THROW(up(in(d)), DTypeError);
  Tensor l;
  {
    const autograd::Record record;
    const amp::Scope mixed(f16);
    // With f64, the layer computes in f64.
    for (const auto& [given, computed] :
         {std::pair{f32, f16}, {f16, f16}, {bf16, f16}, {f64, f64}}) {
      SCOPED_TRACE(name(given));
      const Tensors h = up(in(given));
      const Tensor y = down(h)[0];
      EXPECT_EQ(h[1].dtype(), computed);
      EXPECT_EQ(y.dtype(), computed);
      EXPECT_EQ(values(y), Values(4, 12));
      if (given == f32) l = y;
    }
  }
  l.backward();
  const Tensor gradient = up.parameter("weight.1").grad();
  EXPECT_EQ(gradient.dtype(), f32);
  EXPECT_EQ(values(gradient), Values(6, 4));
}

TEST(TensorParallelShapes, ARowNeedsAnInputPerContextButNotAUnit) {
  const Group g(hosts(3));
  RowParallelDense one(1, g.contexts(), {}, {.input_is_parallel = false});
  one.initialize(init::One());
  EXPECT_THAT(message_of<ShapeError>([&] {
                one(broadcast(g, ones({2, 2})));
              }),
              HasSubstr("at least one per context"));
  for (const Tensor& y : one(broadcast(g, ones({2, 5})))) EXPECT_EQ(values(y), Values(2, 5));
}

TEST(TensorParallelShapes, OnOneContextPartsHaveTheNamesOfADense) {
  ColumnParallelDense up(4, cpu(2), {}, {.in_units = 3});
  RowParallelDense down(4, cpu(2), {}, {.in_units = 3});
  for (const nn::Parameters& all : {up.parameters(), down.parameters()}) {
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0].first, "weight");
    EXPECT_EQ(all[1].first, "bias");
  }
}

TEST(TensorParallelShapes, APartThatMayNotMoveKeepsTheOthersInPlace) {
  nn::Sequential net;
  net.add(nn::Dense(3, {}, {.in_units = 3}), ColumnParallelDense(4, hosts(2), {}, {.in_units = 3}));
  net.initialize(init::One(), cpu(5));
  EXPECT_EQ(net.parameter("1.weight.1").list_ctx(), (std::vector{cpu(1)}));
  EXPECT_THAT(message_of<Error>([&] { net.reset_ctx(cpu(1)); }), HasSubstr("cannot be put on"));
  EXPECT_EQ(net.parameter("0.weight").list_ctx(), (std::vector{cpu(5)}));
}

}  // namespace
}  // namespace locus::test
