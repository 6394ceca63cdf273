// Medians and quantiles: every method, long rows, NaN, infinities, dtypes, gradients, errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <locus/core/autograd.h>
#include <locus/core/error.h>
#include <locus/devices/cpu.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/random.h>
#include <locus/ops/statistics.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Numbers = std::vector<double>;

TEST(Quantile, HasAllMethodsOfNumPy) {
  // numpy.quantile([7, 1, 4, 10, 2, 8], [0, .25, .3, .5, .9], method=...)
  const std::vector<Numbers> wanted = {
      {1, 2, 2, 4, 10},
      {1, 2, 2, 5.5, 10},
      {1, 2, 2, 4, 8},
      {1, 1.5, 1.7999999999999998, 4, 8.8000000000000007},
      {1, 2, 2.5999999999999996, 5.5, 9.8000000000000007},
      {1, 1.75, 2.1999999999999993, 5.5, 10},
      {1, 2.5, 3, 5.5, 9},
      {1, 1.9166666666666667, 2.4666666666666668, 5.5, 10},
      {1, 1.9375, 2.5, 5.5, 10},
      {1, 2, 2, 4, 8},
      {1, 4, 4, 7, 10},
      {1, 3, 3, 5.5, 9},
      {1, 2, 4, 4, 8},
  };
  for (Context c : contexts())
    for (size_t m = 0; m < wanted.size(); ++m) {
      const Tensor x = array({7, 1, 4, 10, 2, 8}, {c, i32});
      const QuantileOptions o{.method = static_cast<QuantileMethod>(m)};
      const Tensor y = quantile(x, {0, .25, .3, .5, .9}, o);
      EXPECT_EQ(values(y), wanted[m]) << m;
      EXPECT_EQ(values(quantile(x.astype(f64), {0, .25, .3, .5, .9}, o)), wanted[m]) << m;
      EXPECT_EQ(quantile(x, .25, o).item<double>(), wanted[m][1]) << m;
      const bool picks = m == 0 || m == 2 || m == 9 || m == 10 || m == 12;
      EXPECT_EQ(y.dtype(), picks ? i32 : f64) << m;
    }
}

TEST(Quantile, FindsElementsOfRowsOfEveryLength) {
  for (Context c : kernel_contexts()) {
    random::seed(11);
    for (DType d : {f32, f64, f16, i32, i64, i8, u8})
      for (int64_t n : {2, 48, 49, 300, 3000, 40'000, 150'000})
        for (int64_t inner : {1, 3}) {
          const Tensor x = random::randint(d == u8 ? 0 : -100, 100, {n, inner}, {c, i32}).astype(d);
          const int64_t low = n / 3, high = n / 3 + 1;  // neighbours
          const auto of = [&](int64_t i) {
            return static_cast<double>(i) / static_cast<double>(n - 1);
          };
          const Tensor y = quantile(x, {of(low), of(high), 0, 1, .5},
                                    {.axis = 0, .method = QuantileMethod::nearest});
          const Numbers all = values(x), found = values(y);
          for (int64_t j = 0; j < inner; ++j) {
            Numbers row;
            for (int64_t i = 0; i < n; ++i) row.push_back(all[static_cast<size_t>(i * inner + j)]);
            std::ranges::sort(row);
            const auto at = [&](double i) { return row[static_cast<size_t>(i)]; };
            const Numbers wanted = {at(static_cast<double>(low)), at(static_cast<double>(high)),
                                    row.front(), row.back(),
                                    at(std::nearbyint(static_cast<double>(n - 1) * .5))};
            for (size_t k = 0; k < wanted.size(); ++k)
              EXPECT_EQ(found[k * static_cast<size_t>(inner) + static_cast<size_t>(j)], wanted[k])
                  << c << ' ' << d << ' ' << n << ' ' << k;
          }
        }
  }
}

TEST(Quantile, AxesOfQComeFirst) {
  for (Context c : contexts()) {
    const Tensor x = reshape(arange(0, 24, 1, {c, f32}), {2, 3, 4});
    const Tensor q = array({{0.0, .5, 1.0}, {.25, .5, .75}}, {c, f64});
    EXPECT_EQ(quantile(x, q, {.axis = {0, 2}}).shape(), (Shape{2, 3, 3}));
    EXPECT_EQ(quantile(x, q, {.axis = 1, .keepdims = true}).shape(), (Shape{2, 3, 2, 1, 4}));
    EXPECT_EQ(quantile(x, {.5}).shape(), Shape{1});
    EXPECT_EQ(values(quantile(x, .5, {.axis = {0, 2}})), (Numbers{7.5, 11.5, 15.5}));
    EXPECT_EQ(values(percentile(x, {0, 100}, {.axis = {2, 0}})), (Numbers{0, 4, 8, 15, 19, 23}));
    EXPECT_EQ(percentile(x, 50).item<float>(), 11.5F);
    EXPECT_EQ(values(median(x.T(), {.axis = {0, 1}})), (Numbers{5.5, 17.5}));
    EXPECT_EQ(median(x, {.axis = 1, .keepdims = true}).shape(), (Shape{2, 1, 4}));
    Numbers many;
    for (int i = 0; i <= 40; ++i) many.push_back(i / 40.);
    EXPECT_EQ(quantile(arange(0, 41, 1, {c, f64}), many).to_vector<double>()[37], 37);
  }
}

