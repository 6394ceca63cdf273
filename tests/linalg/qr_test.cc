// qr: LAPACK's tests of decompositions, layouts, unusual matrices, gradients, errors.
#include <gtest/gtest.h>

#include <cmath>

#include <locus/core/autograd.h>
#include <locus/core/error.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/join.h>
#include <locus/ops/linalg.h>
#include <locus/ops/matmul.h>
#include <locus/ops/named.h>
#include <locus/ops/rearrange.h>
#include <locus/ops/reduce.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>
#include "tests/devices/cuda_support.h"
#include "tests/linalg/matrices.h"
#include "tests/products/numbers.h"

namespace locus::test {
namespace {

using testing::AllOf, testing::HasSubstr, testing::StartsWith;

constexpr QrMode kModes[] = {QrMode::reduced, QrMode::complete, QrMode::r};

Tensor copy_to_host(const Tensor& x) { return x.copyto(cpu()).astype(f64); }
// The largest absolute value of each column.
Tensor column_maxima(const Tensor& x) { return max(abs(x), {.axis = -2, .keepdims = true}); }

// ‖a - q r‖, by columns, and ‖1 - q' q‖ within 4 n eps; r triangular, its diagonal not negative.
void expect_decomposed(const Tensor& given, const Qr& f, QrMode mode) {
  const int64_t m = given.shape()[-2], n = given.shape()[-1], k = std::min(m, n);
  const int64_t inner = mode == QrMode::complete ? m : k;
  ASSERT_EQ(f.r.shape()[-2], inner);
  ASSERT_EQ(f.r.shape()[-1], n);
  EXPECT_EQ(f.r.context(), given.context());
  const double allowed =
      4 * static_cast<double>(std::max({m, n, int64_t{1}})) * epsilon(f.r.dtype());
  const Tensor a = copy_to_host(given), r = copy_to_host(f.r);
  EXPECT_EQ(max_abs(tril(r, -1)), 0);
  for (const double v : values(diagonal(r, 0, -2, -1))) EXPECT_GE(v, 0);
  if (mode == QrMode::r) {
    EXPECT_FALSE(f.q.defined());
    return;
  }
  ASSERT_EQ(f.q.shape()[-2], m);
  ASSERT_EQ(f.q.shape()[-1], inner);
  EXPECT_EQ(f.q.dtype(), f.r.dtype());
  const Tensor q = copy_to_host(f.q);
  if (inner > 0) {
    EXPECT_LE(max_abs(matmul(q, q, {.transpose_a = true}) - eye(inner, 0, 0, {cpu(), f64})),
              allowed);
  }
  if (a.size() == 0) return;
  const Tensor scale = column_maxima(a), error = column_maxima(matmul(q, r) - a);
  EXPECT_TRUE(all(error <= scale * allowed).item<bool>());
}

TEST(Qr, DecomposesMatricesOfAllSizes) {
  for (Context c : kernel_contexts())
    for (DType d : {f32, f64})
      for (int64_t m : {0, 1, 2, 31, 32, 33, 200})
        for (int64_t n : {0, 1, 2, 31, 32, 33, 200})
          for (QrMode mode : kModes) {
            SCOPED_TRACE(text_of(c, " ", name(d), " ", m, " x ", n, ", mode ", int(mode)));
            const Tensor a = normal_numbers({m, n}, c, d);
            expect_decomposed(a, qr(a, mode), mode);
            if (HasFailure()) return;
          }
}

TEST(Qr, IsThatOfNumPyUpToSigns) {
  for (Context c : contexts()) {
    const Tensor a = array({{3.0, 1.0}, {-4.0, 2.0}}, {c, f64});
    const Qr f = qr(a);
    expect_near(values(f.q), {.6, .8, -.8, .6}, 1e-15, "q");
    expect_near(values(f.r), {5, -1, 0, 2}, 1e-15, "r");
    const Qr wide = qr(array({{-2.0, 4.0, 6.0}}, {c, f64}));
    EXPECT_EQ(values(wide.q), (std::vector<double>{-1}));
    EXPECT_EQ(values(wide.r), (std::vector<double>{2, -4, -6}));
  }
}

TEST(Qr, OfABatchIsThatOfEachMatrix) {
  for (Context c : contexts())
    for (DType d : {f32, f64})
      for (const Shape& shape : {Shape{2, 3, 33, 7}, Shape{5, 4, 9}, Shape{2, 150, 140}})
        for (QrMode mode : kModes) {
          const Tensor a = normal_numbers(shape, c, d);
          const Qr f = qr(a, mode);
          expect_decomposed(a, f, mode);
          // A GPU has another algorithm for one larger matrix than for several.
          if (shape[-1] > 100) continue;
          const Qr last = qr(shape.rank() == 4 ? a(1, 2) : a[-1], mode);
          const auto last_of = [&](const Tensor& x) { return shape.rank() == 4 ? x(1, 2) : x[-1]; };
          expect_equal(last_of(f.r), last.r);
          if (mode != QrMode::r) expect_equal(last_of(f.q), last.q);
          if (HasFailure()) return;
        }
}

TEST(Qr, DoesNotDependOnTheLayout) {
  for (Context c : contexts()) {
    const Tensor wide = normal_numbers({2, 6, 8}, c);
    const Tensor every = slice_axis(wide, -1, Slice(0, 8, 2)), transposed = swapaxes(wide, -1, -2);
    for (const Tensor& a : {every, transposed, wide[1].T()}) {
      const Qr f = qr(a), packed = qr(a.copyto(c));
      expect_equal(f.q, packed.q);
      expect_equal(f.r, packed.r);
    }
  }
}

TEST(Qr, HasTheSameBitsOnEveryRun) {
  for (Context c : contexts())
    for (const Shape& shape : {Shape{40, 16, 16}, Shape{200, 200}}) {
      const Tensor a = normal_numbers(shape, c, f32);
      const Qr first = qr(a);
      for (int i = 0; i < 3; ++i) {
        const Qr f = qr(a);
        expect_equal(f.q, first.q);
        expect_equal(f.r, first.r);
      }
    }
}

TEST(Qr, AgreesWithTheHost) {
  LOCUS_NEEDS_GPUS(1);
  for (const Shape& shape : {Shape{33, 20}, Shape{2, 130, 100}, Shape{200, 160}, Shape{90, 300}}) {
    const Tensor a = normal_numbers(shape, cpu());
    const Qr wanted = qr(a), f = qr(a.copyto(gpu(0)));
    expect_near(values(f.r), values(wanted.r), 1e-11, "r");
    expect_near(values(f.q), values(wanted.q), 1e-11, "q");
  }
}

TEST(Qr, ModesAgree) {
  for (Context c : contexts())
    for (const Shape& shape : {Shape{7, 4}, Shape{4, 7}, Shape{2, 130, 125}}) {
      const Tensor a = normal_numbers(shape, c);
      const int64_t k = std::min(shape[-1], shape[-2]);
      const Qr reduced = qr(a), complete = qr(a, QrMode::complete);
      expect_equal(qr(a, QrMode::r).r, reduced.r);
      expect_near(values(slice_axis(complete.r, -2, Slice(0, k))), values(reduced.r), 1e-12, "r");
      expect_near(values(slice_axis(complete.q, -1, Slice(0, k))), values(reduced.q), 1e-12, "q");
    }
}

TEST(Qr, DecomposesMatricesOfDependentColumns) {
  for (Context c : contexts())
    for (int64_t n : {3, 32, 150})
      for (QrMode mode : {QrMode::reduced, QrMode::complete}) {
        const TensorOptions o{c, f64};
        const Tensor v = normal_numbers({n, 1}, c);
        const Tensor cases[] = {zeros({n, n}, o),    ones({n, n}, o),  eye(n, 0, 0, o),
                                -eye(n, 0, 0, o),    matmul(v, v.T()), zeros({n + 2, n}, o),
                                zeros({n, n + 2}, o)};
        for (const Tensor& a : cases) expect_decomposed(a, qr(a, mode), mode);
        const Qr one = qr(-eye(n, 0, 0, o), mode);
        EXPECT_TRUE(all(one.r == eye(n, 0, 0, o)).item<bool>());
      }
}

// Squares of the elements overflow or vanish.
TEST(Qr, IsExactForLargeAndSmallColumns) {
  for (Context c : contexts())
    for (DType d : {f32, f64})
      for (int64_t n : {4, 150}) {
        const double far = d == f32 ? 1e30 : 1e300;
        std::vector<double> scales(static_cast<size_t>(n), 1);
        scales[0] = far;
        scales[1] = 1 / far;
        scales[static_cast<size_t>(n) - 1] = 1 / far;
        const Tensor a = normal_numbers({n + 3, n}, c, d) * from_values(scales, {n}, c, d);
        expect_decomposed(a, qr(a), QrMode::reduced);
        const Tensor tiny = full({n, n}, d == f32 ? 0x1p-120 : 0x1p-1000, {c, d});
        expect_decomposed(tiny, qr(tiny), QrMode::reduced);
      }
}

TEST(Qr, DecomposesIllConditionedMatrices) {
  for (Context c : contexts())
    for (DType d : {f32, f64})
      for (int64_t n : {12, 150}) {
        const TensorOptions o{c, d};
        const Tensor hilbert = 1. / (arange(n, o) + expand_dims(arange(n, o), -1) + 1);
        expect_decomposed(hilbert, qr(hilbert), QrMode::reduced);
        const Tensor powers = pow(expand_dims(arange(n, o) / n, -1), arange(n, o) * .2);
        expect_decomposed(powers, qr(powers), QrMode::reduced);
      }
}

TEST(Qr, NaNStaysInItsMatrix) {
  for (Context c : contexts())
    for (const Shape& shape : {Shape{3, 5, 4}, Shape{3, 4, 5}, Shape{3, 130, 125}})
      for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL})
        for (QrMode mode : {QrMode::reduced, QrMode::complete}) {
          const Tensor a = normal_numbers(shape, c), broken = a.copyto(c);
          broken[1][2][3] = full({}, bad, {c, f64});
          const Qr f = qr(broken, mode), intact = qr(a, mode);
          for (int64_t i : {0, 2}) {
            expect_equal(f.q[i], intact.q[i]);
            expect_equal(f.r[i], intact.r[i]);
          }
          for (const double v : values(f.q[1])) EXPECT_TRUE(std::isnan(v));
          const int64_t k = std::min(shape[1], shape[2]);
          for (const double v : values(diagonal(f.r[1]))) EXPECT_TRUE(std::isnan(v));
          EXPECT_TRUE(std::isnan(f.r[1][k - 1][shape[2] - 1].item<double>()));
          EXPECT_EQ(max_abs(tril(f.r[1], -1)), 0);
          EXPECT_TRUE(std::isnan(qr(broken, QrMode::r).r[1][0][0].item<double>()));
        }
}

