// Special functions at poles, signed zeros and infinities, and values from tables. The registry
// walk compares samples.
#include <locus/ops/special.h>

#include <cmath>
#include <limits>

#include <locus/core/autograd.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/unary.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::ElementsAre;

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInf = std::numeric_limits<double>::infinity();

void expect_close(const Tensor& got, const std::vector<double>& want, double relative = 2e-15) {
  const std::vector<double> v = values(got);
  ASSERT_EQ(v.size(), want.size());
  for (size_t i = 0; i < v.size(); ++i) {
    if (std::isnan(want[i]))
      EXPECT_TRUE(std::isnan(v[i])) << i << ": " << v[i];
    else if (std::isinf(want[i]) || want[i] == 0)
      EXPECT_EQ(v[i], want[i]) << i;
    else
      EXPECT_NEAR(v[i], want[i], relative * std::fabs(want[i])) << i;
  }
}

TEST(Special, PolesAreThoseOfC) {
  for (Context c : contexts())
    for (DType d : {f16, f32, f64}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      const Tensor x = array({0., -0., -1., -kInf, kInf, kNan}, {c, d});
      expect_close(gamma(x), {kInf, -kInf, kNan, kNan, kInf, kNan});
      expect_close(lgamma(x), {kInf, kInf, kInf, kInf, kInf, kNan});
      expect_close(digamma(x), {-kInf, kInf, kNan, kNan, kInf, kNan});
      expect_close(polygamma(1, x), {kInf, kInf, kInf, kNan, 0, kNan});
      expect_close(polygamma(2, x), {-kInf, kInf, kNan, kNan, 0, kNan});
      expect_close(erfinv(array({1., -1., 1.5, -2., 0.}, {c, d})), {kInf, -kInf, kNan, kNan, 0});
      expect_close(sinc(array({0., 1., -3., kInf, kNan}, {c, d})), {1, 0, 0, kNan, kNan});
      expect_close(erfc(array({kInf, -kInf, 0.}, {c, d})), {0, 2, 1});
    }
}

TEST(Special, ValuesAreThoseOfTables) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const auto of = [&](std::vector<double> v) { return array(v, {c, f64}); };
    expect_close(gamma(of({.5, 5, 171.5, -1.5, -170.5, 1e-308, -40.5})),
                 {1.7724538509055161, 24, 9.4833675668247993e307, 2.3632718012073548,
                  -3.3127395215386074e-308, 1e308, -6.0316608221785075e-49},
                 4e-15);
    expect_close(lgamma(of({5e-324, 3.5, 1e300})),
                 {744.44007192138122, 1.2009736023470743, 6.8977552789821368e302}, 4e-15);
    expect_close(digamma(of({1, .1, -.5, 1e10, 1.5})),
                 {-.57721566490153286, -10.423754940411076, .03648997397857652, 23.025850929890457,
                  .03648997397857652},
                 2e-14);
    expect_close(polygamma(1, of({1, .5, -.5})),
                 {1.6449340668482264, 4.9348022005446793, 8.9348022005446793}, 4e-15);
    expect_close(polygamma(3, of({1})), {6.4939394022668291}, 4e-15);
    expect_close(
        erfinv(of({.5, -.99, 1 - 0x1p-53, 1e-300})),
        {.47693627620446988, -1.8213863677184496, 5.8635847487551676, 8.8622692545275801e-301},
        2e-15);
    expect_close(erfc(of({3, 27})), {2.2090496998585441e-5, 5.2370489237892557e-319}, 1e-3);
    expect_close(sinc(of({.5, 1000000.5, 1e-20})), {.63661977236758134, 3.1830972702892716e-7, 1});
  }
}

TEST(Special, IntegersGiveF64) {
  EXPECT_EQ(gamma(array({5})).dtype(), f64);
  EXPECT_THAT(values(gamma(array({5, 1}))), ElementsAre(24, 1));
  EXPECT_EQ(sinc(array({true})).dtype(), f64);
}

TEST(Special, OrdersOfPolygammaAreChecked) {
  const std::string text = message_of<ValueError>([] { polygamma(-1, ones({2})); });
  EXPECT_THAT(text, testing::HasSubstr("polygamma"));
  EXPECT_THAT(text, testing::HasSubstr("expected an integer from 0 to 1000 for n, got -1"));
}

TEST(Special, SlopesOfSincDoNotCancelNearZero) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const double pi = 3.14159265358979323846;
    const std::vector<double> at{0, 1e-300, 1e-9, 1e-4, -1e-4};
    const Tensor x = array(at, {c, f64});
    x.attach_grad();
    Tensor first, second;
    {
      const autograd::Record record;
      first = autograd::grad(sinc(x), {x}, {.create_graph = true})[0];
      second = autograd::grad(first, {x}, {.create_graph = true})[0];
    }
    std::vector<double> one, two;
    for (double v : at) {
      const double t = pi * v;
      one.push_back(pi * (-t / 3 + t * t * t / 30));
      two.push_back(pi * pi * (-1. / 3 + t * t / 10));
    }
    expect_close(first, one, 1e-14);
    expect_close(second, two, 1e-13);
    EXPECT_THAT(values(autograd::grad(second, {x})[0])[0], 0);
  }
}

