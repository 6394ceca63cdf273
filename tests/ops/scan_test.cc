// Scans: long rows, long columns, flattened tensors, NaN, zeros, errors.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <locus/core/autograd.h>
#include <locus/core/error.h>
#include <locus/devices/cpu.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include <locus/ops/scan.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Small whole numbers, whose sums are exact in f32.
Tensor whole(const Shape& shape, Context c) { return random::randint(-3, 4, shape, {c, i32}); }

std::vector<int64_t> numbers(const Tensor& x) { return x.astype(i64).to_vector<int64_t>(); }

std::vector<int64_t> summed(const Tensor& x, int64_t outer, int64_t n, int64_t inner) {
  std::vector<int64_t> y = numbers(x);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 1; i < n; ++i)
      for (int64_t j = 0; j < inner; ++j) {
        const int64_t at = (o * n + i) * inner + j;
        y[static_cast<size_t>(at)] += y[static_cast<size_t>(at - inner)];
      }
  return y;
}

TEST(Scan, SumsRowsAndColumnsOfEveryLength) {
  for (Context c : contexts()) {
    random::seed(7);
    for (int64_t n : {1, 2, 16, 17, 31, 256, 257, 512, 513, 2048, 4096, 4097, 20000})
      for (int64_t inner : {1, 3, 8, 130}) {
        const Tensor x = whole({2, n, inner}, c);
        EXPECT_EQ(numbers(cumsum(x.astype(f32), 1)), summed(x, 2, n, inner)) << c << ' ' << n;
        EXPECT_EQ(numbers(cumsum(x, 1)), summed(x, 2, n, inner)) << c << ' ' << n;
      }
  }
}

TEST(Scan, SumsARowOfManyGroupsOfTiles) {
  for (Context c : contexts()) {
    constexpr int64_t kLength = 3'000'001;
    const Tensor x = whole({kLength}, c);
    EXPECT_EQ(numbers(cumsum(x.astype(f32))), summed(x, 1, kLength, 1)) << c;
    const Tensor y = random::normal(0, 1, {kLength}, {c});
    EXPECT_EQ(cumsum(y).to_vector<float>(), cumsum(y).to_vector<float>()) << c;
  }
}

