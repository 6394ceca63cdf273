#include "tests/support/contexts.h"

#include <cmath>

#include <locus/core/autograd.h>
#include <locus/core/generator.h>
#include <locus/core/kernel.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/block.h>
#include <locus/nn/containers.h>
#include <locus/nn/init.h>
#include <locus/nn/layers.h>
#include <locus/nn/loss.h>
#include <locus/nn/norm_layers.h>
#include <locus/nn/parameter.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>

namespace locus {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Values = std::vector<double>;

TEST(Dense, TransposesItsWeightAndAddsTheBias) {
  for (Context c : test::contexts()) {
    SCOPED_TRACE(to_string(c));
    nn::Dense layer(2);
    layer.initialize(c);
    layer(zeros({1, 3}, c));
    layer.parameter("weight").set_data(array({{1.f, 2.f, 3.f}, {-4.f, -5.f, -6.f}}));
    layer.parameter("bias").set_data(array({10.f, 20.f}));
    const Tensor y = layer(array({{1.f, 1.f, 1.f}, {1.f, 0.f, 2.f}}, c));
    EXPECT_EQ(y.context(), c);
    EXPECT_THAT(test::values(y), ElementsAre(16, 5, 17, 4));
  }
}

TEST(Dense, AppliesItsActivation) {
  const nn::Activation mine{"relu6", [](const Tensor& x) { return minimum(maximum(x, 0), 6); }};
  const Values x{-1, 2, 7};
  const auto apply = [&](const nn::Activation& activation) {
    nn::Dense layer(1, activation, {.use_bias = false});
    layer.initialize(init::One(), cpu());
    return test::values(layer(array({{-1.f}, {2.f}, {7.f}})));
  };
  EXPECT_EQ(apply({}), x);
  EXPECT_EQ(apply(nn::relu), (Values{0, 2, 7}));
  EXPECT_EQ(apply(mine), (Values{0, 2, 6}));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(apply(nn::sigmoid)[i], 1 / (1 + std::exp(-x[i])), 1e-6);
    EXPECT_NEAR(apply(nn::tanh)[i], std::tanh(x[i]), 1e-6);
    EXPECT_NEAR(apply(nn::softrelu)[i], std::log1p(std::exp(x[i])), 1e-5);
    EXPECT_NEAR(apply(nn::gelu)[i], x[i] / 2 * std::erfc(-x[i] / std::sqrt(2.0)), 1e-3);
  }
}

TEST(Dense, FlattensByDefault) {
  const Tensor x = sample_values(cpu(), f32, {2, 3, 4});
  nn::Dense flat(5);
  flat.initialize();
  EXPECT_EQ(flat(x).shape(), (Shape{2, 5}));
  EXPECT_EQ(flat.parameter("weight").shape(), (Shape{5, 12}));
  nn::Dense last(5, nn::relu, {.flatten = false});
  last.initialize();
  EXPECT_EQ(last(x).shape(), (Shape{2, 3, 5}));
  EXPECT_EQ(last.parameter("weight").shape(), (Shape{5, 4}));
}

TEST(Dense, RefusesDataWithoutFeatures) {
  nn::Dense dense(3);
  dense.initialize();
  EXPECT_THAT(test::message_of<ShapeError>([&] {
                dense(ones({4, 0}));
              }),
              testing::HasSubstr("Dense: input cpu(0) (4,0) f32 has no features"));
  EXPECT_EQ(dense(ones({0, 2})).shape(), Shape({0, 3}));
}

TEST(Dense, TakesItsInputWidthFromInUnits) {
  nn::Dense layer(2, {}, {.in_units = 3, .bias_initializer = init::Constant(4), .dtype = f64});
  layer.initialize(init::Zero(), cpu());
  EXPECT_EQ(layer.parameter("weight").data().shape(), (Shape{2, 3}));
  EXPECT_THAT(test::values(layer(ones({1, 3}, f64))), ElementsAre(4, 4));
  EXPECT_THROW(layer(ones({1, 4}, f64)), ShapeError);
  EXPECT_THROW(nn::Dense(0), ShapeError);
}

TEST(Dense, TheSeedTranscript) {  // d2l 4.6.5, cells [12] to [14]
  for (Context c : test::contexts()) {
    nn::Sequential net;
    net.add(nn::Dense(1));
    net.initialize(c);
    const Tensor y = net(ones({2, 3}, c));
    EXPECT_EQ(y.shape(), (Shape{2, 1}));
    EXPECT_EQ(y.context(), c);
    const Tensor w = net[0].parameter("weight").data();
    EXPECT_EQ(w.context(), c);
    EXPECT_EQ(w.shape(), (Shape{1, 3}));
    double sum = 0;
    for (double v : test::values(w)) {
      EXPECT_LE(std::abs(v), 0.0700001);
      sum += v;
    }
    EXPECT_NEAR(test::values(y)[0], sum, 1e-6);
    EXPECT_EQ(test::values(y)[0], test::values(y)[1]);
  }
}

