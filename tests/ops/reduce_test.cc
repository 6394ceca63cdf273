#include <locus/ops/reduce.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include <locus/core/autograd.h>
#include <locus/core/op.h>
#include <locus/devices/cpu.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const double kNaN = std::numeric_limits<double>::quiet_NaN();

Tensor make(const std::vector<double>& v, const Shape& shape, Context c, DType d = f32) {
  return from_values(v, shape, c, d);
}

// Reduces `x` (row-major values) by hand: f(accumulator, value, flat index within the group).
template <class F>
std::vector<double> naive(const std::vector<double>& x, const Shape& shape, uint32_t axes,
                          double start, F f) {
  int64_t outputs = 1;
  for (int i = 0; i < shape.rank(); ++i)
    if (!(axes >> i & 1)) outputs *= shape[i];
  std::vector<double> out(static_cast<size_t>(outputs), start);
  for (int64_t flat = 0; flat < shape.size(); ++flat) {
    int64_t rest = flat, at = 0, scale = 1;
    for (int i = shape.rank() - 1; i >= 0; --i) {
      const int64_t k = rest % shape[i];
      rest /= shape[i];
      if (axes >> i & 1) continue;
      at += k * scale;
      scale *= shape[i];
    }
    double& a = out[static_cast<size_t>(at)];
    a = f(a, x[static_cast<size_t>(flat)]);
  }
  return out;
}

std::vector<double> irregular(int64_t n) {
  std::vector<double> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = std::sin(static_cast<double>(i * i % 10007)) * 2;
  return v;
}

void expect_close(const Tensor& got, const std::vector<double>& wanted, double tol) {
  const std::vector<double> v = values(got);
  ASSERT_EQ(v.size(), wanted.size());
  for (size_t i = 0; i < v.size(); ++i) {
    if (std::isnan(wanted[i])) {
      EXPECT_TRUE(std::isnan(v[i])) << i;
    } else {
      EXPECT_NEAR(v[i], wanted[i], tol * std::max(1.0, std::abs(wanted[i]))) << "at " << i;
    }
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Reduce, GivesNumPysValues) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = make({1, -2, 3, 4, 5, -6}, {2, 3}, c);
    EXPECT_EQ(sum(x).shape(), Shape());
    EXPECT_EQ(x.sum().item<float>(), 5);
    EXPECT_THAT(values(sum(x, {.axis = 0})), ElementsAre(5, 3, -3));
    EXPECT_THAT(values(x.sum({.axis = -1})), ElementsAre(2, 3));
    EXPECT_EQ(sum(x, {.axis = {0, 1}, .keepdims = true}).shape(), (Shape{1, 1}));
    EXPECT_EQ(sum(x, {.axis = 1, .keepdims = true}).shape(), (Shape{2, 1}));
    EXPECT_THAT(values(mean(x, {.axis = 1})), ElementsAre(float(2.0 / 3), 1));
    EXPECT_EQ(x.mean().item<float>(), float(5.0 / 6));
    EXPECT_THAT(values(prod(x, {.axis = 0})), ElementsAre(4, -10, -18));
    EXPECT_THAT(values(max(x, {.axis = 0})), ElementsAre(4, 5, 3));
    EXPECT_THAT(values(min(x, {.axis = 1})), ElementsAre(-2, -6));
    EXPECT_THAT(values(argmax(x, {.axis = 1})), ElementsAre(2, 1));
    EXPECT_THAT(values(argmin(x, {.axis = 0})), ElementsAre(0, 0, 1));
    EXPECT_EQ(argmin(x).item<int64_t>(), 5);
    EXPECT_EQ(norm(make({3, 4}, {2}, c)).item<float>(), 5);
    const Tensor b = make({0, 1, 0, 0}, {2, 2}, c, bool_);
    EXPECT_THAT(values(any(b, {.axis = 1})), ElementsAre(1, 0));
    EXPECT_FALSE(all(b).item<bool>());
    EXPECT_TRUE(any(make({0, -0.5}, {2}, c)).item<bool>());
  }
}