TEST(Qr, OfIntegersIsInF64) {
  for (Context c : contexts()) {
    const Tensor a = array({{1, 2}, {3, 4}}, {c, i64});
    for (DType d : {i32, u8, bool_}) {
      const Qr f = qr(a.astype(d)), wanted = qr(a.astype(d).astype(f64));
      expect_equal(f.q, wanted.q);
      expect_equal(f.r, wanted.r);
    }
    const Tensors named = invoke("qr", {a}, {{"mode", "r"}});
    ASSERT_EQ(named.size(), 1u);
    expect_equal(named[0], qr(a, QrMode::r).r);
  }
}

TEST(Qr, RefusesWhatItCannotDecompose) {
  for (Context c : contexts()) {
    EXPECT_THAT(message_of<DTypeError>([&] {
                  qr(ones({2, 2}, {c, f16}));
                }),
                AllOf(StartsWith("qr: a "), HasSubstr("f16: "), HasSubstr("a.astype(f32)")));
    message_of<DTypeError>([&] { qr(ones({2, 2}, {c, bf16})); });
    EXPECT_THAT(message_of<ShapeError>([&] { qr(ones({3}, {c})); }),
                AllOf(StartsWith("qr: a "), HasSubstr("at least 2 axes")));
    message_of<EmptyTensor>([&] { qr(Tensor()); });
    EXPECT_THAT(message_of<ValueError>([&] {
                  qr(ones({2, 2}, {c}), static_cast<QrMode>(7));
                }),
                StartsWith("qr: mode 7; expected"));
  }
}

