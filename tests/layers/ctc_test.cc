// CTCLoss, against all paths of short sequences.
#include <cmath>

#include <locus/core/autograd.h>
#include <locus/core/kernel.h>
#include <locus/nn/loss.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/reduce.h>
#include <locus/ops/softmax.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus {
namespace {

// -log of the sum over all paths of `steps` classes that spell `label`.
double by_paths(const Tensor& pred, int64_t steps, const std::vector<int>& label) {
  const auto classes = static_cast<int>(pred.shape()[-1]);
  const std::vector<double> p = test::values(softmax(pred));
  double sum = 0;
  std::vector<int> path(static_cast<size_t>(steps));
  for (;;) {
    std::vector<int> spelled;
    double product = 1;
    for (size_t t = 0; t < path.size(); ++t) {
      product *= p[t * static_cast<size_t>(classes) + static_cast<size_t>(path[t])];
      if (path[t] != classes - 1 && (t == 0 || path[t] != path[t - 1])) spelled.push_back(path[t]);
    }
    if (spelled == label) sum += product;
    size_t i = 0;
    while (i < path.size() && ++path[i] == classes) path[i++] = 0;
    if (i == path.size()) return -std::log(sum);
  }
}

const std::vector<std::vector<int>> kLabels{{0, 1}, {1, 1}, {0}, {}, {2, 0, 2}};
Tensor padded(TensorOptions options) {
  return array({{0, 1, -1}, {1, 1, -1}, {0, -1, -1}, {-1, 1, 1}, {2, 0, 2}}, options);
}

TEST(CTCLoss, SumsAllReadings) {
  const nn::CTCLoss loss;
  for (const Context c : test::contexts()) {
    const Tensor pred = sample_values(c, f64, {5, 6, 4}, -2, 2);
    const Tensor lengths = array({6, 3, 1, 4, 5}, c), label_lengths = array({2, 2, 1, 0, 3}, c);
    const std::vector<int64_t> steps = lengths.to_vector<int64_t>();
    std::vector<double> whole, cut;
    for (int64_t i = 0; i < 5; ++i) {
      whole.push_back(by_paths(pred[i], 6, kLabels[static_cast<size_t>(i)]));
      cut.push_back(
          by_paths(pred[i], steps[static_cast<size_t>(i)], kLabels[static_cast<size_t>(i)]));
    }
    const auto expect = [](const Tensor& l, const std::vector<double>& values,
                           double tolerance = 1e-12) {
      EXPECT_EQ(l.shape(), (Shape{5}));
      test::expect_near(test::values(l), values, tolerance, "loss");
    };
    for (const DType d : {i32, f32}) {
      expect(loss(pred, padded({c, d})), whole);
      expect(loss(pred, maximum(padded({c, d}), -padded({c, d})), {}, label_lengths), whole);
      expect(loss(pred, padded({c, d}), lengths), cut);
    }
    expect(loss(pred.astype(f32), padded(c)), whole, 1e-5);
    EXPECT_EQ(loss(pred.astype(f16), padded(c)).dtype(), f16);
    const nn::CTCLoss turned(
        {.layout = nn::CTCLayout::TNC, .label_layout = nn::CTCLabelLayout::TN, .weight = 2});
    expect(turned(swapaxes(pred, 0, 1), padded(c).T(), lengths, label_lengths, full({5}, .5, c)),
           cut);
  }
}

TEST(CTCLoss, HasGradientsOfTwoOrders) {
  const Tensor pred = sample_values(cpu(), f64, {5, 4, 4}, -1, 1);
  const Tensor lengths = array({4, 3, 1, 2, 4});
  test::check_gradients(
      [&](const Tensors& in) { return Tensors{nn::CTCLoss()(in[0], padded(cpu()), lengths)}; },
      {pred}, true, 1e-5);
}

TEST(CTCLoss, OfWhatCannotBeReadIsInfinite) {
  for (const Context c : test::contexts()) {
    const Tensor pred = sample_values(c, f32, {3, 2, 3});
    pred.attach_grad();
    Tensor l;
    {
      const autograd::Record record;
      l = nn::CTCLoss()(pred, array({{1, 1}, {0, 1}, {0, -1}}, c));
    }
    l.backward();
    const std::vector<double> values = test::values(l), slopes = test::values(pred.grad());
    EXPECT_EQ(values[0], INFINITY) << "a repetition needs a blank between";
    EXPECT_TRUE(std::isfinite(values[1]) && std::isfinite(values[2]));
    for (size_t i = 0; i < slopes.size(); ++i)
      EXPECT_TRUE(i < 6 ? slopes[i] == 0 : std::isfinite(slopes[i])) << i;
  }
}

// Long sequences and confident predictions stay in the range of f32.
TEST(CTCLoss, IsStable) {
  const int64_t steps = 300;
  const Tensor path = arange(static_cast<double>(steps), {cpu(), i64}) % 3;
  const Tensor pred = (one_hot(path, 4) * 100).reshape({1, steps, 4});
  pred.attach_grad();
  Tensor l;
  {
    const autograd::Record record;
    l = nn::CTCLoss()(pred, path.reshape({1, steps}));
  }
  l.backward();
  EXPECT_NEAR(l.item<double>(), 0, 1e-5);
  EXPECT_TRUE(all(isfinite(pred.grad())).item<bool>());
  EXPECT_TRUE(std::isfinite(nn::CTCLoss()(-pred, path.reshape({1, steps})).item<double>()));
}

TEST(CTCLoss, RefusesWhatDoesNotFit) {
  const nn::CTCLoss loss;
  const Tensor pred = ones({2, 4, 3}), label = zeros({2, 2});
  EXPECT_THROW(loss(pred, zeros({3, 2})), ShapeError);
  EXPECT_THROW(loss(pred[0], label), ShapeError);
  EXPECT_THROW(loss(ones({2, 0, 3}), label), ShapeError);
  EXPECT_THROW(loss(pred, label, ones({3})), ShapeError);
  EXPECT_THROW(loss(pred, label, {}, ones({2, 1})), ShapeError);
  EXPECT_THROW(loss(pred, label, {}, {}, ones({2, 2})), ShapeError);
  EXPECT_THROW(loss(pred, label + 2), IndexError) << "the blank's class";
  EXPECT_THROW(loss(pred, label, {}, full({2}, 3)), IndexError);
  EXPECT_THROW(loss(pred, label, {}, full({2}, -1)), IndexError);
  EXPECT_THAT(test::message_of<IndexError>([&] {
                loss(pred, array({{1, -1}, {0, 7}}));
              }),
              testing::StartsWith("CTCLoss: label cpu(0) (2,2) i64: "));
  EXPECT_THAT(test::message_of<IndexError>([&] {
                loss(pred, array({{1, -1}, {0, 7}}));
              }),
              testing::HasSubstr("expected whole numbers in [0, 2), got 7 (at "));
  EXPECT_THAT(test::message_of<IndexError>([&] {
                loss(pred, label, {}, array({1, 3}));
              }),
              testing::AllOf(testing::StartsWith("CTCLoss: label_lengths cpu(0) (2,) i64"),
                             testing::HasSubstr("in [0, 3), got 3 (at ")));
  EXPECT_TRUE(std::isnan(test::values(loss(pred, label, array({5, 4})))[0]));
  EXPECT_TRUE(std::isnan(test::values(loss(pred, label, array({0, 4})))[0]));
  EXPECT_EQ(loss(pred, zeros({2, 0})).shape(), (Shape{2}));
}

}  // namespace
}  // namespace locus
