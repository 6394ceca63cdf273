#include <locus/ops/softmax.h>
#include <locus/ops/unary.h>

#include <cmath>
#include <limits>

#include <locus/core/autograd.h>
#include <locus/core/compile.h>
#include <locus/core/device.h>
#include <locus/devices/cpu.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/reduce.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus::test {
namespace {

using testing::HasSubstr;

std::vector<double> irregular(int64_t n) {
  std::vector<double> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = std::sin(static_cast<double>(i * i % 10007)) * 3;
  return v;
}

// log_softmax(x / t) of (outer, n, inner) values by hand.
std::vector<double> naive_log_softmax(const std::vector<double>& x, int64_t outer, int64_t n,
                                      int64_t inner, double t) {
  std::vector<double> y(x.size());
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t j = 0; j < inner; ++j) {
      const auto at = [&](int64_t c) { return static_cast<size_t>((o * n + c) * inner + j); };
      double top = -INFINITY, total = 0;
      for (int64_t c = 0; c < n; ++c) top = std::max(top, x[at(c)] / t);
      for (int64_t c = 0; c < n; ++c) total += std::exp(x[at(c)] / t - top);
      for (int64_t c = 0; c < n; ++c) y[at(c)] = x[at(c)] / t - top - std::log(total);
    }
  return y;
}

double tolerance(DType d) { return d == f64 ? 1e-12 : d == f32 ? 2e-6 : d == f16 ? 4e-3 : 3e-2; }

TEST(Softmax, GivesNumPysValues) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = from_values({1, 2, 3, 1, 2, 3}, {2, 3}, c, f64);
    expect_near(values(softmax(x)),
                {0.09003057317038046, 0.24472847105479767, 0.6652409557748219, 0.09003057317038046,
                 0.24472847105479767, 0.6652409557748219},
                1e-15, "softmax");
    expect_near(values(log_softmax(x, {.axis = 0})), std::vector<double>(6, -std::log(2.0)), 1e-15,
                "log_softmax along axis 0");
    expect_near(values(softmax(x, {.axis = 1, .temperature = 0.5})),
                {0.015876239976466765, 0.11731042782619835, 0.8668133321973349,
                 0.015876239976466765, 0.11731042782619835, 0.8668133321973349},
                1e-15, "softmax at temperature 0.5");
    EXPECT_EQ(softmax(x.astype(i32)).dtype(), f64);
  }
}