TEST(Qr, HasGradientsOfEitherResultAlone) {
  for (const Shape& shape : {Shape{4, 3}, Shape{3, 3}, Shape{2, 3, 4}}) {
    const Tensor a = normal_numbers(shape, cpu(), f64, 3);
    const auto check = [&](auto result, QrMode mode) {
      check_gradients([&](const Tensors& in) { return Tensors{qr(in[0], mode).*result}; }, {a});
    };
    check(&Qr::q, QrMode::reduced);
    check(&Qr::r, QrMode::reduced);
    check(&Qr::r, QrMode::complete);
    check(&Qr::r, QrMode::r);
  }
}

TEST(Qr, ACompleteQOfATallMatrixHasNoGradient) {
  for (Context c : contexts()) {
    const Tensor a = normal_numbers({2, 4, 3}, c);
    a.attach_grad();
    Qr f;
    {
      const autograd::Record record;
      f = qr(a, QrMode::complete);
    }
    EXPECT_THAT(message_of<ValueError>([&] { f.q.backward(); }),
                AllOf(StartsWith("qr: "), HasSubstr("last 1 columns are not unique"),
                      HasSubstr("mode reduced")));
  }
}

TEST(Qr, TheGradientOfDependentColumnsIsNaN) {
  for (Context c : contexts()) {
    const Tensor a = zeros({3, 2}, {c, f64});
    for (const double v :
         values(gradients([](const Tensors& in) { return Tensors{qr(in[0]).r}; }, {a})[0]))
      EXPECT_TRUE(std::isnan(v));
  }
}

}  // namespace
}  // namespace locus::test