TEST(Quantile, OfNaNAndOfNothingIsNaN) {
  for (Context c : contexts()) {
    const Tensor x = array({{1.0, kNan, 3.0}, {1.0, 2.0, 3.0}}, {c, f32});
    EXPECT_TRUE(std::isnan(median(x, {.axis = 1})[0].item<float>()));
    EXPECT_EQ(median(x, {.axis = 1})[1].item<float>(), 2.F);
    EXPECT_TRUE(std::isnan(quantile(x, 0).item<float>()));
    EXPECT_TRUE(std::isnan(median(zeros({0}, {c})).item<float>()));
    const Tensor none = zeros({3, 0}, {c, i32});
    EXPECT_EQ(median(none, {.axis = 1}).dtype(), f64);
    EXPECT_TRUE(std::isnan(quantile(none, .5, {.axis = 1})[2].item<double>()));
    EXPECT_EQ(quantile(none, {.1, .2}, {.axis = 0}).shape(), (Shape{2, 0}));
    message_of<ShapeError>(
        [&] { quantile(none, .5, {.axis = 1, .method = QuantileMethod::lower}); });
  }
}

TEST(Quantile, InterpolatesBesideInfinitiesAsNumPy) {
  for (Context c : contexts()) {
    const Tensor x = array({1.0, 2.0, kInfinity}, {c, f64});
    EXPECT_TRUE(std::isnan(quantile(x, .5).item<double>()));
    EXPECT_EQ(quantile(x, .5, {.method = QuantileMethod::lower}).item<double>(), 2);
    EXPECT_EQ(median(x).item<double>(), 2);
    EXPECT_EQ(median(array({1.0, kInfinity}, {c, f64})).item<double>(), kInfinity);
  }
}

TEST(Quantile, PositionsAreComputedInF64) {
  for (Context c : contexts()) {
    const Tensor x = arange(0, 11, 1, {c, f32});
    const QuantileOptions lower{.method = QuantileMethod::lower};
    EXPECT_EQ(quantile(x, .7, lower).item<float>(), 7.F);  // 10 * .7F is below 7
    EXPECT_EQ(quantile(x, .7F, lower).item<float>(), 6.F);
    const Tensor q = full({}, .7F, {c, f32});
    EXPECT_EQ(quantile(x, q, lower).item<float>(), 6.F);
    EXPECT_EQ(quantile(array({3e38, 3.2e38}, {c, f32}), .5).item<float>(), 3.1e38F);
    EXPECT_EQ(median(array({-100, 100, 100, -128}, {c, i64}).astype(i8)).item<double>(), 0);
  }
}

TEST(Quantile, IsTheSameOnOneThread) {
  random::seed(2);
  const Tensor x = random::normal(0, 1, {300'000}, {cpu(0)});
  const Numbers together = values(quantile(x, {.1, .5, .999}));
  const int threads = num_threads();
  set_num_threads(1);
  const Numbers alone = values(quantile(x, {.1, .5, .999}));
  set_num_threads(threads);
  EXPECT_EQ(together, alone);
}

TEST(Quantile, GradientsGoToTheElementsPicked) {
  for (Context c : contexts()) {
    const auto gradient = [](const Tensor& x, auto f) {
      x.attach_grad();
      Tensor y;
      {
        autograd::Record record;
        y = sum(f(x));
      }
      y.backward();
      return values(x.grad());
    };
    const Tensor x = array({{4.0, 1.0, 3.0, 9.0}, {1.0, kNan, 2.0, 5.0}}, {c, f64});
    EXPECT_EQ(gradient(x, [](const Tensor& t) { return median(t, {.axis = 1}); }),
              (Numbers{.5, 0, .5, 0, 0, 0, 0, 0}));
    EXPECT_EQ(gradient(x,
                       [](const Tensor& t) {
                         return quantile(t, {.25, 1}, {.axis = 1});
                       }),
              (Numbers{0, .25, .75, 1, 0, 0, 0, 0}));
    EXPECT_EQ(gradient(x,
                       [](const Tensor& t) {
                         return percentile(t, 50, {.axis = 0, .method = QuantileMethod::higher});
                       }),
              (Numbers{1, 0, 1, 1, 0, 0, 0, 0}));
  }
}

TEST(Quantile, RefusesWhatIsNoShare) {
  for (Context c : contexts()) {
    const Tensor x = ones({2, 3}, {c}), out = full({2}, 7, {c});
    for (double q : {-.1, 1.1, kNan})
      EXPECT_EQ(message_of<ValueError>([&] { quantile(x, q); }).find("quantile: q "), 0u);
    EXPECT_EQ(message_of<ValueError>([&] { percentile(x, 101); }).find("percentile: q 101"), 0u);
    if (c != cpu(0)) {
      EXPECT_THROW(quantile(x, array({.5})), ContextMismatch);
    }
    message_of<ValueError>([&] { quantile(x, .5, {.method = static_cast<QuantileMethod>(13)}); });
    message_of<ShapeError>([&] { quantile(x, .5, {.axis = 2}); });
    message_of<ShapeError>([&] { median(x, {.axis = {0, 0}}); });
    message_of<ShapeError>([&] { quantile(x, {.1, .2, .3}, {.axis = 1, .out = out}); });
    message_of<EmptyTensor>([&] { median(Tensor()); });
    EXPECT_EQ(values(out), (Numbers{7, 7}));
    median(x, {.axis = 1, .out = out});
    EXPECT_EQ(values(out), (Numbers{1, 1}));
  }
}

TEST(Quantile, OfNothingIsRecorded) {
  for (const Context c : end_contexts()) {
    const Tensor x = zeros({2, 0}, {c, f32});
    x.attach_grad();
    {
      const autograd::Record record;
      (sum(median(x, {.axis = 1})) + sum(quantile(x, {.25, .75}, {.axis = 1}))).backward();
    }
    EXPECT_EQ(x.grad().shape(), x.shape());
    EXPECT_THAT(values(quantile(x, {.25, .75})), testing::Each(testing::IsNan()));
  }
}

}  // namespace
}  // namespace locus::test
