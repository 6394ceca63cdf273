// Gradients of reductions with zeros, ties, and of second order.
#include <cmath>
#include <limits>

#include <locus/core/autograd.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/reduce.h>
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus::test {
namespace {

using testing::ElementsAre;
using Values = std::vector<double>;

TEST(ReduceGradient, ProductIsExactWhereElementsAreZero) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = from_values({2, 0, 3, 0, 0, 5, 2, 3, 4}, {3, 3}, c, f32);
    x.attach_grad();
    {
      const autograd::Record record;
      prod(x, {.axis = 1}).backward();
    }
    EXPECT_THAT(values(x.grad()), ElementsAre(0, 6, 0, 0, 0, 0, 12, 8, 6));
  }
}

TEST(ReduceGradient, OfMaxIsForEveryEqualElement) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = from_values({1, 3, 3, 2, 0, 1}, {2, 3}, c, f32);
    x.attach_grad();
    {
      const autograd::Record record;
      max(x, {.axis = 1}).backward();
    }
    EXPECT_THAT(values(x.grad()), ElementsAre(0, 1, 1, 1, 0, 0));
  }
}

TEST(ReduceGradient, OfTheNormOfZeroIsZero) {
  const Tensor x = zeros({3});
  x.attach_grad();
  {
    const autograd::Record record;
    norm(x).backward();
  }
  EXPECT_THAT(values(x.grad()), ElementsAre(0, 0, 0));
}

Values slope_of(const Function& f, const std::vector<double>& v, DType d) {
  return values(gradients(f, {from_values(v, {static_cast<int64_t>(v.size())}, cpu(), d)}).at(0));
}
const double kInf = std::numeric_limits<double>::infinity();

TEST(ReduceGradient, OfNormsWithZerosAmongTheElementsIsFinite) {
  const double w = weights(1, 0)[0];
  for (double ord : {.5, 1.5, 3., 4.}) {
    const auto f = [ord](const Tensors& x) { return Tensors{norm(x[0], {.ord = ord})}; };
    const Values g = slope_of(f, {0, 1e-30, -1e-30}, f32), part = slope_of(f, {0, 1, -1}, f32);
    EXPECT_EQ(g[0], 0) << ord;
    EXPECT_NEAR(g[1] / w, std::pow(2, 1 / ord - 1), 1e-5) << ord;
    EXPECT_NEAR(g[2], -g[1], 1e-6);
    EXPECT_NEAR(part[1], g[1], 1e-6);
  }
  const auto inverse = [](const Tensors& x) { return Tensors{norm(x[0], {.ord = -3})}; };
  EXPECT_THAT(slope_of(inverse, {0, 1e-20, 1}, f32), ElementsAre(0, 0, 0));
}

TEST(ReduceGradient, OfFiniteElementsBesideAnInfiniteOneIsZero) {
  for (double ord : {3., 1.5}) {
    const auto f = [ord](const Tensors& x) { return Tensors{norm(x[0], {.ord = ord})}; };
    const double w = weights(1, 0)[0];
    EXPECT_THAT(slope_of(f, {2, kInf, -3}, f32), ElementsAre(0, testing::DoubleNear(w, 1e-6), 0));
  }
}

TEST(ReduceGradient, OfSubnormalResultsIsFinite) {
  const double w = weights(1, 0)[0];
  const auto length = [](const Tensors& x) { return Tensors{norm(x[0])}; };
  EXPECT_THAT(slope_of(length, {0, 1e-40}, f32), ElementsAre(0, testing::DoubleNear(w, 1e-6)));
  const auto spread = [](const Tensors& x) { return Tensors{locus::std(x[0])}; };
  const Values g = slope_of(spread, {0, 1e-6}, f16);  // (x - mean) / std / 2
  EXPECT_NEAR(g[1], w / 2, .1);
  EXPECT_NEAR(g[0], -w / 2, .1);
}

TEST(ReduceGradient, OfLogSumExpAtInfinity) {
  const auto f = [](const Tensors& x) { return Tensors{logsumexp(x[0])}; };
  const double w = static_cast<float>(weights(1, 0)[0]);
  EXPECT_THAT(slope_of(f, {1, kInf}, f32), ElementsAre(0, w));
  EXPECT_THAT(slope_of(f, {-kInf, kInf}, f32), ElementsAre(0, w));
  EXPECT_THAT(slope_of(f, {-kInf, 5}, f32), ElementsAre(0, w));
}

TEST(ReduceGradient, HasASecondOrder) {
  // f = sum((mean(x^2, 1))^2): gradient 4 m x / n; of its sum: 4 m / n + 8 x sum(x) / n^2.
  const std::vector<double> v = {1, 2, -1, 0.5, 3, -2};
  const Tensor x = from_values(v, {2, 3}, cpu(), f64);
  x.attach_grad();
  Tensor g;
  {
    autograd::Record record;
    const Tensor m = mean(x * x, {.axis = 1});
    g = autograd::grad(sum(m * m), {x}, {.create_graph = true})[0];
    sum(g).backward();
  }
  for (int r = 0; r < 2; ++r) {
    const double *a = &v[static_cast<size_t>(3 * r)], total = a[0] + a[1] + a[2];
    const double m = (a[0] * a[0] + a[1] * a[1] + a[2] * a[2]) / 3;
    for (int i = 0; i < 3; ++i)
      EXPECT_NEAR(values(x.grad())[static_cast<size_t>(3 * r + i)],
                  4 * m / 3 + 8 * a[i] * total / 9, 1e-12);
  }
}

