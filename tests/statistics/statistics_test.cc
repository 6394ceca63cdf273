// Reductions of numbers among NaN, counts, averages, differences: edges, gradients, errors.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <locus/core/autograd.h>
#include <locus/core/error.h>
#include <locus/devices/cpu.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/random.h>
#include <locus/ops/statistics.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Numbers = std::vector<double>;
using Integers = std::vector<int64_t>;
using testing::AllOf, testing::HasSubstr, testing::StartsWith;

TEST(Statistics, LeaveNaNOut) {
  for (Context c : contexts()) {
    const Tensor x =
        array({{1.0, kNan, 3.0}, {kNan, kNan, kNan}, {-kInfinity, 2.0, kNan}}, {c, f32});
    EXPECT_EQ(values(nansum(x, {.axis = 1})), (Numbers{4, 0, -kInfinity}));
    EXPECT_EQ(values(nanprod(x, {.axis = 1})), (Numbers{3, 1, -kInfinity}));
    for (const Tensor& y : {nanmean(x, {.axis = 1}), nanmax(x, {.axis = 1}), nanmin(x, {.axis = 1}),
                            nanvar(x, {.axis = 1}), nanstd(x, {.axis = 1})}) {
      EXPECT_TRUE(std::isnan(y[1].item<float>()));
      EXPECT_EQ(y.dtype(), f32);
    }
    EXPECT_EQ(nanmax(x).item<float>(), 3.F);
    EXPECT_EQ(nanmin(x).item<float>(), -kInfinity);
    EXPECT_EQ(nanmax(full({5}, -kInfinity, {c})).item<float>(), -kInfinity);
    EXPECT_EQ(nanmean(x, {.axis = 1})[0].item<float>(), 2.F);
  }
}

TEST(Statistics, OfIntegersHaveTheDTypesOfPlainReductions) {
  for (Context c : contexts()) {
    const Tensor x = array({200, 100}, {c, i64}).astype(u8);
    EXPECT_EQ(nansum(x).dtype(), i64);
    EXPECT_EQ(nansum(x).item<int64_t>(), 300);
    EXPECT_EQ(nanmax(x).dtype(), u8);
    EXPECT_EQ(nanmean(x).dtype(), f64);
    EXPECT_EQ(nanstd(x).item<double>(), 50);
    EXPECT_EQ(ptp(x).dtype(), u8);
    EXPECT_EQ(ptp(x).item<int64_t>(), 100);
  }
}

