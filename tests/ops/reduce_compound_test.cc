// Reductions with accumulators of several members, or with attributes.
#include <cmath>
#include <limits>

#include <locus/core/autograd.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/reduce.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus::test {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;

const double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();

double number(const Tensor& x) { return values(x).at(0); }

// Values 1e4 + noise, and their variance in f64.
std::vector<double> noise(int64_t n, double& variance) {
  std::vector<double> v(static_cast<size_t>(n));
  double mean = 0;
  for (size_t i = 0; i < v.size(); ++i) {
    v[i] = static_cast<float>(1e4 + std::sin(static_cast<double>(i * i % 10007)));
    mean += v[i] / static_cast<double>(n);
  }
  variance = 0;
  for (double x : v) variance += (x - mean) * (x - mean) / static_cast<double>(n);
  return v;
}

TEST(Var, GivesNumPysValues) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = from_values({1, 2, 4, 5, 5, 5}, {2, 3}, c, f64);
    EXPECT_NEAR(number(var(x)), 2.5555555555555554, 1e-15);
    EXPECT_NEAR(number(locus::std(x, {.ddof = 1})), 1.7511900715418263, 1e-15);
    EXPECT_THAT(values(var(x, {.axis = 1})), ElementsAre(DoubleNear(14. / 9, 1e-15), 0));
    EXPECT_EQ(var(x, {.axis = 0, .keepdims = true}).shape(), (Shape{1, 3}));
    EXPECT_EQ(var(x.astype(i32)).dtype(), f64);
    EXPECT_EQ(number(var(from_values({3}, {1}, c, f16))), 0);
  }
}

TEST(Var, DividesByNothingLeft) {
  for (Context c : contexts()) {
    const Tensor x = from_values({1, 2}, {2}, c, f32);
    EXPECT_EQ(number(var(x, {.ddof = 2})), kInf);
    EXPECT_EQ(number(var(x, {.ddof = 5})), kInf);
    EXPECT_TRUE(std::isnan(number(var(ones({3}, c), {.ddof = 3}))));
    EXPECT_TRUE(std::isnan(number(var(zeros({0}, c)))));
    EXPECT_TRUE(std::isnan(number(var(from_values({1, kInf}, {2}, c, f32)))));
  }
}

TEST(Var, OfLargeNumbersWithASmallSpreadIsAccurate) {
  for (int64_t n : {5, 100, 4096, 1'000'000}) {
    double variance;
    const std::vector<double> v = noise(n, variance);
    for (Context c : contexts()) {
      SCOPED_TRACE(to_string(c) + " " + std::to_string(n));
      const Tensor x = from_values(v, {n}, c, f32);
      EXPECT_NEAR(number(var(x)) / variance, 1, 1e-6);
      const Tensor down = broadcast_to(x.reshape({n, 1}), {n, 9}) + 0;
      EXPECT_NEAR(values(var(down, {.axis = 0}))[8] / variance, 1, 1e-6);
    }
  }
}

TEST(Var, StandsAnOutlierInFront) {
  std::vector<double> v(5000, 1);
  for (size_t i = 0; i < v.size(); i += 2) v[i] = -1;
  v[0] = 1e6;
  for (Context c : contexts()) {
    const double got = number(var(from_values(v, {5000}, c, f32)));
    EXPECT_NEAR(got / (1e12 / 5000 * 4999 / 5000), 1, 1e-5) << c;
  }
}

TEST(Std, HasGradientZeroWhereItIsZero) {
  const Tensor x = from_values({2, 2, 2}, {3}, cpu(), f32);
  x.attach_grad();
  {
    const autograd::Record record;
    locus::std(x).backward();
  }
  EXPECT_THAT(values(x.grad()), ElementsAre(0, 0, 0));
}

TEST(LogSumExp, NeitherOverflowsNorLosesInfinities) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const auto of = [&](const std::vector<double>& v, DType d = f32) {
      return number(logsumexp(from_values(v, {static_cast<int64_t>(v.size())}, c, d)));
    };
    EXPECT_NEAR(of({1000, 1000}), 1000 + std::log(2), 1e-4);
    EXPECT_NEAR(of({-1000, -1001}, f64), -1000 + std::log1p(std::exp(-1)), 1e-12);
    EXPECT_NEAR(of({3, -kInf, 3}), 3 + std::log(2), 1e-6);
    EXPECT_EQ(of({-kInf, -kInf}), -kInf);
    EXPECT_EQ(of({}), -kInf);
    EXPECT_EQ(of({kInf, 1, kInf}), kInf);
    EXPECT_EQ(of({kInf, -kInf}), kInf);
    EXPECT_TRUE(std::isnan(of({1, kNaN, kInf})));
    std::vector<double> many(5000, -kInf);
    many[4500] = kNaN;
    EXPECT_TRUE(std::isnan(of(many)));
  }
}