TEST(Scan, GivesTheSameBitsOnOneThread) {
  const Tensor x = random::normal(0, 1, {100'000}, {cpu(0)});
  const auto together = cumsum(x).to_vector<float>();
  const auto logs = logcumsumexp(x).to_vector<float>();
  const int threads = num_threads();
  set_num_threads(1);
  const auto alone = cumsum(x).to_vector<float>(), alone_logs = logcumsumexp(x).to_vector<float>();
  set_num_threads(threads);
  EXPECT_EQ(together, alone);
  EXPECT_EQ(logs, alone_logs);
}

TEST(Scan, FlattensWithoutAnAxis) {
  for (Context c : contexts()) {
    EXPECT_EQ(cumsum(array({{1, 2}, {3, 4}}, c)).to_vector<int64_t>(),
              (std::vector<int64_t>{1, 3, 6, 10}));
    const Tensor number = full({}, 5, {c, i64});
    EXPECT_EQ(cumsum(number).shape(), Shape{1});
    EXPECT_EQ(cumprod(zeros({0, 3}, {c})).shape(), Shape{0});
    EXPECT_EQ(cumsum(zeros({0, 3}, {c}), 1).shape(), (Shape{0, 3}));
  }
}

TEST(Scan, IntegersWrapInI64) {
  for (Context c : contexts()) {
    const Tensor small = array({200, 100, 255}, {c, i64}).astype(u8);
    EXPECT_EQ(cumsum(small).dtype(), i64);
    EXPECT_EQ(numbers(cumsum(small)), (std::vector<int64_t>{200, 300, 555}));
    const int64_t big = std::numeric_limits<int64_t>::max();
    EXPECT_EQ(numbers(cumsum(array(std::vector<int64_t>{big, 1}, {c, i64}))),
              (std::vector<int64_t>{big, std::numeric_limits<int64_t>::min()}));
    EXPECT_EQ(numbers(cumsum(array({1, 0, 1}, c).astype(bool_))), (std::vector<int64_t>{1, 1, 2}));
  }
}

TEST(Scan, ExtremesHaveTheLastPositionAndKeepNaN) {
  for (Context c : contexts()) {
    const auto [most, at] = cummax(array({1.0, 3.0, 3.0, 2.0, kNan, 9.0, kNan}, {c, f32}), 0);
    EXPECT_EQ(numbers(at), (std::vector<int64_t>{0, 1, 2, 2, 4, 4, 6}));
    EXPECT_EQ(most[3].item<float>(), 3.F);
    EXPECT_TRUE(std::isnan(most[5].item<float>()));
    const auto [least, where] = cummin(array({2, 5, 1, 1}, {c, i32}));
    EXPECT_EQ(least.dtype(), i32);
    EXPECT_EQ(numbers(where), (std::vector<int64_t>{0, 0, 2, 3}));
    const Tensor m = array({{1, 5}, {4, 2}}, {c, i32});
    EXPECT_EQ(numbers(cummax(m, {.axis = 1}).first), (std::vector<int64_t>{1, 5, 4, 4}));
    EXPECT_EQ(numbers(cummin(m, {.axis = 0}).second), (std::vector<int64_t>{0, 0, 0, 1}));
    EXPECT_EQ(numbers(cummin(m).first), (std::vector<int64_t>{1, 1, 1, 1}));
    const auto [lowest, place] = cummax(full({600}, -kInfinity, {c, f32}));
    EXPECT_EQ(place[599].item<int64_t>(), 599);
    EXPECT_EQ(lowest[599].item<float>(), -kInfinity);
  }
}

TEST(Scan, LogCumSumExpNeitherOverflowsNorLosesSmallTerms) {
  for (Context c : contexts()) {
    const auto y =
        logcumsumexp(array({-kInfinity, 1000.0, 1000.0, -1000.0}, {c, f64})).to_vector<double>();
    EXPECT_EQ(y[0], -kInfinity);
    EXPECT_EQ(y[1], 1000);
    EXPECT_NEAR(y[2], 1000 + std::log(2.0), 1e-12);
    EXPECT_EQ(y[3], y[2]);
  }
}

// The gradient of sum(w * f(x)).
template <class F>
std::vector<double> gradient(const Tensor& x, const Tensor& w, F f) {
  x.attach_grad();
  Tensor y;
  {
    autograd::Record record;
    y = sum(w * f(x));
  }
  y.backward();
  return x.grad().to_vector<double>();
}

TEST(Scan, GradientOfCumProdIsExactWithZeros) {
  for (Context c : contexts()) {
    const auto product = [](const Tensor& x) { return cumprod(x, 0); };
    const Tensor w = array({1.0, 2.0, 3.0, 4.0}, {c, f64});
    EXPECT_EQ(gradient(array({2.0, 0.0, 3.0, 5.0}, {c, f64}), w, product),
              (std::vector<double>{1, 2 * 2 + 3 * 6 + 4 * 30, 0, 0}));
    EXPECT_EQ(gradient(array({2.0, 0.0, 3.0, 0.0}, {c, f64}), w, product),
              (std::vector<double>{1, 2 * 2 + 3 * 6, 0, 0}));
  }
}

TEST(Scan, SecondGradientOfCumProdIsExactWithZeros) {
  for (Context c : contexts()) {
    const Tensor x = array({2.0, 0.0, 3.0}, {c, f64}), w = array({1.0, 10.0, 100.0}, {c, f64});
    x.attach_grad();
    Tensor rows;  // sums over the rows of the Hessian
    {
      autograd::Record record;
      const Tensor first = autograd::grad({sum(w * cumprod(x, 0))}, {x}, {.create_graph = true})[0];
      rows = autograd::grad({sum(first)}, {x})[0];
    }
    EXPECT_EQ(rows.to_vector<double>(), (std::vector<double>{310, 310 + 200, 200}));
  }
}

TEST(Scan, GradientsOfLogCumSumExpAddUpToTheHead) {
  for (Context c : contexts()) {
    const Tensor x = array({-kInfinity, 3.0, 800.0, -800.0, 801.0}, {c, f64});
    const auto dx =
        gradient(x, ones({5}, {c, f64}), [](const Tensor& t) { return logcumsumexp(t); });
    double total = 0;
    for (double d : dx) total += d;
    EXPECT_NEAR(total, 4, 1e-12);  // the first result is -inf, whatever x is near there
    EXPECT_EQ(dx[0], 0);
  }
}

TEST(Scan, RefusesAWrongAxisAndAWrongResult) {
  for (Context c : contexts()) {
    const Tensor x = ones({2, 3}, {c});
    const std::string text = message_of<ShapeError>([&] { cumsum(x, 2); });
    EXPECT_NE(text.find("cumsum: axis 2 is out of bounds for a tensor of 2 axes"),
              std::string::npos)
        << text;
    const Tensor out = zeros({3, 2}, {c});
    message_of<ShapeError>([&] { cumsum(x, {.axis = 1, .out = out}); });
    message_of<DTypeError>([&] { cumsum(x, {.axis = 1, .out = zeros({2, 3}, {c, i32})}); });
    EXPECT_EQ(sum(out).item<float>(), 0.F);
    const Tensor right = zeros({2, 3}, {c});
    cumsum(x, {.axis = 1, .out = right});
    EXPECT_EQ(right.to_vector<float>(), (std::vector<float>{1, 2, 3, 1, 2, 3}));
  }
}

}  // namespace
}  // namespace locus::test