TEST(Statistics, VarianceOfNeighbouringNumbersIsExact) {
  for (Context c : contexts()) {
    Tensor x = full({100'000}, kNan, {c, f32});
    x[7] = 16777214.F;  // the mean is no f32
    x[70'000] = 16777215.F;
    EXPECT_EQ(nanvar(x).item<float>(), .25F);
    EXPECT_EQ(nanvar(x, {.ddof = 1}).item<float>(), .5F);
    EXPECT_TRUE(std::isnan(nanvar(x, {.ddof = 2}).item<float>()));
    EXPECT_EQ(nanstd(full({1000}, .1, {c, f64})).item<double>(), 0);
  }
}

TEST(Statistics, CountEveryLayout) {
  for (Context c : kernel_contexts()) {
    random::seed(3);
    for (DType d : {f32, f64, f16, bf16, i32, i64, i8, u8, bool_}) {
      const Tensor x = random::randint(0, 2, {3, 700, 41}, {c, i32}).astype(d);
      const Tensor wide = x.astype(i64);
      for (const auto& [a, b] :
           {std::pair(x, wide), std::pair(x.T(), wide.T()), std::pair(flip(x, 1), flip(wide, 1))}) {
        EXPECT_EQ(count_nonzero(a).item<int64_t>(), sum(b).item<int64_t>()) << d;
        for (int axis : {0, 1, 2})
          EXPECT_EQ(count_nonzero(a, {.axis = axis}).to_vector<int64_t>(),
                    sum(b, {.axis = axis}).to_vector<int64_t>())
              << d << ' ' << axis;
        EXPECT_EQ(count_nonzero(a, {.axis = {0, 2}}).to_vector<int64_t>(),
                  sum(b, {.axis = {0, 2}}).to_vector<int64_t>());
      }
      EXPECT_EQ(count_nonzero(full({100'003}, 1, {c, d})).item<int64_t>(), 100'003);
    }
    EXPECT_EQ(count_nonzero(array({-0.0, kNan, 1e-320, kInfinity}, {c, f64})).item<int64_t>(), 3);
    EXPECT_EQ(count_nonzero(zeros({0, 2}, {c}), {.axis = 0}).to_vector<int64_t>(),
              (Integers{0, 0}));
  }
}

TEST(Statistics, AveragesTakeWeightsOfTheAxes) {
  for (Context c : contexts()) {
    const Tensor x = reshape(arange(0, 8, 1, {c, f64}), {2, 2, 2});
    const Tensor w = array({{.25, .75}, {1.0, .5}}, c);
    EXPECT_EQ(values(average(x, {.axis = {0, 1}, .weights = w})), (Numbers{3.4, 4.4}));
    EXPECT_EQ(values(average(x, {.axis = {1, 0}, .weights = w.T()})), (Numbers{3.4, 4.4}));
    const Tensor small = array({1, 3}, {c, u8});
    const auto [mean_of, weight] = weighted_average(x, {.axis = 2, .weights = small});
    EXPECT_EQ(values(mean_of), (Numbers{.75, 2.75, 4.75, 6.75}));
    EXPECT_EQ(values(weight), (Numbers{4, 4, 4, 4}));
    EXPECT_EQ(values(weighted_average(x, {.axis = 0}).sum_of_weights), (Numbers{2, 2, 2, 2}));
    EXPECT_EQ(average(array({1, 2}, {c, i32})).item<double>(), 1.5);
    EXPECT_EQ(
        average(full({600}, 300, {c, f16}), {.weights = full({600}, 300, {c, f16})}).item<float>(),
        300.F);
  }
}

TEST(Statistics, AveragesRefuseWeightsThatDoNotFit) {
  for (Context c : contexts()) {
    const Tensor x = ones({2, 3}, {c});
    message_of<ShapeError>([&] { average(x, {.weights = ones({3}, {c})}); });
    message_of<ShapeError>([&] { average(x, {.axis = 0, .weights = ones({3}, {c})}); });
    const std::string text = message_of<ValueError>([&] {
      average(x, {.axis = 1, .weights = array({1.0, 0.0, -1.0}, c)});
    });
    EXPECT_NE(text.find("average: weights"), std::string::npos) << text;
  }
}

TEST(Statistics, DifferencesWrapAndShrink) {
  for (Context c : contexts()) {
    const Tensor x = array({3, 1, 4}, {c, i64}).astype(u8);
    EXPECT_EQ(diff(x).dtype(), u8);
    EXPECT_EQ(diff(x).to_vector<int64_t>(), (Integers{254, 3}));
    const Tensor bits = array({1, 0, 0, 1}, {c, i64}).astype(bool_);
    EXPECT_EQ(diff(bits).dtype(), bool_);
    EXPECT_EQ(diff(bits, {.n = 2}).to_vector<int64_t>(), (Integers{1, 1}));
    const Tensor m = reshape(arange(0, 6, 1, {c, f32}), {2, 3});
    EXPECT_EQ(values(diff(m, {.axis = 0})), (Numbers{3, 3, 3}));
    EXPECT_EQ(diff(m, {.n = 9}).shape(), (Shape{2, 0}));
    EXPECT_TRUE(diff(m, {.n = 0}).is(m));
    EXPECT_EQ(values(diff(m, {.prepend = full({}, 1, {c}), .append = zeros({2, 1}, {c})})),
              (Numbers{-1, 1, 1, -2, 2, 1, 1, -5}));
    message_of<ValueError>([&] { diff(m, {.n = -1}); });
    message_of<ShapeError>([&] { diff(full({}, 1, {c})); });
    message_of<ShapeError>([&] { diff(m, {.prepend = ones({2}, {c})}); });
  }
}

template <class F>
Numbers gradient(const Tensor& x, F f) {
  x.attach_grad();
  Tensor y;
  {
    autograd::Record record;
    y = sum(f(x));
  }
  y.backward();
  return values(x.grad());
}

TEST(Statistics, GradientsOfLeftOutElementsAreZero) {
  for (Context c : contexts()) {
    const Tensor x = array({{1.0, kNan, 3.0}, {kNan, kNan, kNan}}, {c, f64});
    EXPECT_EQ(gradient(x, [](const Tensor& t) { return nansum(t, {.axis = 1}); }),
              (Numbers{1, 0, 1, 0, 0, 0}));
    EXPECT_EQ(gradient(x, [](const Tensor& t) { return nanmean(t, {.axis = 1}); }),
              (Numbers{.5, 0, .5, 0, 0, 0}));
    EXPECT_EQ(gradient(x, [](const Tensor& t) { return nanmax(t, {.axis = 1}); }),
              (Numbers{0, 0, 1, 0, 0, 0}));
    EXPECT_EQ(gradient(x, [](const Tensor& t) { return nanprod(t, {.axis = 1}); }),
              (Numbers{3, 0, 1, 0, 0, 0}));
    EXPECT_EQ(gradient(x, [](const Tensor& t) { return nanvar(t, {.axis = 1}); }),
              (Numbers{-1, 0, 1, 0, 0, 0}));
    EXPECT_EQ(gradient(x, [](const Tensor& t) { return nanstd(t, {.axis = 1}); }),
              (Numbers{-.5, 0, .5, 0, 0, 0}));
    EXPECT_EQ(gradient(full({2, 2}, 3, {c, f64}), [](const Tensor& t) { return nanstd(t); }),
              (Numbers{0, 0, 0, 0}));
  }
}

TEST(Statistics, WriteIntoAResultThatFits) {
  for (Context c : contexts()) {
    const Tensor x = array({{1.0, kNan}, {4.0, 9.0}}, {c, f32}), out = full({2}, 7, {c});
    nansum(x, {.axis = 1, .out = out});
    EXPECT_EQ(values(out), (Numbers{1, 13}));
    nanvar(x, {.axis = 1, .out = out});
    EXPECT_EQ(values(out), (Numbers{0, 6.25}));
    ptp(x, {.axis = 1, .out = out});
    EXPECT_TRUE(std::isnan(out[0].item<float>()));
    EXPECT_EQ(out[1].item<float>(), 5.F);
    const Tensor wrong = full({3}, 7, {c}), whole = full({2}, 7, {c, i32});
    const std::string text = message_of<ShapeError>([&] { nanstd(x, {.axis = 1, .out = wrong}); });
    EXPECT_EQ(text.find("nanstd: "), 0u) << text;
    message_of<DTypeError>([&] { ptp(x, {.axis = 1, .out = whole}); });
    EXPECT_EQ(values(wrong), (Numbers{7, 7, 7}));
    EXPECT_EQ(values(whole), (Numbers{7, 7}));
  }
}

TEST(Statistics, TakeAnAxisAlone) {
  for (Context c : contexts()) {
    const Tensor x = array({{1.0, kNan, 5.0}, {0.0, 2.0, 4.0}}, c), y = where(isnan(x), 9, x);
    EXPECT_EQ(values(nansum(x, 1)), (Numbers{6, 6}));
    EXPECT_EQ(values(nanmean(x, 1)), (Numbers{3, 2}));
    EXPECT_EQ(values(nanprod(x, 0)), (Numbers{0, 2, 20}));
    EXPECT_EQ(values(nanmax(x, -1)), (Numbers{5, 4}));
    EXPECT_EQ(values(nanmin(x, 0)), (Numbers{0, 2, 4}));
    EXPECT_EQ(values(nanvar(x, 0)), (Numbers{.25, 0, .25}));
    EXPECT_EQ(values(nanstd(x, 0)), (Numbers{.5, 0, .5}));
    EXPECT_EQ(values(count_nonzero(x, 1)), (Numbers{3, 2}));
    EXPECT_EQ(values(ptp(y, 1)), (Numbers{8, 4}));
    EXPECT_EQ(values(average(y, 0)), (Numbers{.5, 5.5, 4.5}));
    EXPECT_EQ(values(median(y, 1)), (Numbers{5, 2}));
    EXPECT_EQ(values(quantile(y, .5, 0)), (Numbers{.5, 5.5, 4.5}));
    EXPECT_EQ(values(percentile(y, {0, 100}, 1)), (Numbers{1, 0, 9, 4}));
    EXPECT_EQ(values(diff(y, 2)), (Numbers{-12, 0}));
  }
}

TEST(Statistics, DifferencesNameAnOperandThatDoesNotFit) {
  for (Context c : contexts()) {
    const Tensor x = ones({2, 3}, {c});
    EXPECT_THAT(message_of<ShapeError>([&] {
                  diff(x, {.prepend = ones({5, 1}, {c})});
                }),
                AllOf(StartsWith(text_of("diff: x ", describe(x), ", prepend ")),
                      HasSubstr("1 except along axis 1")));
    EXPECT_THAT(message_of<ShapeError>([&] { diff(x, {.append = ones({3}, {c})}); }),
                StartsWith(text_of("diff: x ", describe(x), ", append ")));
  }
  const std::vector<Context> all = distinct_contexts();
  const Tensor x = ones({2}, {all[0]}), other = ones({2}, {all[1]});
  EXPECT_THAT(message_of<ContextMismatch>([&] { diff(x, {.append = other}); }),
              StartsWith("diff: operands live on different contexts: x "));
  EXPECT_THAT(message_of<ContextMismatch>([&] { average(x, {.weights = other}); }),
              HasSubstr("; move one first: weights.as_in_context("));
}

TEST(Statistics, ErrorsNameTheFunction) {
  for (Context c : contexts()) {
    const Tensor x = ones({2, 3}, {c}), none = zeros({0}, {c}), whole = ones({2}, {c, i32});
    EXPECT_EQ(message_of<ShapeError>([&] { nanmax(none); }).find("nanmax: "), 0u);
    EXPECT_EQ(message_of<ShapeError>([&] { nansum(whole, {.axis = 3}); }).find("nansum: "), 0u);
    EXPECT_EQ(message_of<ShapeError>([&] { nanvar(x, {.axis = {1, 1}}); }).find("nanvar: "), 0u);
    EXPECT_EQ(message_of<ValueError>([&] { nanstd(x, {.ddof = kNan}); }).find("nanstd: "), 0u);
    EXPECT_EQ(message_of<ShapeError>([&] { ptp(none); }).find("ptp: "), 0u);
    EXPECT_EQ(message_of<DTypeError>([&] { ptp(x.astype(bool_)); }).find("ptp: "), 0u);
    EXPECT_EQ(message_of<EmptyTensor>([&] { nanprod(Tensor()); }).find("nanprod: "), 0u);
  }
}

}  // namespace
}  // namespace locus::test