TEST(Reduce, ChoosesNumPysDTypes) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    for (DType d : {i32, i64, u8, i8, bool_}) {
      const Tensor x = make({1, 1, 1}, {3}, c, d);
      EXPECT_EQ(sum(x).dtype(), i64);
      EXPECT_EQ(sum(x).item<int64_t>(), 3);
      EXPECT_EQ(prod(x).dtype(), i64);
      EXPECT_EQ(mean(x).dtype(), f64);
      EXPECT_EQ(norm(x).dtype(), f64);
      EXPECT_EQ(max(x).dtype(), d);
      EXPECT_EQ(argmax(x).dtype(), i64);
      EXPECT_EQ(any(x).dtype(), bool_);
    }
    for (DType d : {f32, f64, f16, bf16}) EXPECT_EQ(sum(make({1}, {1}, c, d)).dtype(), d);
    // No overflow of the small type; i64 wraps.
    EXPECT_EQ(sum(make(std::vector<double>(300, 200), {300}, c, u8)).item<int64_t>(), 60000);
    const Tensor big = full({2}, INT64_MAX, {c, i64});
    EXPECT_EQ(sum(big).item<int64_t>(), -2);
    // f16 accumulates in f32: adding 1 to 4096 has no effect in f16.
    EXPECT_EQ(sum(ones({4096}, {c, f16})).item<float>(), 4096);
    EXPECT_EQ(sum(ones({4096, 8}, {c, bf16}), {.axis = 0}).to_vector<float>()[3], 4096);
  }
}

TEST(Reduce, HasNumPysResultsForNoElements) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = zeros({2, 0}, {c, f32});
    EXPECT_EQ(sum(x).item<float>(), 0);
    EXPECT_THAT(values(sum(x, {.axis = 1})), ElementsAre(0, 0));
    EXPECT_THAT(values(prod(x, {.axis = 1})), ElementsAre(1, 1));
    EXPECT_TRUE(std::isnan(mean(x).item<float>()));
    EXPECT_EQ(norm(x).item<float>(), 0);
    EXPECT_FALSE(any(x).item<bool>());
    EXPECT_TRUE(all(x).item<bool>());
    EXPECT_EQ(sum(x, {.axis = 0}).shape(), (Shape{0}));
    EXPECT_EQ(max(x, {.axis = 0}).shape(), (Shape{0}));
    EXPECT_THAT(message_of<ShapeError>([&] { max(x); }), HasSubstr("max"));
    EXPECT_THROW(min(x, {.axis = 1}), ShapeError);
    EXPECT_THROW(argmax(x), ShapeError);
  }
}

TEST(Reduce, RefusesBadAxesAndDTypes) {
  const Tensor x = zeros({2, 3});
  EXPECT_THAT(message_of<ShapeError>([&] { sum(x, {.axis = 2}); }), HasSubstr("sum"));
  EXPECT_THROW(sum(x, {.axis = -3}), ShapeError);
  EXPECT_THAT(message_of<ShapeError>([&] { sum(x, {.axis = {0, -2}}); }), HasSubstr("twice"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                argmax(zeros({2, 2, 2}), {.axis = {0, 1}});
              }),
              HasSubstr("one axis"));
  EXPECT_THROW(sum_to(x, {4}), ShapeError);
  EXPECT_THROW(sum_to(x, {1, 2, 3}), ShapeError);
}

TEST(ReduceOut, WritesIntoExistingMemory) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = make({3, -4, 6, 8}, {2, 2}, c), log = zeros({3}, c);
    const Tensor row = log[1];
    EXPECT_TRUE(norm(x[0], {.out = row}).is(row));
    mean(x, {.out = log[2]});
    EXPECT_THAT(values(log), ElementsAre(0, 5, 3.25));
    const Tensor whole = zeros({2, 3}, {c, i64});
    sum(x.astype(i32), {.axis = 0, .out = whole(Slice(), 1)});  // not adjacent in memory
    EXPECT_THAT(values(whole), ElementsAre(0, 9, 0, 0, 4, 0));
    max(x, {.axis = 1, .keepdims = true, .out = x(Slice(), Slice(0, 1))});  // x's own memory
    EXPECT_THAT(values(x), ElementsAre(3, -4, 8, 8));
  }
}