TEST(LogSumExp, OfMinusInfinityHasGradientZero) {
  const Tensor x = from_values({-kInf, -kInf, 0, -kInf}, {2, 2}, cpu(), f32);
  x.attach_grad();
  {
    const autograd::Record record;
    logsumexp(x, {.axis = 1}).backward();
  }
  EXPECT_THAT(values(x.grad()), ElementsAre(0, 0, 1, 0));
}

TEST(Norm, HasEveryOrder) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = from_values({3, -4, 0, 1, 2, -2}, {2, 3}, c, f64);
    EXPECT_THAT(values(norm(x, {.axis = 1})), ElementsAre(5, 3));
    EXPECT_THAT(values(norm(x, {.ord = 1, .axis = 1})), ElementsAre(7, 5));
    EXPECT_THAT(values(norm(x, {.ord = kInf, .axis = 1})), ElementsAre(4, 2));
    EXPECT_THAT(values(norm(x, {.ord = -kInf, .axis = 1})), ElementsAre(0, 1));
    EXPECT_THAT(values(norm(x, {.ord = 0, .axis = 1})), ElementsAre(2, 3));
    EXPECT_NEAR(number(norm(x, {.ord = 3})), std::cbrt(27 + 64 + 1 + 8 + 8), 1e-12);
    EXPECT_EQ(number(norm(x, {.ord = -1})), 0);  // an element is 0
    EXPECT_THROW(norm(zeros({0}, c), {.ord = kInf}), ShapeError);
    EXPECT_EQ(number(norm(zeros({0}, c), {.ord = 3})), 0);
    const ReduceOptions rows{.axis = 1};
    EXPECT_THAT(values(norm(x, rows)), ElementsAre(5, 3));
  }
  EXPECT_THAT(message_of<ValueError>([] { norm(ones({2}), {.ord = kNaN}); }), HasSubstr("norm"));
  EXPECT_THROW(var(ones({2}), {.ddof = kNaN}), ValueError);
}

TEST(Norm, OfLargeAndSmallFloatsDoesNotOverflow) {
  for (Context c : contexts()) {
    for (DType d : {f32, bf16}) {
      const Tensor x = full({4}, 1e30, {c, d}), y = full({4}, 1e-30, {c, d});
      EXPECT_NEAR(number(norm(x)) / 2e30, 1, d == f32 ? 1e-6 : 1e-2);
      EXPECT_NEAR(number(norm(y)) / 2e-30, 1, d == f32 ? 1e-6 : 1e-2);
      EXPECT_NEAR(number(norm(x, {.ord = 3})) / std::cbrt(4e90), 1, d == f32 ? 1e-6 : 1e-2);
      EXPECT_NEAR(number(norm(x, {.ord = 20})) / 1e30 / std::pow(4, .05), 1,
                  d == f32 ? 1e-6 : 1e-2);
    }
  }
}

TEST(Norm, OfF64ReachesAsFarAsItsElements) {
  for (Context c : contexts()) {
    for (double v : {1e-305, 1e-300, 1e-160, 1e-140, 1e140, 1e160, 1e300}) {
      SCOPED_TRACE(v);
      for (int64_t n : {4, 64, 900}) {
        const Tensor x = full({n}, v, {c, f64});
        EXPECT_NEAR(number(norm(x)) / (v * std::sqrt(n)), 1, 1e-13);
        for (double ord : {.5, 3., 20., -1., -3.})
          EXPECT_NEAR(number(norm(x, {.ord = ord})) / v * std::pow(n, -1 / ord), 1, 1e-13);
      }
    }
    const Tensor far = array({1e-200, 3e200, 1., 4e200, 1e-200}, {c, f64});
    EXPECT_NEAR(number(norm(far)) / 5e200, 1, 1e-15);
    EXPECT_NEAR(number(norm(array({3e-200, 0., 4e-200}, {c, f64}))) / 5e-200, 1, 1e-15);
    const double inf = std::numeric_limits<double>::infinity();
    EXPECT_EQ(number(norm(array({1., inf, -inf}, {c, f64}))), inf);
    EXPECT_TRUE(std::isnan(number(norm(array({1., double{NAN}, inf}, {c, f64})))));
    EXPECT_EQ(number(norm(array({1., inf}, {c, f64}), {.ord = 3})), inf);
    EXPECT_EQ(number(norm(array({0., 2.}, {c, f64}), {.ord = -1})), 0);
  }
}

}  // namespace
}  // namespace locus::test
