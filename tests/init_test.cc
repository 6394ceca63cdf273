#include "tests/contexts.h"

#include <cmath>

#include <locus/locus.h>

namespace locus {
namespace {

struct Spread {
  double low, high, mean, deviation;
};
Spread spread(const Tensor& x) {
  Spread s{1e9, -1e9, 0, 0};
  const std::vector<double> v = test::values(x);
  for (double e : v) {
    s.low = std::min(s.low, e);
    s.high = std::max(s.high, e);
    s.mean += e / static_cast<double>(v.size());
  }
  for (double e : v) s.deviation += (e - s.mean) * (e - s.mean) / static_cast<double>(v.size());
  s.deviation = std::sqrt(s.deviation);
  return s;
}

TEST(Init, UniformFillsItsRange) {
  random::seed(1);
  const Spread s = spread(init::Uniform()({200, 100}, f32));
  EXPECT_GE(s.low, -0.07);
  EXPECT_LT(s.low, -0.069);
  EXPECT_LE(s.high, 0.0700001);
  EXPECT_GT(s.high, 0.069);
  EXPECT_NEAR(s.mean, 0, 0.002);
}

TEST(Init, NormalHasItsDeviation) {
  random::seed(1);
  const Spread s = spread(init::Normal()({200, 100}, f32));
  EXPECT_NEAR(s.mean, 0, 0.0005);
  EXPECT_NEAR(s.deviation, 0.01, 0.0003);
}

TEST(Init, XavierScalesByItsFans) {
  random::seed(1);
  // sqrt(3 / ((784 + 256) / 2))
  const Spread avg = spread(init::Xavier()({256, 784}, f32));
  EXPECT_NEAR(avg.high, std::sqrt(3.0 / 520), 1e-4);
  EXPECT_NEAR(avg.low, -std::sqrt(3.0 / 520), 1e-4);
  const Spread in =
      spread(init::Xavier({.factor_type = init::FactorType::in, .magnitude = 6})({256, 784}, f32));
  EXPECT_NEAR(in.high, std::sqrt(6.0 / 784), 1e-4);
  const Spread out = spread(init::Xavier({.rnd_type = init::RandomType::gaussian,
                                          .factor_type = init::FactorType::out,
                                          .magnitude = 2})({256, 784}, f32));
  EXPECT_NEAR(out.deviation, std::sqrt(2.0 / 256), 1e-3);
  // The receptive field of a convolution multiplies both fans.
  const Spread conv = spread(init::Xavier()({64, 32, 3, 3}, f32));
  EXPECT_NEAR(conv.high, std::sqrt(3.0 / (96 * 9 / 2.0)), 1e-3);
  EXPECT_THROW(init::Xavier()({5}, f32), ShapeError);
}

TEST(Init, ConstantsAndDtypes) {
  EXPECT_EQ(test::values(init::Zero()({2}, f32)), (std::vector<double>{0, 0}));
  EXPECT_EQ(test::values(init::One()({2}, f64)), (std::vector<double>{1, 1}));
  EXPECT_EQ(test::values(init::Constant(2.5)({2}, f16)), (std::vector<double>{2.5, 2.5}));
  for (DType d : {f32, f64, f16, bf16}) EXPECT_EQ(init::Uniform()({3}, d).dtype(), d);
}

TEST(Init, TheSeedDecides) {
  random::seed(9);
  const std::vector<double> a = test::values(init::Xavier()({4, 5}, f32));
  EXPECT_NE(a, test::values(init::Xavier()({4, 5}, f32)));
  random::seed(9);
  EXPECT_EQ(a, test::values(init::Xavier()({4, 5}, f32)));
}

}  // namespace
}  // namespace locus