TEST(ReduceGradient, OfAMeanOfManyHalves) {
  const Tensor x = ones({1000000}, f16);
  x.attach_grad();
  {
    const autograd::Record record;
    (mean(x) * 60000.).backward();
  }
  EXPECT_NEAR(x.grad()(0).item<float>(), .06f, 1e-4f);
}

TEST(ReduceGradient, AMeansIsRoundedOnceAlsoWhereTheDtypeHasNotTheirNumber) {
  for (Context c : contexts())
    for (const DType d : {f16, bf16})
      for (const int64_t n : {3, 257, 2051, 40007}) {
        const Tensor x = ones({n}, {c, d});
        x.attach_grad();
        Tensor y;
        {
          const autograd::Record record;
          y = mean(x) * 64;
        }
        y.backward();
        const Tensor expected = full({n}, 64. / static_cast<double>(n), {c, f64}).astype(d);
        EXPECT_EQ(values(x.grad()), values(expected)) << name(d) << " " << n;
      }
}

// The gradient of f at x times `head`, with intermediate values outside the dtype.
std::vector<double> scaled_slope(const std::function<Tensor(const Tensor&)>& f,
                                 const std::vector<double>& x, double head, TensorOptions options) {
  const Tensor at =
      from_values(x, {static_cast<int64_t>(x.size())}, *options.context, *options.dtype);
  at.attach_grad();
  Tensor y;
  {
    const autograd::Record record;
    y = f(at);
  }
  y.backward({.head_gradient = full({}, head, {*options.context, y.dtype()})});
  return values(at.grad());
}

TEST(ReduceGradient, FitsWhereItsFactorsDoNot) {
  for (Context c : contexts()) {
    const auto product = [](const Tensor& x) { return prod(x); };
    EXPECT_NEAR(scaled_slope(product, {1000, .0625}, 1024, {c, f16})[0], 64, .1) << c;
    EXPECT_NEAR(scaled_slope(product, {1e38, .01}, 65536, {c, f32})[0], 655.36, 1e-3) << c;
    const auto log_sum = [](const Tensor& x) { return logsumexp(x); };
    EXPECT_NEAR(scaled_slope(log_sum, {0, -18}, 65504, {c, f16})[1], 65504 * std::exp(-18.), 1e-6)
        << c;
    const auto length = [](const Tensor& x) { return norm(x); };
    EXPECT_NEAR(scaled_slope(length, {60000, .001}, 65504, {c, f16})[1], 65504 * .001 / 60000, 1e-5)
        << c;
    std::vector<double> wide(64, -60000);
    wide[0] = 60000;
    const auto spread = [](const Tensor& x) { return std(x); };
    const double mean = -60000 + 120000. / 64, of_first = (60000 - mean) / 64;
    const double y = std::sqrt(120000. * 120000 / 64 * (1 - 1. / 64));
    EXPECT_NEAR(scaled_slope(spread, wide, 1024, {c, f16})[0], 1024 * of_first / y, .2) << c;
  }
}

TEST(ReduceGradient, OfAProductFitsWhereTheProductDoesNot) {
  for (Context c : contexts()) {
    const auto product = [](const Tensor& x) { return prod(x); };
    const auto slopes = [&](const Values& x, double head = 1) {
      return scaled_slope(product, x, head, {c, f64});
    };
    EXPECT_THAT(slopes({0x1p-700, -0x1p-600}), ElementsAre(-0x1p-600, 0x1p-700)) << c;
    EXPECT_THAT(slopes({0x1p700, 0x1.8p600}), ElementsAre(0x1.8p600, 0x1p700)) << c;
    EXPECT_THAT(slopes({0x1p-1074, 3}), ElementsAre(3, 0x1p-1074)) << c;
    EXPECT_THAT(slopes({0x1p-700, 0x1p-400, 0x1p800}), ElementsAre(0x1p400, 0x1p100, 0)) << c;
    EXPECT_THAT(slopes({0x1p900, 0, 0x1p900, 0x1p-800}), ElementsAre(0, 0x1p1000, 0, 0)) << c;
    EXPECT_THAT(slopes({0x1p1000, 0x1p600}, 0x1p-800), ElementsAre(0x1p-200, 0x1p200)) << c;
    // The product of the mantissas, 1.4 each, exceeds f64; the product of the elements fits.
    Values many(4000, 1.4);
    for (size_t i = 0; i < many.size(); i += 2) many[i] = .7;
    const Values g = slopes(many);
    const double all = std::pow(.98, 2000);
    EXPECT_NEAR(g[0] / all, 1 / .7, 1e-9) << c;
    EXPECT_NEAR(g[1] / all, 1 / 1.4, 1e-9) << c;
  }
}

TEST(ReduceGradient, OfAProductOutOfRangeHasASecondOrder) {
  for (const double v : {0x1p-600, 0x1p600}) {
    const Tensor x = from_values({v, v}, {2}, cpu(), f64);
    x.attach_grad();
    {
      const autograd::Record record;
      sum(autograd::grad(prod(x), {x}, {.create_graph = true})[0]).backward();
    }
    EXPECT_THAT(values(x.grad()), ElementsAre(1, 1)) << v;
  }
}

}  // namespace
}  // namespace locus::test
