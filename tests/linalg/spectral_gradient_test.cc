// Gradients of eigenvalues and singular values, of equal ones too, beside finite differences.
#include <locus/core/error.h>
#include <locus/ops/join.h>
#include <locus/ops/rearrange.h>
#include "tests/linalg/matrices.h"

namespace locus::test {
namespace {

using testing::HasSubstr;

Tensor gradient_of(const std::function<Tensor(const Tensor&)>& f, const Tensor& a) {
  const Tensor x = a.copyto(a.context());
  x.attach_grad();
  Tensor y;
  {
    const autograd::Record record;
    y = f(x);
  }
  y.backward();
  return x.grad();
}

TEST(EighGradient, OfFirstAndSecondOrderAgreesWithDifferences) {
  for (Context c : kernel_contexts())
    for (const bool upper : {false, true}) {
      const Tensors a{symmetric_numbers({2, 4, 4}, c)};
      check_gradients(
          [&](const Tensors& x) -> Tensors {
            const Eigh f = eigh(symmetrize(x[0]), {.upper = upper});
            return {f.eigenvalues, f.eigenvectors};
          },
          a);
      check_gradients(
          [&](const Tensors& x) -> Tensors {
            return {eigvalsh(symmetrize(x[0]), {.upper = upper})};
          },
          a);
      check_gradients(
          [&](const Tensors& x) -> Tensors {
            return {eigh(symmetrize(x[0]), {.upper = upper}).eigenvectors};
          },
          a);
    }
}

TEST(EighGradient, IsSymmetric) {
  for (Context c : contexts()) {
    const Tensor a = symmetric_numbers({4, 4}, c);
    for (const bool upper : {false, true}) {
      const Tensor g = gradient_of(
          [&](const Tensor& x) {
            const Eigh f = eigh(x, {.upper = upper});
            return sum(square(f.eigenvalues) + f.eigenvectors[1]);
          },
          a);
      EXPECT_EQ(values(g), values(transpose_matrices(g)));
      EXPECT_GT(max_abs(g), 0);
    }
  }
}

// sum(w^2) = sum(a^2), and the projector of equal eigenvalues does not depend on their vectors.
TEST(EighGradient, OfEqualEigenvaluesIsFiniteAndRightForWhatIsUnique) {
  for (Context c : contexts()) {
    const Tensor one = eye(3, 0, 0, {c, f64});
    expect_near(values(gradient_of([](const Tensor& x) { return sum(square(eigvalsh(x))); }, one)),
                values(one * 2), 1e-14, "gradient");
    const Tensor two =
        one * 2 - one * expand_dims(array({1.0, 0.0, 0.0}, {c, f64}), -1);  // 1, 2, 2
    const Tensor weight = symmetrize(normal_numbers({3, 3}, c));
    const auto projected = [&](const Tensor& x) {
      const Tensor v = slice_axis(eigh(x).eigenvectors, -1, Slice(1, 3));
      return sum(matmul(v, transpose_matrices(v)) * weight);
    };
    const Tensor got = gradient_of(projected, two);
    const std::vector<double> g = values(got), w = values(weight);
    // First order: the projector of 2, 2 changes by da between the spaces, over 2 - 1.
    for (const size_t i : {1u, 2u}) EXPECT_NEAR(g[i], w[i], 1e-13);
    EXPECT_NEAR(g[0], 0, 1e-13);
    EXPECT_NEAR(g[5], 0, 1e-13);
    for (const Tensor& a : {one, zeros({3, 3}, {c, f64}), ones({3, 3}, {c, f64})}) {
      const Tensor all = gradient_of(
          [](const Tensor& x) {
            const Eigh f = eigh(x);
            return sum(f.eigenvectors) + sum(f.eigenvalues);
          },
          a);
      EXPECT_LT(max_abs(all), 100);
    }
  }
}

// Rounding separates the eigenvalues 23, 23, 23 by more than epsilon.
TEST(EighGradient, CountsEigenvaluesThatRoundingSeparatesAsEqual) {
  for (Context c : contexts()) {
    const Tensor a =
        array({{15., 12., 12., -4.}, {12., 5., -18., 6.}, {12., -18., 5., 6.}, {-4., 6., 6., 21.}},
              {c, f64});
    const Tensor weight = normal_numbers({4, 4}, c);
    const Tensor g =
        gradient_of([&](const Tensor& x) { return sum(eigh(x).eigenvectors * weight); }, a);
    EXPECT_LT(max_abs(g), 1);
  }
}

TEST(SvdGradient, OfFirstAndSecondOrderAgreesWithDifferences) {
  for (Context c : kernel_contexts())
    for (const Shape& shape : {Shape{3, 3}, Shape{2, 4, 2}, Shape{2, 4}}) {
      const Tensors a{normal_numbers(shape, c)};
      check_gradients(
          [](const Tensors& x) -> Tensors {
            const Svd f = svd(x[0], {.full_matrices = false});
            return {f.u, f.s, f.vh};
          },
          a);
      check_gradients(
          [](const Tensors& x) -> Tensors { return {svd(x[0], {.full_matrices = false}).vh}; }, a);
      check_gradients([](const Tensors& x) -> Tensors { return {svdvals(x[0])}; }, a);
      check_gradients([](const Tensors& x) -> Tensors { return {svd(x[0]).s}; }, a);
    }
}

TEST(SvdGradient, OfVectorsThatAreNotReducedIsRefused) {
  for (Context c : contexts()) {
    const Tensor a = normal_numbers({3, 2}, c);
    EXPECT_THAT(message_of<ValueError>(
                    [&] { gradient_of([](const Tensor& x) { return sum(svd(x).u); }, a); }),
                HasSubstr("call it with {.full_matrices = false}"));
  }
}

// u vh, the nearest orthonormal matrix, does not depend on the vectors of equal singular values.
TEST(SvdGradient, OfEqualSingularValuesIsFiniteAndRightForWhatIsUnique) {
  for (Context c : contexts()) {
    const Tensor one = eye(3, 0, 0, {c, f64}), weight = normal_numbers({3, 3}, c);
    const auto nearest = [&](const Tensor& x) {
      const Svd f = svd(x);
      return sum(matmul(f.u, f.vh) * weight);
    };
    expect_near(values(gradient_of(nearest, one)),
                values((weight - transpose_matrices(weight)) * .5), 1e-13, "gradient");
    for (const Tensor& a : {one, zeros({3, 3}, {c, f64}), ones({3, 3}, {c, f64})}) {
      const Tensor all = gradient_of(
          [](const Tensor& x) {
            const Svd f = svd(x);
            return sum(f.u) + sum(f.s) + sum(f.vh);
          },
          a);
      EXPECT_LT(max_abs(all), 100);
    }
  }
}

const Shape kLeastSquaresShapes[] = {{3, 3}, {2, 4, 2}, {2, 4}};

TEST(PinvGradient, OfFirstAndSecondOrderAgreesWithDifferences) {
  for (Context c : kernel_contexts())
    for (const Shape& shape : kLeastSquaresShapes)
      check_gradients([](const Tensors& x) -> Tensors { return {pinv(x[0])}; },
                      {normal_numbers(shape, c)});
}

TEST(PinvGradient, AtTheIdentityIsMinusTheHead) {
  for (Context c : contexts()) {
    const Tensor one = eye(3, 0, 0, {c, f64}), weight = normal_numbers({3, 3}, c);
    expect_near(values(gradient_of([&](const Tensor& x) { return sum(pinv(x) * weight); }, one)),
                values(-weight), 1e-13, "gradient");
  }
}

TEST(LstsqGradient, OfFirstAndSecondOrderAgreesWithDifferences) {
  for (Context c : kernel_contexts())
    for (const Shape& shape : kLeastSquaresShapes)
      check_gradients(
          [](const Tensors& x) -> Tensors {
            const Lstsq f = lstsq(x[0], x[1]);
            return {f.x, f.residuals, f.s};
          },
          {normal_numbers(shape, c), normal_numbers({shape[-2], 3}, c, f64, 1)});
}

TEST(CondGradient, OfASingularMatrixIs0OrNaNInItsEntryAlone) {
  for (Context c : contexts()) {
    const Tensor regular = array({{2.0, 1.0}, {1.0, 2.0}}, {c, f64});
    const Tensor a =
        stack({zeros({2, 2}, {c, f64}), array({{1.0, 0.0}, {0.0, 0.0}}, {c, f64}), regular});
    for (const MatrixOrd& p : std::vector<MatrixOrd>{2, 1, -1, INFINITY, -INFINITY, "fro", "nuc"}) {
      const auto total = [&](const Tensor& x) { return sum(cond(x, p)); };
      const Tensor g = gradient_of(total, a);
      const bool by_singular_values = p.is_number() && p.number() == 2;
      for (const int64_t i : {0, 1})
        for (const double v : values(g[i]))
          EXPECT_TRUE(by_singular_values ? v == 0 : std::isnan(v)) << p.text() << p.number();
      expect_near(values(g[2]), values(gradient_of(total, regular)), 1e-14, "gradient");
    }
  }
}

const MatrixOrd kOrders[] = {"fro", "nuc", 2, -2, 1, -1, INFINITY};

TEST(MatrixNormGradient, AgreesWithDifferences) {
  for (Context c : kernel_contexts())
    for (const MatrixOrd& ord : kOrders)
      check_gradients(
          [&](const Tensors& x) -> Tensors { return {matrix_norm(x[0], {.ord = ord})}; },
          {normal_numbers({2, 3, 4}, c)});
}

TEST(CondGradient, AgreesWithDifferences) {
  for (Context c : kernel_contexts())
    for (const MatrixOrd& p : kOrders)
      check_gradients([&](const Tensors& x) -> Tensors { return {cond(x[0], p)}; },
                      {normal_numbers({2, 3, 3}, c)}, true, 1e-5);
}

}  // namespace
}  // namespace locus::test