TEST(NanToNum, ReplacesAndHasGradient0There) {
  for (Context c : contexts())
    for (DType d : {f16, bf16, f32, f64}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      const Tensor x = array({kNan, kInf, -kInf, 2.}, {c, d});
      const double most = d == f16    ? 65504
                          : d == bf16 ? 0x1.fep127
                          : d == f32  ? 0x1.fffffep127
                                      : std::numeric_limits<double>::max();
      EXPECT_THAT(values(nan_to_num(x)), ElementsAre(0, most, -most, 2));
      EXPECT_THAT(values(nan_to_num(x, 7, 8, 9)), ElementsAre(7, 8, 9, 2));
      x.attach_grad();
      {
        const autograd::Record record;
        nan_to_num(x).sum().backward();
      }
      EXPECT_THAT(values(x.grad()), ElementsAre(0, 0, 0, 1));
    }
  EXPECT_THAT(values(nan_to_num(array({3, -4}))), ElementsAre(3, -4));
  EXPECT_THAT(message_of<ValueError>([] { nan_to_num(ones({2}, f16), 1e30); }),
              testing::HasSubstr("for nan, got 1e+30"));
}

TEST(RoundToDecimals, GoesToEvenInTheDType) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const auto of = [&](std::vector<double> v, DType d) { return array(v, {c, d}); };
    EXPECT_THAT(values(round(of({.5, 1.5, 2.5, -.5}, f64), 0)), ElementsAre(0, 2, 2, 0));
    EXPECT_THAT(values(round(of({.125, .375, 1e300, kInf}, f64), 2)),
                ElementsAre(.12, .38, 1e300, kInf));
    EXPECT_THAT(values(round(of({15, 25, -35, 4}, f64), -1)), ElementsAre(20, 20, -40, 0));
    EXPECT_THAT(values(round(of({1e308, -3}, f64), 5)), ElementsAre(1e308, -3));
    EXPECT_THAT(values(round(of({5, -5}, f64), -400)), ElementsAre(0, 0));
    EXPECT_TRUE(std::isnan(values(round(of({kNan}, f32), 1))[0]));
    // .55 is 5.498 tenths, which is 5.5 in f16.
    EXPECT_EQ(values(round(of({.55, 1000}, f16), 1)), values(of({.6, 1000}, f16)));
    EXPECT_EQ(values(round(of({6e4}, f16), 3)), values(of({6e4}, f16)));
    EXPECT_EQ(values(round(of({.55}, f32), 1)), values(of({.6f}, f32)));
  }
}

TEST(RoundToDecimals, OfIntegersIsExact) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x =
        array({int64_t{9223372036854775807}, int64_t{-9223372036854775807} - 1,
               int64_t{1234567890123456785}, int64_t{-25}, int64_t{5000000000000000000}},
              c);
    EXPECT_EQ(round(x, 3).to_vector<int64_t>(), x.to_vector<int64_t>());
    EXPECT_THAT(round(x, -1).to_vector<int64_t>(),
                ElementsAre(-9223372036854775806, 9223372036854775806, 1234567890123456780, -20,
                            5000000000000000000));
    EXPECT_THAT(round(x, -18).to_vector<int64_t>(),
                ElementsAre(9000000000000000000, -9000000000000000000, 1000000000000000000, 0,
                            5000000000000000000));
    EXPECT_THAT(round(x, -19).to_vector<int64_t>(),
                ElementsAre(-8446744073709551616, 8446744073709551616, 0, 0, 0));
    EXPECT_THAT(values(round(x, -20)), ElementsAre(0, 0, 0, 0, 0));
    EXPECT_THAT(values(round(array({255, 25, 15}, c).astype(u8), -1)), ElementsAre(4, 20, 20));
    EXPECT_THAT(values(round(array({2147483647, 50}, c).astype(i32), -10)), ElementsAre(0, 0));
    EXPECT_EQ(round(array({25}, c).astype(i8), -1).dtype(), i8);
  }
}

TEST(AngleOf, PointsHasTheSignsOfC) {
  for (Context c : contexts())
    for (DType d : {f32, f64}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      const std::vector<double> ends{0, -0., 1, -1, kInf, -kInf, 3};
      std::vector<double> y, x, want;
      for (double a : ends)
        for (double b : ends) {
          y.push_back(a);
          x.push_back(b);
          want.push_back(std::atan2(a, b));
        }
      const std::vector<double> got = values(arctan2(array(y, {c, d}), array(x, {c, d})));
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_NEAR(got[i], want[i], d == f64 ? 1e-15 : 5e-7) << y[i] << " " << x[i];
        EXPECT_EQ(std::signbit(got[i]), std::signbit(want[i])) << y[i] << " " << x[i];
      }
    }
}

TEST(Logaddexp, OfInfinitiesIsNoNaN) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({kInf, -kInf, -kInf, 1e300, kNan}, {c, f64});
    const Tensor y = array({kInf, -kInf, 2., 1e300, -kInf}, {c, f64});
    x.attach_grad();
    Tensor z;
    {
      const autograd::Record record;
      z = logaddexp(x, y);
      z.backward();
    }
    expect_close(z, {kInf, -kInf, 2, 1e300, kNan});
    expect_close(x.grad(), {.5, .5, 0, .5, kNan});
  }
}

TEST(Steps, HaveValuesAtZero) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({kNan, 0., -0., 2., -2.}, {c, f64});
    expect_close(heaviside(x, .5), {kNan, .5, .5, 1, 0});
    const Tensor signs = copysign(array({0., 1., -3.}, {c, f64}), array({-0., -2., 0.}, {c, f64}));
    EXPECT_THAT(values(signs), ElementsAre(0, -1, 3));
    EXPECT_TRUE(std::signbit(values(signs)[0]));
    EXPECT_EQ(copysign(array({3}, c), -1).dtype(), f64);
  }
}

}  // namespace
}  // namespace locus::test
