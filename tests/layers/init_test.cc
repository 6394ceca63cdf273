#include "tests/support/contexts.h"

#include <cmath>

#include <locus/core/generator.h>
#include <locus/core/kernel.h>
#include <locus/nn/init.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/matmul.h>
#include <locus/ops/reduce.h>

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

TEST(Init, RefusesOptionsOutOfRangeByName) {
  const auto named = [](const char* option, auto make) {
    EXPECT_THAT(test::message_of<ValueError>(make), testing::HasSubstr(option));
  };
  named("init::Uniform: scale -1", [] { init::Uniform(-1); });
  named("init::Normal: sigma", [] { init::Normal(NAN); });
  named("init::Xavier: magnitude", [] { init::Xavier({.magnitude = -3}); });
  named("init::Orthogonal: scale", [] { init::Orthogonal({.scale = INFINITY}); });
  const auto type = static_cast<init::RandomType>(99);
  const auto factor = static_cast<init::FactorType>(3);
  named("init::Xavier: rnd_type 99", [&] { init::Xavier({.rnd_type = type}); });
  named("init::Xavier: factor_type 3", [&] { init::Xavier({.factor_type = factor}); });
  named("init::MSRAPrelu: factor_type 3", [&] { init::MSRAPrelu({.factor_type = factor}); });
  named("init::MSRAPrelu: slope", [] { init::MSRAPrelu({.slope = INFINITY}); });
  named("init::LSTMBias: forget_bias", [] { init::LSTMBias(NAN); });
  named("init::Orthogonal: rand_type 99", [&] { init::Orthogonal({.rand_type = type}); });
  named("init::mine: fill is empty", [] { init::Initializer("mine", {}); });
}

TEST(Init, EqualOnesAreCopiesOrHaveEqualOptions) {
  const auto fill = [](const Shape& shape, DType d) { return ones(shape, {cpu(), d}); };
  const init::Initializer mine("mine", fill), other("mine", fill), copy = mine;
  EXPECT_EQ(mine, copy);
  EXPECT_NE(mine, other);
  EXPECT_EQ(init::Xavier(), init::Xavier());
  EXPECT_NE(init::Xavier(), init::Xavier({.magnitude = 2}));
  EXPECT_EQ(init::Constant(2), init::Constant(2));
  EXPECT_NE(init::Constant(2), init::Constant(3));
  EXPECT_NE(init::Zero(), init::One());
  EXPECT_NE(init::Uniform(1), init::Normal(1));
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

TEST(Init, MSRAPreluIsXavierForLeakyRelus) {
  random::seed(1);
  EXPECT_NEAR(spread(init::MSRAPrelu()({256, 784}, f32)).deviation, std::sqrt(2 / 1.0625 / 520),
              1e-3);
  const init::MSRAPrelu in({.factor_type = init::FactorType::in, .slope = 0});
  EXPECT_NEAR(spread(in({256, 784}, f32)).deviation, std::sqrt(2.0 / 784), 1e-3);
  EXPECT_THROW(in({5}, f32), ShapeError);
}

TEST(Init, OrthogonalRowsOrColumnsAre) {
  random::seed(1);
  for (const init::RandomType type : {init::RandomType::uniform, init::RandomType::gaussian}) {
    for (const Shape& shape : {Shape{20, 50}, Shape{90, 40}, Shape{70, 70}, Shape{16, 3, 2, 5},
                               Shape{7, 7}, Shape{1, 9}, Shape{9, 1}}) {
      const Tensor w = init::Orthogonal({.scale = 2, .rand_type = type})(shape, f64);
      EXPECT_EQ(w.shape(), shape);
      const Tensor m = w.reshape({shape[0], -1});
      const Tensor products = m.shape()[0] <= m.shape()[1] ? dot(m, m.T()) : dot(m.T(), m);
      const Tensor off = products - 4 * eye(products.shape()[0], 0, 0, {cpu(), f64});
      EXPECT_LT(max(maximum(off, -off)).item<double>(), 1e-14) << shape;
    }
  }
  EXPECT_NEAR(norm(init::Orthogonal()({1, 30}, f32)).item<double>(), 1.414, 1e-6);
  EXPECT_EQ(init::Orthogonal()({3, 4}, f16).dtype(), f16);
  EXPECT_EQ(init::Orthogonal()({0, 4}, f32).shape(), (Shape{0, 4}));
  EXPECT_THROW(init::Orthogonal()({5}, f32), ShapeError);
}

TEST(Init, BilinearKernelsUpsample) {  // MXNet 1.9.1
  const Tensor w = init::Bilinear()({2, 1, 4, 4}, f32);
  const std::vector<double> ramp{.25, .75, .75, .25};
  for (int n = 0; n < 2; ++n)
    for (int y = 0; y < 4; ++y)
      for (int x = 0; x < 4; ++x)
        EXPECT_EQ(w(n, 0, y, x).item<double>(), ramp[size_t(y)] * ramp[size_t(x)]);
  const std::vector<double> row = test::values(init::Bilinear()({1, 1, 1, 5}, f64));
  for (size_t x = 0; x < 5; ++x) EXPECT_DOUBLE_EQ(row[x], (x < 3 ? x + 1. : 5. - x) / 3);
  EXPECT_TRUE(init::Bilinear()({3, 2, 2, 2}, f32).contiguous());
  EXPECT_THROW(init::Bilinear()({4, 4}, f32), ShapeError);
}

TEST(Init, LSTMBiasOpensTheForgetGate) {
  EXPECT_EQ(test::values(init::LSTMBias(2)({8}, f32)),
            (std::vector<double>{0, 0, 2, 2, 0, 0, 0, 0}));
  EXPECT_THROW(init::LSTMBias()({6}, f32), ShapeError);
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

TEST(Init, AnInitializerThatWasMovedFromStaysAsItWas) {
  init::Initializer constant = init::Constant(2);
  const init::Initializer taken = std::move(constant);
  EXPECT_EQ(constant, taken);
  EXPECT_EQ(test::values(constant({2}, f32)), (std::vector<double>{2, 2}));
}

}  // namespace
}  // namespace locus
