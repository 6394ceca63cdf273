#include <cmath>
#include <functional>

#include <locus/core/autograd.h>
#include <locus/nn/loss.h>
#include <locus/ops/activation.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include <locus/ops/softmax.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

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
TEST(SoftmaxCrossEntropyLoss, SampleWeightsScaleEachSampleAlone) {
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
    expect_near(nn::L2Loss({.weight = 2})(pred, label), {2.5, 8});
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

TEST(Losses, NameThemselvesInErrors) {
  EXPECT_THAT(test::message_of<ValueError>([] { nn::L1Loss({.weight = NAN}); }),
              testing::StartsWith("L1Loss: weight nan"));
  EXPECT_THAT(test::message_of<ValueError>([] { nn::HingeLoss({.margin = NAN}); }),
              testing::StartsWith("HingeLoss: margin nan"));
  EXPECT_THAT(test::message_of<ValueError>([] { nn::PoissonNLLLoss({.epsilon = -1}); }),
              testing::StartsWith("PoissonNLLLoss: epsilon -1"));
  EXPECT_THAT(test::message_of<ValueError>(
                  [] { nn::LogisticLoss({.label_format = static_cast<nn::LabelFormat>(99)}); }),
              testing::StrEq("LogisticLoss: label_format 99; expected LabelFormat::signed_ or "
                             "LabelFormat::binary"));
  EXPECT_THROW(nn::CTCLoss({.layout = static_cast<nn::CTCLayout>(2)}), ValueError);
  EXPECT_THROW(nn::CTCLoss({.label_layout = static_cast<nn::CTCLabelLayout>(2)}), ValueError);
  const Tensor pred = ones({2, 3});
  EXPECT_THAT(test::message_of<ShapeError>([&] { nn::L2Loss()(pred, pred, ones({4})); }),
              testing::StartsWith("L2Loss: sample_weight cpu(0) (4,) f32"));
}

TEST(SoftmaxCrossEntropyLoss, TakesOnlyWholeLabelsOfClasses) {
  const Tensor pred = array({{1.f, 2.f, 3.f}});
  for (bool from_logits : {false, true}) {
    const nn::SoftmaxCrossEntropyLoss loss({.from_logits = from_logits});
    for (float label : {1.5f, -1.f, 3.f}) EXPECT_THROW(loss(pred, array({label})), IndexError);
    EXPECT_THAT(
        test::message_of<IndexError>([&] { loss(pred, array({-1})); }),
        testing::StartsWith("SoftmaxCrossEntropyLoss: label cpu(0) (1,) i64: expected whole "
                            "numbers in [0, 3), got -1"));
    EXPECT_NO_THROW(loss(pred, array({2.f})));
  }
}

// An elementwise loss of two tensors, and its formula.
struct Elementwise {
  const char* name;
  std::function<Tensor(const Tensor& pred, const Tensor& label, const Tensor& weight)> loss;
  double (*element)(double x, double z);
  bool sums = false, is_scalar = false;
  double low = -2, high = 2, label_low = -2, label_high = 2;
};
double bce(double x, double z) {
  return (1 - z) * std::log1p(std::exp(x)) + z * std::log1p(std::exp(-x));
}
const Elementwise kElementwise[] = {
    {"L2", nn::L2Loss(), [](double x, double z) { return (x - z) * (x - z) / 2; }},
    {"L1", nn::L1Loss(), [](double x, double z) { return std::abs(x - z); }},
    {"Huber", nn::HuberLoss({.rho = .7}),
     [](double x, double z) {
       const double d = std::abs(x - z);
       return d > .7 ? d - .35 : d * d / 1.4;
     }},
    {"SigmoidBCE", nn::SigmoidBCELoss(), bce, false, false, -9, 9, 0, 1},
    {"SigmoidBCE, positive examples count 3",
     [](const Tensor& x, const Tensor& z, const Tensor& w) {
       return nn::SigmoidBCELoss()(x, z, w, full({1, x.shape()[-1]}, 3, {x.context(), x.dtype()}));
     },
     [](double x, double z) { return bce(x, z) + 2 * z * std::log1p(std::exp(-x)); }, false, false,
     -9, 9, 0, 1},
    {"SigmoidBCE of probabilities", nn::SigmoidBCELoss({.from_sigmoid = true}),
     [](double p, double z) { return -z * std::log(p) - (1 - z) * std::log(1 - p); }, false, false,
     .1, .9, 0, 1},
    {"Logistic", nn::LogisticLoss(), [](double x, double z) { return bce(x, (z + 1) / 2); }, false,
     false, -9, 9},
    {"Logistic, binary", nn::LogisticLoss({.label_format = nn::LabelFormat::binary}), bce, false,
     false, -9, 9, 0, 1},
    {"KLDiv", nn::KLDivLoss(), [](double x, double z) { return z * (std::log(z) - x); }, true,
     false, -9, 0, .1, 1},
    {"Hinge", nn::HingeLoss({.margin = 1.5}),
     [](double x, double z) { return std::max(1.5 - x * z, 0.0); }},
    {"SquaredHinge", nn::SquaredHingeLoss(),
     [](double x, double z) { return std::pow(std::max(1 - x * z, 0.0), 2); }},
    {"PoissonNLL", nn::PoissonNLLLoss(), [](double x, double z) { return std::exp(x) - z * x; },
     false, true, -2, 2, 0, 5},
    {"PoissonNLL of rates, in full",
     nn::PoissonNLLLoss({.from_logits = false, .compute_full = true}),
     [](double x, double z) {
       return x - z * std::log(x) + (z > 1 ? z * std::log(z) - z + std::log(2 * M_PI * z) / 2 : 0);
     },
     false, true, .1, 3, 0, 5},
};

TEST(Losses, FollowTheirFormulas) {
  for (Context c : test::contexts()) {
    for (const Elementwise& e : kElementwise) {
      SCOPED_TRACE(to_string(c) + " " + e.name);
      const Shape shape{3, 2, 4};
      const Tensor x = sample_values(c, f64, shape, e.low, e.high);
      const Tensor z = sample_values(c, f64, shape, e.label_low, e.label_high, 1);
      const Tensor w = sample_values(c, f64, {3, 1, 4}, 0, 1, 2);
      const Values xs = test::values(x), zs = test::values(z), ws = test::values(w);
      Values plain(e.is_scalar ? 1 : 3), weighted = plain;
      for (size_t i = 0; i < 24; ++i) {
        const double v = e.element(xs[i], zs[i]) / (e.sums ? 1 : e.is_scalar ? 24 : 8);
        plain[e.is_scalar ? 0 : i / 8] += v;
        weighted[e.is_scalar ? 0 : i / 8] += v * ws[i / 8 * 4 + i % 4];
      }
      expect_near(e.loss(x, z, {}), plain);
      expect_near(e.loss(x, z, w), weighted);
      EXPECT_EQ(e.loss(x, z, {}).shape(), e.is_scalar ? Shape{} : Shape{3});
      expect_near(e.loss(x.astype(f32), z.reshape({24}).astype(f32), {}), plain, 1e-4);
      EXPECT_EQ(e.loss(x.astype(f32), ones(shape, {c, i32}), {}).dtype(), f32);
      EXPECT_THROW(e.loss(x, ones({3}, c), {}), ShapeError);
      EXPECT_THROW(e.loss(x, z, ones({5, 3, 2, 4}, c)), ShapeError);
    }
  }
}

TEST(Losses, HaveGradientsOfTwoOrders) {
  for (const Elementwise& e : kElementwise) {
    SCOPED_TRACE(e.name);
    const Tensor x = sample_values(cpu(), f64, {2, 3}, e.low, e.high);
    const Tensor z = sample_values(cpu(), f64, {2, 3}, e.label_low, e.label_high, 1);
    test::check_gradients([&](const Tensors& in) { return Tensors{e.loss(in[0], in[1], {})}; },
                          {x, z}, true, 1e-5);
  }
}

TEST(Losses, AreFiniteWhereTheFormulaIs) {
  const auto slope = [](const auto& loss, double x, double z) {
    const Tensor pred = full({1}, x, {cpu(), f32});
    pred.attach_grad();
    const autograd::Record record;
    const Tensor l = loss(pred, full({1}, z, {cpu(), f32}));
    l.backward();
    return std::pair(l.item<double>(), pred.grad().item<double>());
  };
  using P = std::pair<double, double>;
  EXPECT_EQ(slope(nn::HuberLoss(), 1e30, 0), P(float(1e30), 1));
  EXPECT_EQ(slope(nn::HuberLoss(), -INFINITY, 0), P(INFINITY, -1));
  EXPECT_EQ(slope(nn::HingeLoss(), INFINITY, 1), P(0, 0));
  EXPECT_EQ(slope(nn::SquaredHingeLoss(), INFINITY, 1), P(0, 0));
  EXPECT_EQ(slope(nn::LogisticLoss(), INFINITY, 1), P(0, 0));
  EXPECT_EQ(slope(nn::LogisticLoss(), 1000, -1), P(1000, 1));
  EXPECT_EQ(slope(nn::KLDivLoss(), -INFINITY, 0), P(0, 0));
  EXPECT_EQ(slope(nn::PoissonNLLLoss(), -INFINITY, 0), P(0, 0));
  EXPECT_EQ(slope(nn::PoissonNLLLoss({.compute_full = true}), 0, 0), P(1, 1));
  EXPECT_THROW(nn::HuberLoss({.rho = 0}), ValueError);
  EXPECT_THROW(nn::HuberLoss({.rho = NAN}), ValueError);
  EXPECT_THROW(nn::HuberLoss({.rho = INFINITY}), ValueError);
}

TEST(Losses, AverageOverAllAxesButTheBatchs) {
  const Tensor x = sample_values(cpu(), f32, {4, 3, 2}),
               z = sample_values(cpu(), f32, {4, 3, 2}, -1, 1, 1);
  const auto same = [](const Tensor& moved, const Tensor& expected) {
    EXPECT_EQ(moved.shape(), expected.shape());
    expect_near(moved, test::values(expected));
  };
  same(nn::L1Loss({.batch_axis = 1})(x, z), nn::L1Loss()(swapaxes(x, 0, 1), swapaxes(z, 0, 1)));
  same(nn::KLDivLoss({.batch_axis = -1})(x, z + 2), nn::KLDivLoss()(x.T(), z.T() + 2));
  const Tensor label = array({{0, 1}, {1, 0}, {1, 1}, {0, 0}});  // time, batch
  const Tensor scores = swapaxes(x, 1, 2)(Slice(), Slice(), Slice(0, 2));
  same(nn::SoftmaxCELoss({.batch_axis = 1})(scores, label),
       nn::SoftmaxCELoss()(swapaxes(scores, 0, 1), label.T()));
  EXPECT_THROW(nn::L1Loss({.batch_axis = 3})(x, z), ShapeError);
}

TEST(KLDivLoss, TakesTheSoftmaxItself) {
  const Tensor x = sample_values(cpu(), f64, {3, 4}),
               z = softmax(sample_values(cpu(), f64, {3, 4}, -1, 1, 1));
  expect_near(nn::KLDivLoss({.from_logits = false})(x, z),
              test::values(nn::KLDivLoss()(log_softmax(x), z)));
  expect_near(nn::KLDivLoss({.from_logits = false})(log(z), z), {0, 0, 0});
}

TEST(TripletLoss, ComparesSquaredDistances) {
  for (Context c : test::contexts()) {
    const Tensor x = array({{0.f, 0.f}, {1.f, 1.f}}, c), near = array({{1.f, 2.f}, {1.f, 1.f}}, c);
    const Tensor far = array({{2.f, 0.f}, {9.f, 9.f}}, c);
    expect_near(nn::TripletLoss()(x, near, far), {5 - 4 + 1, 0});
    expect_near(nn::TripletLoss({.margin = 3, .weight = 2})(x, near, far.reshape({4})), {8, 0});
    EXPECT_THROW(nn::TripletLoss()(x, ones({2}, c), far), ShapeError);
  }
  const Tensor x = sample_values(cpu(), f64, {3, 4});
  test::check_gradients(
      [](const Tensors& in) {
        return Tensors{nn::TripletLoss({.margin = 50})(in[0], in[1], in[2])};
      },
      {x, x * 2, x - 1});
}

TEST(CosineEmbeddingLoss, DoesNotDependOnLengths) {
  for (Context c : test::contexts())
    for (double v : {1e-200, 1e-160, 1., 1e200}) {
      const Tensor x = array({{3 * v, 4 * v}}, {c, f64}), y = array({{4 * v, -3 * v}}, {c, f64});
      expect_near(nn::CosineEmbeddingLoss()(x, y + x, array({-1.}, {c, f64})), {std::sqrt(.5)});
    }
}

TEST(CosineEmbeddingLoss, IsOneLossAVector) {
  for (Context c : test::contexts()) {
    const Tensor x = array({{3.f, 4.f}, {3.f, 4.f}, {0.f, 0.f}, {1e-20f, 0.f}, {1e30f, 1e30f}}, c);
    const Tensor y = array({{4.f, 3.f}, {4.f, 3.f}, {1.f, 1.f}, {1e-20f, 0.f}, {1e30f, 0.f}}, c);
    const Tensor label = array({1.f, -1.f, 1.f, 1.f, -1.f}, c);
    const Values expected{1 - .96, .96, 1, 0, std::sqrt(.5)};
    const nn::CosineEmbeddingLoss loss;
    expect_near(loss(x, y, label), expected);
    expect_near(loss(x, y, label.reshape({5, 1}).astype(i32)), expected);
    expect_near(nn::CosineEmbeddingLoss({.margin = .5, .weight = 2})(x, y, label),
                {.08, .92, 2, 0, 2 * std::sqrt(.5) - 1});
    for (const Shape& shape : {Shape{5}, Shape{5, 1}})
      expect_near(loss(x, y, label, full(shape, 3, c)), {.12, 2.88, 3, 0, 3 * std::sqrt(.5)}, 1e-5);
    EXPECT_THROW(loss(x, y, label, ones({5, 2}, c)), ShapeError);
    x.attach_grad();
    {
      const autograd::Record record;
      loss(x, y, label).backward();
    }
    for (double v : test::values(x.grad()(Slice(0, 3)))) EXPECT_TRUE(std::isfinite(v));
  }
  test::check_gradients(
      [](const Tensors& in) {
        return Tensors{nn::CosineEmbeddingLoss()(in[0], in[1], array({1., -1.}, {cpu(), f64}))};
      },
      {sample_values(cpu(), f64, {2, 3}), sample_values(cpu(), f64, {2, 3}, 1, 2, 1)});
}

}  // namespace
}  // namespace locus