TEST(ReduceOut, RefusesAnotherContextShapeOrDType) {
  const std::vector<Context> places = distinct_contexts();
  const Tensor x = ones({2, 3}, places[0]);
  EXPECT_THAT(
      message_of<ContextMismatch>([&] { norm(x, {.out = zeros({}, places[1])}); }),
      testing::StartsWith("norm: operands live on different contexts: data cpu(0) (2,3) f32, out " +
                          to_string(places[1]) + " () f32; expected out on cpu(0) (at "));
  EXPECT_THAT(message_of<ShapeError>([&] { sum(x, {.axis = 0, .out = zeros({2})}); }),
              HasSubstr("the result has shape (3,), the target"));
  EXPECT_THAT(message_of<DTypeError>([&] { mean(x, {.out = zeros({}, f64)}); }),
              HasSubstr("the result is f32"));
  EXPECT_THROW(sum(x.astype(i8), {.out = zeros({}, i32)}), DTypeError);
}

TEST(ReduceOut, RefusesToBeRecorded) {
  const Tensor x = ones({3}), out = zeros({});
  x.attach_grad();
  const autograd::Record record;
  EXPECT_THAT(message_of<Error>([&] { norm(x, {.out = out}); }), HasSubstr("out=) are not"));
  EXPECT_EQ(norm(ones({4}), {.out = out}).item<float>(), 2);  // not in the graph
}

TEST(Reduce, LetsNaNThrough) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    for (int64_t n : {3, 40, 300, 20000}) {
      std::vector<double> v = irregular(n);
      v[static_cast<size_t>(n / 2)] = kNaN;
      v[static_cast<size_t>(n - 1)] = kNaN;
      const Tensor x = make(v, {n}, c);
      EXPECT_TRUE(std::isnan(max(x).item<float>()));
      EXPECT_TRUE(std::isnan(min(x).item<float>()));
      EXPECT_TRUE(std::isnan(sum(x).item<float>()));
      EXPECT_EQ(argmax(x).item<int64_t>(), n / 2);
      EXPECT_EQ(argmin(x).item<int64_t>(), n / 2);
      const Tensor columns = broadcast_to(x.reshape({n, 1}), {n, 16});
      EXPECT_EQ(argmax(columns + 0, {.axis = 0}).to_vector<int64_t>()[7], n / 2);
    }
    const double inf = std::numeric_limits<double>::infinity();
    EXPECT_EQ(max(make({-inf, -inf}, {2}, c)).item<float>(), -inf);
    EXPECT_EQ(argmax(make({-inf, -inf}, {2}, c)).item<int64_t>(), 0);
  }
}

TEST(Reduce, FindsTheFirstOfEqualElements) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    for (DType d : {f32, f16, i32, u8}) {
      std::vector<double> v(100000, 1);
      v[7000] = v[7001] = v[99999] = 2;
      v[300] = v[50000] = 0;
      const Tensor x = make(v, {100000}, c, d);
      EXPECT_EQ(argmax(x).item<int64_t>(), 7000);
      EXPECT_EQ(argmin(x).item<int64_t>(), 300);
      const Tensor y = x.reshape({1000, 100});
      EXPECT_EQ(argmax(y, {.axis = 0}).to_vector<int64_t>()[0], 70);
      EXPECT_EQ(argmax(y, {.axis = 0}).to_vector<int64_t>()[5], 0);
      EXPECT_EQ(argmax(y.T(), {}).item<int64_t>(), 70);  // row-major order of the view
    }
  }
}

struct Case {
  Shape shape;
  uint32_t axes;
  ReduceOptions options;
};

