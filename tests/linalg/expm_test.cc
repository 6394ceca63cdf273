// expm: known exponentials, identities, batches of unlike norms, gradients, errors.
#include <gtest/gtest.h>

#include <cmath>

#include <locus/core/amp.h>
#include <locus/core/capture.h>
#include <locus/core/error.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/join.h>
#include <locus/ops/linalg.h>
#include <locus/ops/matmul.h>
#include <locus/ops/reduce.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>
#include "tests/linalg/matrices.h"
#include "tests/products/numbers.h"

namespace locus::test {
namespace {

using testing::AllOf, testing::HasSubstr, testing::StartsWith;

// max|x - y| / max|y|
double relative_error(const Tensor& x, const Tensor& y) {
  return (max(abs(x - y)) / max(abs(y))).item<double>();
}

TEST(Expm, OfKnownMatrices) {
  for (Context c : contexts()) {
    expect_equal(expm(zeros({2, 3, 3}, {c, f64})), broadcast_to(eye(3, 0, 0, {c, f64}), {2, 3, 3}));
    expect_near(values(expm(array({{0.0, 1.0, 2.0}, {0.0, 0.0, 3.0}, {0.0, 0.0, 0.0}}, {c, f64}))),
                {1, 1, 3.5, 0, 1, 3, 0, 0, 1}, 1e-15, "nilpotent");
    for (const double angle : {1e-9, .3, 2., 50., 1000.}) {
      const Tensor rotation = array({{0.0, -angle}, {angle, 0.0}}, {c, f64});
      const double sine = std::sin(angle), cosine = std::cos(angle);
      expect_near(values(expm(rotation)), {cosine, -sine, sine, cosine}, 1e-15 * (4 + 8 * angle),
                  "rotation");
    }
    const Tensor numbers =
        array({{-700.0}, {-1.0}, {0.0}, {1.0}, {600.0}}, {c, f64}).reshape({5, 1, 1});
    EXPECT_LE(max(abs(expm(numbers) / exp(numbers) - 1)).item<double>(), 1e-12);
  }
}

TEST(Expm, OfMinusAIsTheInverse) {
  for (Context c : contexts())
    for (DType d : {f32, f64})
      for (int64_t n : {1, 2, 31, 32, 33}) {
        const Tensor a = normal_numbers({3, n, n}, c, d) * (1 / std::sqrt(double(n)));
        const Tensor e = expm(a);
        EXPECT_EQ(e.dtype(), d);
        EXPECT_LE(
            relative_error(matmul(e, expm(-a)), broadcast_to(eye(n, 0, 0, {c, d}), a.shape())),
            400 * static_cast<double>(n) * epsilon(d));
        EXPECT_LE(relative_error(matmul(e, e), expm(a * 2)),
                  40 * static_cast<double>(n) * epsilon(d));
      }
}

TEST(Expm, SquaresEachMatrixAccordingToItsNorm) {
  for (Context c : contexts()) {
    const Tensor a = normal_numbers({4, 5, 5}, c);
    const Tensor scaled = a * array({1e-3, 30.0, 1.0, 4.0}, {c, f64}).reshape({4, 1, 1});
    const Tensor all = expm(scaled);
    for (int64_t i = 0; i < 4; ++i) EXPECT_LE(relative_error(all[i], expm(scaled[i])), 1e-13);
    const Tensor transposed = swapaxes(scaled, -1, -2);
    for (int64_t i = 0; i < 4; ++i)
      EXPECT_LE(relative_error(expm(transposed)[i], all[i].T()), 1e-11);
  }
}

TEST(Expm, NaNStaysInItsMatrix) {
  for (Context c : contexts())
    for (const double bad : {std::nan(""), HUGE_VAL}) {
      const Tensor a = normal_numbers({3, 4, 4}, c), broken = a.copyto(c);
      broken[1][2][3] = full({}, bad, {c, f64});
      const Tensor e = expm(broken), wanted = expm(a);
      for (int64_t i : {0, 2}) EXPECT_LE(relative_error(e[i], wanted[i]), 1e-14);
      EXPECT_THAT(values(e[1]), testing::Each(testing::IsNan()));
    }
}

TEST(Expm, ComputesInItsDTypeInAnAmpScope) {
  for (const Context c : end_contexts()) {
    const Tensor a = array({{-50.f, 50.f}, {50.f, -50.f}}, {c}), outside = expm(a);
    const amp::Scope mixed(bf16);
    EXPECT_EQ(values(expm(a)), values(outside));
  }
}

TEST(Expm, TakesEmptyMatricesAndIntegers) {
  for (Context c : contexts()) {
    EXPECT_EQ(expm(zeros({2, 0, 0}, {c})).shape(), (Shape{2, 0, 0}));
    EXPECT_EQ(expm(zeros({0, 3, 3}, {c})).shape(), (Shape{0, 3, 3}));
    const Tensor a = array({{1, 2}, {0, 1}}, {c, i64});
    expect_equal(expm(a.astype(i32)), expm(a.astype(f64)));
  }
}

TEST(Expm, RefusesWhatHasNoExponential) {
  for (Context c : contexts()) {
    EXPECT_THAT(message_of<ShapeError>([&] {
                  expm(ones({2, 3}, {c}));
                }),
                AllOf(StartsWith("expm: a "), HasSubstr("square")));
    EXPECT_THAT(message_of<DTypeError>([&] {
                  expm(ones({2, 2}, {c, bf16}));
                }),
                AllOf(StartsWith("expm: a "), HasSubstr("a.astype(f32)")));
  }
}

TEST(Expm, CannotBeCaptured) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Tensor a = normal_numbers({2, 3, 3}, gpu(0));
  EXPECT_THAT(message_of<CaptureError>([&] {
                Capture capture(gpu(0));
                expm(a);
              }),
              HasSubstr("expm"));
}

TEST(Expm, OfLargeNormsHasGradients) {
  const Tensor a = normal_numbers({2, 3, 3}, cpu()) * array({8.0, .1}, f64).reshape({2, 1, 1});
  const Tensor stable = a - swapaxes(a, -1, -2);
  check_gradients([](const Tensors& in) { return Tensors{expm(in[0])}; }, {stable}, true, 1e-5);
}

}  // namespace
}  // namespace locus::test
