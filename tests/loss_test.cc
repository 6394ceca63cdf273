#include "tests/contexts.h"

#include <cmath>

#include <locus/locus.h>

namespace locus {
namespace {

using testing::ElementsAre;
using Values = std::vector<double>;

void expect_near(const Tensor& x, const Values& expected, double tolerance = 1e-6) {
  const Values v = test::values(x);
  ASSERT_EQ(v.size(), expected.size());
  for (size_t i = 0; i < v.size(); ++i) EXPECT_NEAR(v[i], expected[i], tolerance) << i;
}
double log_sum(const Values& z) {
  double sum = 0;
  for (double v : z) sum += std::exp(v);
  return std::log(sum);
}

TEST(SoftmaxCrossEntropyLoss, IsPerSample) {
  const double row0 = log_sum({1, 2, 3}), row1 = log_sum({0, -1, 1});
  for (Context c : test::contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor pred = array({{1.f, 2.f, 3.f}, {0.f, -1.f, 1.f}}, c);
    nn::SoftmaxCrossEntropyLoss loss;
    const Tensor y = loss(pred, array({2, 0}, c));
    EXPECT_EQ(y.shape(), (Shape{2}));
    expect_near(y, {row0 - 3, row1 - 0});
    expect_near(loss(pred, array({2, 0}, c), array({0.5f, 2.f}, c)), {(row0 - 3) / 2, row1 * 2});
    expect_near(nn::SoftmaxCrossEntropyLoss({.weight = 3})(pred, array({2, 0}, c)),
                {(row0 - 3) * 3, row1 * 3}, 1e-5);
    const Tensor log_p = log_softmax(pred, {.axis = -1});
    expect_near(nn::SoftmaxCrossEntropyLoss({.from_logits = true})(log_p, array({2, 0}, c)),
                {row0 - 3, row1});
    const Tensor soft = array({{0.5f, 0.5f, 0.f}, {0.f, 0.f, 1.f}}, c);
    expect_near(nn::SoftmaxCrossEntropyLoss({.sparse_label = false})(pred, soft),
                {row0 - 1.5, row1 - 1});
  }
}

TEST(SoftmaxCrossEntropyLoss, AnyAxisAndTheMeanOfTheRest) {
  // (batch 1, classes 2, positions 2)
  const Tensor pred = array({{{1.f, 2.f}, {3.f, 5.f}}});
  const Tensor label = array({{0, 1}});
  const double expected = ((log_sum({1, 3}) - 1) + (log_sum({2, 5}) - 5)) / 2;
  expect_near(nn::SoftmaxCrossEntropyLoss({.axis = 1})(pred, label), {expected});
  expect_near(nn::SoftmaxCrossEntropyLoss()(swapaxes(pred, 1, 2), label), {expected});
  EXPECT_THROW(nn::SoftmaxCrossEntropyLoss()(pred, array({0, 1, 1})), ShapeError);
}

// Gluon keeps the classes' axis: pred (N, C) takes weights (N, 1).
TEST(SoftmaxCrossEntropyLoss, SampleWeightsKeepTheBatchApart) {
  const double row0 = log_sum({1, 2, 3}), row1 = log_sum({0, -1, 1});
  for (Context c : test::contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor pred = array({{1.f, 2.f, 3.f}, {0.f, -1.f, 1.f}}, c), label = array({2, 0}, c);
    const Tensor column = array({{0.5f}, {2.f}}, c), flat = array({0.5f, 2.f}, c);
    const Tensor soft = one_hot(label, 3), log_p = log_softmax(pred);
    const Values expected{(row0 - 3) / 2, row1 * 2};
    for (const Tensor& w : {column, flat}) {
      expect_near(nn::SoftmaxCrossEntropyLoss()(pred, label, w), expected);
      expect_near(nn::SoftmaxCrossEntropyLoss({.sparse_label = false})(pred, soft, w), expected);
      expect_near(nn::SoftmaxCrossEntropyLoss({.from_logits = true})(log_p, label, w), expected);
      EXPECT_EQ(nn::SoftmaxCrossEntropyLoss()(pred, label, w).shape(), (Shape{2}));
    }
    EXPECT_THROW(nn::SoftmaxCrossEntropyLoss()(pred, label, ones({3}, c)), ShapeError);
    EXPECT_THROW(nn::SoftmaxCrossEntropyLoss()(pred, label, ones({3, 1}, c)), ShapeError);
  }
}

TEST(SoftmaxCrossEntropyLoss, WeighsPositionsOfAnImage) {
  // (batch 2, classes 2, positions 2)
  const Tensor pred = sample_values(cpu(), f32, {2, 2, 2}), label = array({{0, 1}, {1, 1}});
  const nn::SoftmaxCrossEntropyLoss loss({.axis = 1});
  const Tensor w = array({{1.f, 3.f}, {2.f, 0.f}});
  const Tensor first = loss(pred, label, array({{1.f, 0.f}, {1.f, 0.f}}));
  const Tensor second = loss(pred, label, array({{0.f, 1.f}, {0.f, 1.f}}));
  const Tensor expected = first * w(Slice(), 0) + second * w(Slice(), 1);
  expect_near(loss(pred, label, w), test::values(expected));
  expect_near(loss(pred, label, w.reshape({2, 1, 2})), test::values(expected));
}

TEST(Losses, SampleWeightsDoNotGrowTheBatch) {
  const Tensor x = array({1.f, 2.f}), y = array({0.f, 0.f});
  EXPECT_THROW(nn::L2Loss()(x, y, ones({2, 1})), ShapeError);
  EXPECT_THROW(nn::SigmoidBinaryCrossEntropyLoss()(x, y, ones({2, 1})), ShapeError);
  const Tensor rows = array({{1.f, 2.f}, {3.f, 5.f}});
  expect_near(nn::L1Loss()(rows, zeros({2, 2}), array({{2.f}, {1.f}})), {3, 4});
}

TEST(SoftmaxCrossEntropyLoss, GradientIsProbabilityMinusTarget) {
  for (Context c : test::contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor pred = array({{1.f, 2.f, 3.f}}, c);
    pred.attach_grad();
    Tensor y;
    {
      autograd::Record record;
      y = nn::SoftmaxCrossEntropyLoss()(pred, array({1}, c));
    }
    y.backward();
    const double z = log_sum({1, 2, 3});
    expect_near(pred.grad(), {std::exp(1 - z), std::exp(2 - z) - 1, std::exp(3 - z)});
  }
}

TEST(Losses, ElementwiseOnesAverageOverTheOtherAxes) {
  for (Context c : test::contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor pred = array({{1.f, 2.f}, {3.f, 5.f}}, c),
                 label = array({{0.f, 4.f}, {3.f, 1.f}}, c);
    expect_near(nn::L2Loss()(pred, label), {(0.5 + 2) / 2, (0.0 + 8) / 2});
    expect_near(nn::L2Loss(2)(pred, label), {2.5, 8});
    expect_near(nn::L1Loss()(pred, label), {1.5, 2});
    expect_near(nn::L1Loss()(pred, label.reshape({4})), {1.5, 2});
    EXPECT_THROW(nn::L1Loss()(pred, array({1.f}, c)), ShapeError);
    const Tensor z = array({{0.f, 1.f}, {1.f, 0.f}}, c);
    const auto bce = [](double x, double t) {
      return std::max(x, 0.0) - x * t + std::log1p(std::exp(-std::abs(x)));
    };
    const Values expected{(bce(1, 0) + bce(2, 1)) / 2, (bce(3, 1) + bce(5, 0)) / 2};
    expect_near(nn::SigmoidBinaryCrossEntropyLoss()(pred, z), expected, 1e-5);
    expect_near(nn::SigmoidBinaryCrossEntropyLoss({.from_sigmoid = true})(sigmoid(pred), z),
                expected, 1e-4);
  }
}

TEST(Losses, OfCertainAndRightProbabilitiesAreZero) {
  for (Context c : test::contexts()) {
    for (DType d : {f16, f32}) {
      const Tensor certain = array({0.f, 1.f}, {c, d});
      const nn::SigmoidBinaryCrossEntropyLoss of_probabilities({.from_sigmoid = true});
      for (double v : test::values(of_probabilities(certain, certain))) EXPECT_NEAR(v, 0, 1e-6);
      for (double v : test::values(of_probabilities(certain, 1 - certain)))
        EXPECT_TRUE(v > 15 && v < 30);
      const Tensor logit = array({-INFINITY, INFINITY}, {c, d});
      logit.attach_grad();
      {
        const autograd::Record record;
        const Tensor loss = nn::SigmoidBinaryCrossEntropyLoss()(logit, certain);
        EXPECT_THAT(test::values(loss), ElementsAre(0, 0));
        loss.backward();
      }
      EXPECT_THAT(test::values(logit.grad()), ElementsAre(0, 0));
    }
  }
}

TEST(Losses, OfLogitsSlopeTowardsTheLabel) {
  for (Context c : test::contexts()) {
    const Tensor logit = array({INFINITY, -INFINITY, 0.f, 0.f}, c);
    logit.attach_grad();
    const autograd::Record record;
    nn::SigmoidBinaryCrossEntropyLoss()(logit, array({0.f, 1.f, 0.f, .5f}, c)).backward();
    EXPECT_THAT(test::values(logit.grad()), ElementsAre(1, -1, .5, 0)) << c;
  }
}

TEST(SoftmaxCrossEntropyLoss, TakesOnlyWholeLabelsOfClasses) {
  const Tensor pred = array({{1.f, 2.f, 3.f}});
  for (bool from_logits : {false, true}) {
    const nn::SoftmaxCrossEntropyLoss loss({.from_logits = from_logits});
    for (float label : {1.5f, -1.f, 3.f}) EXPECT_THROW(loss(pred, array({label})), IndexError);
    EXPECT_THROW(loss(pred, array({-1})), IndexError);
    EXPECT_NO_THROW(loss(pred, array({2.f})));
  }
}

}  // namespace
}  // namespace locus