TEST(Softmax, AgreesWithNaiveLoopsAtAnySize) {
  struct Case {
    Shape shape;
    int axis;
    int64_t outer, n, inner;
  };
  const Case cases[] = {
      {{64, 10}, 1, 64, 10, 1},        {{3, 1}, 1, 3, 1, 1},         {{33, 1000}, -1, 33, 1000, 1},
      {{2, 9001}, 1, 2, 9001, 1},      {{1, 70001}, 1, 1, 70001, 1}, {{200, 37}, 0, 1, 200, 37},
      {{4, 11, 5}, 1, 4, 11, 5},       {{300, 7, 2}, 0, 1, 300, 14}, {{5000, 3}, 1, 5000, 3, 1},
      {{2, 3000, 17}, 1, 2, 3000, 17}, {{129}, 0, 1, 129, 1},        {{3, 2048}, 1, 3, 2048, 1},
      {{2, 10000}, 1, 2, 10000, 1},    {{2, 16384}, 1, 2, 16384, 1},
  };
  for (Context c : contexts()) {
    for (DType d : {f32, f64, f16, bf16}) {
      for (const Case& k : cases) {
        for (double t : {1.0, 2.5, .5}) {
          SCOPED_TRACE(to_string(c) + " " + name(d) + " " + to_string(k.shape));
          const Tensor x = from_values(irregular(k.shape.size()), k.shape, c, d);
          std::vector<double> wanted = naive_log_softmax(values(x), k.outer, k.n, k.inner, t);
          expect_near(values(log_softmax(x, {.axis = k.axis, .temperature = t})), wanted,
                      tolerance(d), "log_softmax");
          for (double& v : wanted) v = std::exp(v);
          expect_near(values(softmax(x, {.axis = k.axis, .temperature = t})), wanted, tolerance(d),
                      "softmax");
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST(Softmax, TakesRowsThatBeginAnywhere) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = from_values(irregular(2 * 2048 + 1), {2 * 2048 + 1}, c, f32);
    const Tensor odd = slice_axis(x, 0, Slice(1, {})).reshape({2, 2048});
    expect_near(values(log_softmax(odd)), naive_log_softmax(values(odd), 2, 2048, 1, 1), 2e-6,
                "at an odd address");
  }
}

// At any place in a row, also at the ends of the range of exp.
TEST(Softmax, GivesMaskedClassesZero) {
  for (Context c : contexts()) {
    for (DType d : {f32, f64, f16, bf16}) {
      for (int64_t n = 1; n < 40; ++n) {
        SCOPED_TRACE(to_string(c) + " " + name(d) + " " + std::to_string(n));
        for (double mask : {-std::numeric_limits<double>::infinity(), -6e4}) {
          std::vector<double> v(static_cast<size_t>(n), mask);
          v[static_cast<size_t>(n / 2)] = 0;
          const Tensor x = from_values(v, {1, n}, c, d), label = full({1}, n / 2, {c, i64});
          std::vector<double> wanted(static_cast<size_t>(n), 0);
          wanted[static_cast<size_t>(n / 2)] = 1;
          EXPECT_EQ(values(softmax(x)), wanted);
          EXPECT_EQ(values(locus::exp(log_softmax(x))), wanted);
          EXPECT_EQ(values(softmax_cross_entropy(x, label)), (std::vector<double>{0}));
        }
      }
    }
  }
}

TEST(Softmax, OfAColumnHasTheBitsOfARow) {
  for (DType d : {f32, f64}) {
    const Tensor x = from_values(irregular(37), {1, 37}, cpu(), d) * 40;
    const std::vector<double> whole = values(locus::exp(x));
    for (int64_t i = 0; i < 37; ++i)
      EXPECT_EQ(values(locus::exp(x(0)(Slice(i, i + 1))))[0], whole[static_cast<size_t>(i)]);
  }
}

TEST(Softmax, IsStableAndKeepsNaNInItsRow) {
  const double inf = std::numeric_limits<double>::infinity();
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x =
        from_values({1e4, 1e4, -1e4, NAN, 0, 0, inf, 0, 0, -inf, 0, 0}, {4, 3}, c, f32);
    const std::vector<double> y = values(softmax(x)), l = values(log_softmax(x));
    expect_near({y.begin(), y.begin() + 3}, {0.5, 0.5, 0}, 1e-7, "large");
    EXPECT_NEAR(l[2], -20000 - std::log(2.0), 2e-3);
    for (size_t i = 3; i < 9; ++i) {
      EXPECT_TRUE(std::isnan(y[i])) << i;
      EXPECT_TRUE(std::isnan(l[i])) << i;
    }
    expect_near({y.begin() + 9, y.end()}, {0, 0.5, 0.5}, 1e-7, "-inf");
    EXPECT_EQ(l[9], -inf);
  }
}

TEST(Softmax, RefusesBadOptions) {
  const Tensor x = zeros({2, 3});
  EXPECT_THAT(message_of<ShapeError>([&] { softmax(x, {.axis = 2}); }), HasSubstr("softmax"));
  EXPECT_THROW(softmax(x, {.axis = 1, .temperature = 0}), ValueError);
  for (double t : {std::nan(""), HUGE_VAL, -HUGE_VAL, -1.})
    for (auto f : {softmax, log_softmax})
      EXPECT_THAT(
          message_of<ValueError>([&] { f(x, {.axis = 1, .temperature = t}, Caller::here()); }),
          HasSubstr("expected a number above 0 that the dtype holds"));
  EXPECT_THROW(softmax(x, {.axis = 1, .temperature = 1e-40}), ValueError);
  EXPECT_THROW(log_softmax(x.astype(f16), {.axis = 1, .temperature = 1e-5}), ValueError);
  EXPECT_NO_THROW(softmax(x.astype(f64), {.axis = 1, .temperature = 1e-40}));
  EXPECT_THROW(softmax(zeros({})), ShapeError);
  EXPECT_EQ(softmax(zeros({0, 3})).shape(), (Shape{0, 3}));
  EXPECT_EQ(softmax(zeros({3, 0})).shape(), (Shape{3, 0}));
}

TEST(SoftmaxCrossEntropy, TakesLabelsOfAnyDType) {
  for (Context c : contexts()) {
    const Tensor x = from_values(irregular(12), {4, 3}, c, f32);
    const std::vector<double> l = naive_log_softmax(values(x), 4, 3, 1, 1);
    const std::vector<double> wanted = {-l[2], -l[3], -l[7], -l[9]};
    for (DType d : {i64, i32, u8, i8, f32, f64, f16, bf16}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      const Tensor labels = from_values({2, 0, 1, 0}, {4}, c, d);
      const Tensor loss = softmax_cross_entropy(x, labels);
      EXPECT_EQ(loss.shape(), (Shape{4}));
      expect_near(values(loss), wanted, 1e-6, "loss");
    }
  }
}

TEST(SoftmaxCrossEntropy, AgreesWithLogSoftmaxThereAndBack) {
  for (Context c : contexts()) {
    for (DType d : {f32, f64, f16, bf16}) {
      for (const Shape& shape : {Shape{64, 10}, Shape{17, 1000}, Shape{3, 20000}, Shape{2, 3, 5}}) {
        SCOPED_TRACE(to_string(c) + " " + name(d) + " " + to_string(shape));
        const int64_t classes = shape[-1], rows = shape.size() / classes;
        std::vector<double> ids(static_cast<size_t>(rows)), head(ids.size());
        for (size_t r = 0; r < ids.size(); ++r) {
          ids[r] = static_cast<double>(r * 7919 % static_cast<size_t>(classes));
          head[r] = 0.5 + static_cast<double>(r % 5);
        }
        const Shape outer(std::span(shape.begin(), static_cast<size_t>(shape.rank() - 1)));
        const Tensor x = from_values(irregular(shape.size()), shape, c, d);
        const Tensor labels = from_values(ids, outer, c, i32);
        x.attach_grad();
        Tensor loss;
        {
          autograd::Record record;
          loss = softmax_cross_entropy(x, labels);
        }
        loss.backward({.head_gradient = from_values(head, outer, c, d)});
        std::vector<double> wanted(ids.size()),
            slope = naive_log_softmax(values(x), rows, classes, 1, 1);
        for (size_t r = 0; r < ids.size(); ++r) {
          const size_t row = r * static_cast<size_t>(classes);
          wanted[r] = -slope[row + static_cast<size_t>(ids[r])];
          for (size_t k = 0; k < static_cast<size_t>(classes); ++k)
            slope[row + k] =
                (std::exp(slope[row + k]) - (k == static_cast<size_t>(ids[r]))) * head[r];
        }
        expect_near(values(loss), wanted, tolerance(d), "loss");
        expect_near(values(x.grad()), slope, tolerance(d), "gradient");
        if (HasFailure()) return;
      }
    }
  }
}

TEST(SoftmaxCrossEntropy, GivesOneGradientWhetherItIsAHeadOrNot) {
  for (const Context c : contexts())
    for (const DType d : {f32, f64, f16, bf16})
      for (const int64_t classes : {1, 10, 1000, 1500, 9000}) {
        SCOPED_TRACE(to_string(c) + " " + name(d) + " " + std::to_string(classes));
        const Tensor x = array(irregular(7 * classes), {c, d}).reshape({7, classes});
        const Tensor labels = zeros({7}, {c, i32});
        x.attach_grad();
        const Tensor plain = softmax_cross_entropy(x, labels);
        std::vector<double> found[3];
        for (const int way : {0, 1, 2}) {
          Tensor loss;
          {
            const autograd::Record record;
            loss = softmax_cross_entropy(x, labels);
            EXPECT_EQ(values(loss), values(plain));
            if (way == 1) loss = loss * 1;
          }
          loss.backward({.retain_graph = way == 2});
          if (way == 2) loss.backward();
          found[way] = values(x.grad());
        }
        EXPECT_EQ(found[0], found[1]);
        EXPECT_EQ(found[0], found[2]);
      }
}

TEST(SoftmaxCrossEntropy, GradientsOfARetainedGraphAreNewTensors) {
  for (const Context c : contexts()) {
    const Tensor x = ones({2, 3}, c), labels = zeros({2}, c);
    x.attach_grad();
    Tensor loss;
    {
      const autograd::Record record;
      loss = softmax_cross_entropy(x, labels);
    }
    Tensor first = autograd::grad(loss, {x}, {.retain_graph = true})[0];
    const std::vector<float> expected = first.to_vector<float>();
    first += 1;
    EXPECT_EQ(autograd::grad(loss, {x})[0].to_vector<float>(), expected);
  }
}

TEST(SoftmaxCrossEntropy, NamesALabelOutOfRange) {
  for (Context c : contexts()) {
    for (double bad : {3.0, -1.0}) {
      SCOPED_TRACE(to_string(c));
      const Tensor x = zeros({4, 3}, c), labels = from_values({0, 1, bad, 2}, {4}, c, i64);
      const std::string text = message_of<IndexError>([&] {
        softmax_cross_entropy(x, labels);
        wait_all();
      });
      EXPECT_THAT(text, HasSubstr("softmax_cross_entropy"));
      EXPECT_THAT(text, HasSubstr(std::to_string(static_cast<int>(bad))));
      EXPECT_THAT(text, HasSubstr("3"));
      EXPECT_EQ(softmax_cross_entropy(x, zeros({4}, {c, i64})).size(), 4);
      wait_all();
    }
  }
}

TEST(SoftmaxCrossEntropy, ErrorsNameItIfItsGradientIsComputedWithIt) {
  for (const Context c : contexts()) {
    if (!is_host(c) && !emulated_gpus()) continue;
    SCOPED_TRACE(to_string(c));
    const Tensor x = zeros({1, 3}, c), bad = full({1}, 3, {c, i64}), good = zeros({1}, {c, i64});
    x.attach_grad();
    Compiled f([&](const Tensors& in) { return Tensors{softmax_cross_entropy(x, in[0])}; });
    const autograd::Record record;
    f({good});
    for (const bool compiled : {false, true}) {
      const std::string text = message_of<IndexError>([&] {
        const Tensor loss = compiled ? f({bad})[0] : softmax_cross_entropy(x, bad);
        wait_all();
      });
      EXPECT_THAT(text, testing::StartsWith("softmax_cross_entropy: label 3 of row 0"));
    }
  }
}

TEST(SoftmaxCrossEntropy, RefusesLabelsThatAreNotWhole) {
  for (Context c : contexts()) {
    for (DType d : {f32, f64, f16}) {
      for (double bad : {1.5, -0.5, double{NAN}}) {
        SCOPED_TRACE(to_string(c) + " " + name(d) + " " + std::to_string(bad));
        const Tensor x = zeros({2, 3}, c), labels = from_values({0, bad}, {2}, c, d);
        EXPECT_THROW((softmax_cross_entropy(x, labels), wait_all()), IndexError);
      }
    }
  }
}

TEST(SoftmaxCrossEntropy, RefusesOtherShapes) {
  const Tensor x = zeros({4, 3});
  EXPECT_THAT(message_of<ShapeError>([&] { softmax_cross_entropy(x, zeros({3})); }),
              HasSubstr("labels"));
  EXPECT_THROW(softmax_cross_entropy(x, zeros({4, 3})), ShapeError);
  EXPECT_EQ(softmax_cross_entropy(zeros({0, 3}), zeros({0})).shape(), (Shape{0}));
}

}  // namespace
}  // namespace locus::test