TEST(Reduce, AgreesWithNaiveLoopsOverAnyAxes) {
  const std::vector<Case> cases = {
      {{100003}, 1, {}},
      {{37, 1000}, 2, {.axis = 1}},
      {{1000, 37}, 1, {.axis = 0}},
      {{30000, 9}, 1, {.axis = 0}},
      {{3, 20011}, 2, {.axis = 1}},
      {{64, 256}, 1, {.axis = 0}},
      {{5000, 3}, 2, {.axis = 1}},
      {{13, 700, 3}, 2, {.axis = 1}},
      {{7, 33, 65}, 2, {.axis = 1}},
      {{6, 5, 11, 13}, 1 | 4 | 8, {.axis = {0, 2, 3}}},
      {{6, 5, 11, 13}, 2 | 8, {.axis = {1, -1}}},
      {{4, 3, 2, 5, 3}, 1 | 4 | 16, {.axis = {0, 2, 4}}},
      {{20000, 2, 8}, 1, {.axis = 0}},
  };
  for (Context c : contexts()) {
    for (DType d : {f32, f64, f16, i32}) {
      for (const Case& k : cases) {
        SCOPED_TRACE(to_string(c) + " " + name(d) + " " + to_string(k.shape) + " axes " +
                     std::to_string(k.axes));
        const Tensor x = make(irregular(k.shape.size()), k.shape, c, d);
        const std::vector<double> v = values(x);
        const double tol = d == f64 ? 1e-12 : d == f16 ? 2e-3 : 1e-5;
        const auto square = [](double a, double b) { return a + b * b; };
        expect_close(sum(x, k.options), naive(v, k.shape, k.axes, 0, std::plus<>()), 10 * tol);
        expect_close(
            max(x, k.options),
            naive(v, k.shape, k.axes, -9, [](double a, double b) { return b > a ? b : a; }), 0);
        expect_close(min(x, k.options),
                     naive(v, k.shape, k.axes, 9, [](double a, double b) { return b < a ? b : a; }),
                     0);
        std::vector<double> squares = naive(v, k.shape, k.axes, 0, square);
        for (double& s : squares) s = std::sqrt(s);
        expect_close(norm(x, k.options), squares, tol);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(Reduce, ReadsViewsInPlace) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = make(irregular(6 * 50 * 70), {6, 50, 70}, c);
    const Tensor views[] = {transpose(x, {2, 0, 1}), transpose(x, {1, 0, 2}), flip(x, 1),
                            slice_axis(x, 2, Slice(3, 60, 7)),
                            broadcast_to(slice_axis(x, 1, Slice(4, 5)), {6, 50, 70})};
    for (const Tensor& v : views) {
      const std::vector<double> flat = values(v);
      for (int axis = 0; axis < 3; ++axis) {
        expect_close(sum(v, {.axis = axis}), naive(flat, v.shape(), 1u << axis, 0, std::plus<>()),
                     1e-5);
        const Tensor whole = make(flat, v.shape(), c);
        EXPECT_EQ(values(argmax(v, {.axis = axis})), values(argmax(whole, {.axis = axis})));
      }
      EXPECT_EQ(argmin(v).item<int64_t>(), argmin(make(flat, v.shape(), c)).item<int64_t>());
    }
  }
}

// The bits of an f32 sum depend on neither the number of threads nor the run.
TEST(Reduce, RepeatsBitByBit) {
  struct Restore {
    int n = num_threads();
    ~Restore() { set_num_threads(n); }
  } restore;
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    for (const Case& k : {Case{{3000001}, 1, {}}, Case{{100, 5000}, 2, {.axis = 1}},
                          Case{{5000, 100}, 1, {.axis = 0}}, Case{{200000, 8}, 1, {.axis = 0}},
                          Case{{5000, 1000}, 1, {.axis = 0}}}) {
      const Tensor x = make(irregular(k.shape.size()), k.shape, c);
      std::vector<float> first;
      for (int threads : {1, 2, 3, 7}) {
        set_num_threads(threads);
        for (int run = 0; run < 3; ++run) {
          const std::vector<float> got = sum(x, k.options).to_vector<float>();
          if (first.empty()) first = got;
          ASSERT_EQ(std::memcmp(got.data(), first.data(), got.size() * sizeof(float)), 0)
              << to_string(k.shape) << " with " << threads << " threads";
        }
      }
    }
  }
}

TEST(Reduce, SumsTenMillionFloatsTo7Digits) {
  std::vector<float> v(10'000'000);
  double exact = 0;
  for (size_t i = 0; i < v.size(); ++i) {
    v[i] = static_cast<float>(i * 2654435761u % 1000003) * 1e-6f;
    exact += v[i];
  }
  for (Context c : contexts()) {
    const double got = sum(array(v, c)).item<float>();
    EXPECT_NEAR(got / exact, 1, 2e-7) << c;
  }
}

TEST(Reduce, SumToUndoesBroadcasting) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = make(irregular(64 * 256), {64, 256}, c);
    expect_close(sum_to(x, {256}), naive(values(x), x.shape(), 1, 0, std::plus<>()), 1e-5);
    expect_close(sum_to(x, {64, 1}), naive(values(x), x.shape(), 2, 0, std::plus<>()), 1e-5);
    EXPECT_EQ(sum_to(x, {1, 256}).shape(), (Shape{1, 256}));
    EXPECT_EQ(sum_to(x, {}).shape(), Shape());
    EXPECT_TRUE(sum_to(x, {64, 256}).is(x));
  }
}

}  // namespace
}  // namespace locus::test