TEST(Sequential, IndexesFromBothEnds) {
  nn::Sequential net;
  net.add(nn::Dense(2), nn::Flatten());
  EXPECT_EQ(net.size(), 2);
  EXPECT_EQ(net[-1].type_name(), "Flatten");
  EXPECT_THAT(test::message_of<IndexError>([&] { net[2]; }), HasSubstr("layer 2; there are 2"));
  EXPECT_THROW(net[-3], IndexError);
}

TEST(Layers, FlattenAndLambda) {
  nn::Sequential net;
  net.add(nn::Flatten(), nn::Lambda([](const Tensor& x) { return x * 2; }, "double"));
  const Tensor y = net(ones({2, 3, 4}));
  EXPECT_EQ(y.shape(), (Shape{2, 12}));
  EXPECT_EQ(test::values(y), Values(24, 2));
  EXPECT_EQ(net[1].repr(), "Lambda(double)");
}

TEST(Layers, RefuseOptionsOutOfRangeByName) {
  const auto named = [](const char* option, auto make) {
    EXPECT_THAT(test::message_of<ValueError>(make), testing::HasSubstr(option));
  };
  named("Dropout: rate -0.1", [] { nn::Dropout(-.1); });
  named("Dropout: rate nan", [] { nn::Dropout{NAN}; });
  named("BatchNorm: epsilon -1", [] { nn::BatchNorm({.epsilon = -1}); });
  named("BatchNorm: momentum 1.5", [] { nn::BatchNorm({.momentum = 1.5}); });
  named("LayerNorm: epsilon", [] { nn::LayerNorm({.epsilon = NAN}); });
  named("GroupNorm: epsilon", [] { nn::GroupNorm({.epsilon = INFINITY}); });
  named("GroupNorm: num_groups 0", [] { nn::GroupNorm({.num_groups = 0}); });
  named("InstanceNorm: epsilon", [] { nn::InstanceNorm({.epsilon = -1}); });
  named("RMSNorm: epsilon", [] { nn::RMSNorm({.epsilon = -1}); });
  named("LeakyReLU: alpha", [] { nn::LeakyReLU(-1); });
  named("ELU: alpha", [] { nn::ELU{NAN}; });
  named("Swish: beta", [] { nn::Swish{INFINITY}; });
  named("Hardtanh: a_min 1", [] { nn::Hardtanh(1, -1); });
  named("weight nan", [] { nn::L2Loss({.weight = NAN}); });
  named("margin", [] { nn::HingeLoss({.margin = INFINITY}); });
  named("epsilon", [] { nn::PoissonNLLLoss({.epsilon = -1}); });
  named("Lambda: function is empty", [] { nn::Lambda(std::function<Tensor(const Tensor&)>()); });
}

TEST(Dropout, ActsOnlyWhileTraining) {  // MXNet: test_autograd.py::test_is_train
  for (Context c : test::contexts()) {
    SCOPED_TRACE(to_string(c));
    random::seed(4);
    const Tensor x = ones({100, 100}, c);
    x.attach_grad();
    nn::Dropout drop(0.5);
    EXPECT_TRUE(drop(x).is(x));
    Tensor y;
    {
      autograd::Record record;
      y = drop(x);
    }
    y.backward();
    double dropped = 0;
    const Values v = test::values(y);
    for (double e : v) {
      EXPECT_TRUE(e == 0 || e == 2) << e;
      dropped += e == 0;
    }
    EXPECT_NEAR(dropped / 10000, 0.5, 0.03);
    EXPECT_EQ(test::values(x.grad()), v);
    autograd::Record predict(false);
    EXPECT_TRUE(drop(x).is(x));
  }
  EXPECT_THROW(nn::Dropout(1.0), Error);
}

TEST(To, IsAVisibleAndDifferentiableMove) {
  const std::vector<Context> all = test::distinct_contexts();
  for (Context c : all) {
    SCOPED_TRACE(to_string(c));
    nn::Dense first(2), second(1);
    nn::Sequential net;
    net.add(first, nn::To(c), second);
    first.initialize(init::One(), cpu());
    second.initialize(init::One(), c);
    Tensor y;
    {
      autograd::Record record;
      y = net(ones({1, 3}));
    }
    EXPECT_EQ(y.context(), c);
    EXPECT_THAT(test::values(y), ElementsAre(6));
    y.backward();
    EXPECT_EQ(first.parameter("weight").grad().context(), cpu());
    EXPECT_EQ(test::values(first.parameter("weight").grad()), Values(6, 1));
    EXPECT_EQ(test::values(second.parameter("weight").grad()), (Values{3, 3}));
  }
}

}  // namespace
}  // namespace locus
