// Losses and gradients that fit a dtype although intermediate values do not.
#include <functional>

#include <locus/core/amp.h>
#include <locus/core/autograd.h>
#include <locus/core/base/text.h>
#include <locus/core/kernel.h>
#include <locus/nn/loss.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include "tests/support/contexts.h"

namespace locus {
namespace {

using Values = std::vector<double>;

struct Large {
  const char* name;
  std::function<Tensor(const Tensor& pred, const Tensor& label)> loss;
  Values pred, label;
  double expected;
  Values slopes;
};

const nn::TripletLoss kTriplet({.weight = .5});
const nn::SigmoidBCELoss kWeighed({.weight = .25});

// pred and label have one row.
const Large kLarge[] = {
    {"L2", nn::L2Loss(), {400, 0}, {0, 0}, 40000, {200, 0}},
    {"L1", nn::L1Loss({.weight = .25}), {60000}, {-60000}, 30000, {.25}},
    {"Huber", nn::HuberLoss({.weight = .25}), {60000}, {-60000}, 29999.875, {.25}},
    {"Hinge", nn::HingeLoss({.weight = .25}), {60000}, {-2}, 30000.25, {.5}},
    {"SquaredHinge", nn::SquaredHingeLoss({.weight = .5}), {-299}, {1}, 45000, {-300}},
    {"Triplet",
     [](const Tensor& x, const Tensor& near) {
       return kTriplet(x, near, full({1, 1}, 298, {x.context(), x.dtype()}));
     },
     {0},
     {300},
     598.5,
     {-2}},
    {"KLDiv", nn::KLDivLoss({.weight = .25}), {0}, {20000}, 5000 * std::log(20000.), {-5000}},
    {"PoissonNLL",
     nn::PoissonNLLLoss({.weight = .25}),
     {12},
     {0},
     std::exp(12) / 4,
     {std::exp(12) / 4}},
    {"SigmoidBCE",
     [](const Tensor& x, const Tensor& z) {
       return kWeighed(x, z, {}, full({1, 1}, 2, {x.context(), x.dtype()}));
     },
     {-60000},
     {1},
     30000,
     {-.5}},
    {"Logistic", nn::LogisticLoss({.weight = .25}), {60000}, {-3}, 30000, {.5}},
    {"SoftmaxCrossEntropy",
     nn::SoftmaxCELoss({.sparse_label = false, .weight = .25}),
     {60000, -60000},
     {0, 1},
     30000,
     {.25, -.25}},
    {"SoftmaxCrossEntropy of classes",
     [](const Tensor& x, const Tensor&) {
       return nn::SoftmaxCELoss({.weight = .25})(x, ones({1}, x.context()));
     },
     {60000, -60000},
     {0, 1},
     30000,
     {.25, -.25}},
    {"CosineEmbedding",
     [](const Tensor& x, const Tensor& y) {
       return nn::CosineEmbeddingLoss()(x, y, full({1}, -1, {x.context(), x.dtype()}));
     },
     {60000, 60000},
     {60000, 0},
     std::sqrt(.5),
     {std::sqrt(.5) / 120000, -std::sqrt(.5) / 120000}},
    {"CTC",
     [](const Tensor& x, const Tensor&) {
       return nn::CTCLoss({.weight = .25})(x.reshape({1, 2, 3}), array({{0, 1}}, x.context()));
     },
     {-60000, 0, 0, 0, -60000, 0},
     {0, 0, 0, 0, 0, 0},
     30000 + std::log(2.) / 2,
     {-.25, .125, .125, .125, -.25, .125}},
};

Tensor row(const Values& v, TensorOptions o) {
  return array(v, {*o.context, f64}).reshape({1, static_cast<int64_t>(v.size())}).astype(*o.dtype);
}

TEST(Losses, FitHalvesWhereTheirStepsDoNot) {
  for (Context c : test::contexts())
    for (const Large& l : kLarge)
      for (const DType d : {f16, bf16, f32}) {
        SCOPED_TRACE(text_of(c, " ", name(d), " ", l.name));
        const Tensor pred = row(l.pred, {c, d}), label = row(l.label, {c, d});
        pred.attach_grad();
        Tensor y;
        {
          const autograd::Record record;
          y = l.loss(pred, label);
        }
        y.backward();
        const double rounding = d == f32 ? 1e-6 : d == f16 ? 1e-3 : 2e-2;
        EXPECT_EQ(y.dtype(), d);
        EXPECT_NEAR(y.item<double>(), l.expected, rounding * l.expected);
        const Values slopes = test::values(pred.grad());
        ASSERT_EQ(slopes.size(), l.slopes.size());
        for (size_t i = 0; i < slopes.size(); ++i)
          EXPECT_NEAR(slopes[i], l.slopes[i], rounding * std::abs(l.slopes[i]) + 1e-7) << i;
      }
}

TEST(Losses, TakeTheDtypeThatTheirOperandsPromoteTo) {
  const Tensor half = ones({2, 3}, f16), brain = ones({2, 3}, bf16);
  const nn::L2Loss loss;
  EXPECT_EQ(loss(half, half).dtype(), f16);
  EXPECT_EQ(loss(half, ones({2, 3}, i64)).dtype(), f16);
  EXPECT_EQ(loss(half, half, ones({2, 1}, f32)).dtype(), f32);
  EXPECT_EQ(loss(half, brain).dtype(), f32);
  EXPECT_EQ(loss(half, ones({2, 3}, f64)).dtype(), f64);
  const Tensor positive = full({1, 3}, 1e5, f32);
  const Tensor weighed = nn::SigmoidBCELoss()(-half, half, {}, positive);
  EXPECT_EQ(weighed.dtype(), f32);
  EXPECT_NEAR(test::values(weighed)[0], 1e5 * std::log1p(std::exp(1.)), 1);
  const amp::Scope mixed(bf16);
  EXPECT_EQ(loss(half, half).dtype(), f32);
}

TEST(CosineEmbeddingLoss, OfVectorsWhoseNormIsOutOfRange) {
  for (Context c : test::contexts())
    for (const double v : {3e38, 1e-40}) {
      SCOPED_TRACE(text_of(c, " ", v));
      const Tensor x = row({v, v, v}, {c, f32}), y = row({v, v, 0}, {c, f32});
      const Tensor loss = nn::CosineEmbeddingLoss()(x, y, full({1}, -1, {c, f32}));
      EXPECT_NEAR(loss.item<double>(), std::sqrt(2. / 3), 1e-6);
    }
}

TEST(CosineEmbeddingLoss, SlopesOfLongVectorsAreFinite) {
  for (Context c : test::contexts()) {
    const Tensor x = row({1e38, 1e38, 1e38, 3e38}, {c, f32}), y = row({1, 2, 3, 4}, {c, f32});
    x.attach_grad();
    y.attach_grad();
    {
      const autograd::Record record;
      nn::CosineEmbeddingLoss()(x, y, full({1}, 1, {c, f32})).backward();
    }
    // d cos / dy = (u - cos v) / |y| for unit vectors u of x and v of y.
    const double ux[] = {1, 1, 1, 3}, n = std::sqrt(12.), m = std::sqrt(30.), cosine = 18 / n / m;
    const Values dx = test::values(x.grad()), dy = test::values(y.grad());
    for (size_t i = 0; i < 4; ++i) {
      const double u = ux[i] / n, v = static_cast<double>(i + 1) / m;
      EXPECT_NEAR(dy[i], (cosine * v - u) / m, 1e-7) << c << i;
      EXPECT_NEAR(dx[i] * 1e38, (cosine * u - v) / n, 1e-6) << c << i;
    }
  }
}

TEST(Losses, NameThemselvesWhereTheBatchAxisIsWrong) {
  const Tensor x = ones({2, 3});
  EXPECT_THAT(test::message_of<ShapeError>([&] { nn::L2Loss({.batch_axis = 2})(x, x); }),
              testing::StartsWith(
                  "L2Loss: batch_axis 2 for losses of shape (2,3); expected an axis in [-2, 2)"));
  EXPECT_THAT(test::message_of<ShapeError>([&] { nn::TripletLoss({.batch_axis = -3})(x, x, x); }),
              testing::StartsWith("TripletLoss: batch_axis -3 for losses"));
}

// Labels from a network, such as a teacher's, may be 0.
TEST(Losses, SlopeByLabelsThatAreZero) {
  const auto slope = [](const auto& loss, const Tensor& pred) {
    const Tensor label = zeros(pred.shape());
    label.attach_grad();
    const autograd::Record record;
    loss(pred, label).backward();
    return test::values(label.grad());
  };
  EXPECT_THAT(slope(nn::SigmoidBCELoss(), array({2.f, -3.f})), testing::ElementsAre(-2, 3));
  EXPECT_THAT(slope(nn::PoissonNLLLoss(), array({2.f, -3.f})), testing::ElementsAre(-1, 1.5));
  EXPECT_THAT(slope(nn::SoftmaxCELoss({.sparse_label = false, .from_logits = true}),
                    array({{-2.f, -3.f, -INFINITY}})),
              testing::ElementsAre(2, 3, 0));
}

}  // namespace
}  // namespace locus
