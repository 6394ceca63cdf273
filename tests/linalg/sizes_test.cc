// Decompositions of one large matrix, and of very many small ones.
#include <locus/ops/products.h>
#include "tests/linalg/matrices.h"
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

constexpr double kLapackFactor = 30;  // of the errors that LAPACK's own tests allow

// What every decomposition of a (..., n, n), symmetric and positive definite, reconstructs.
void expect_decompositions(const Tensor& a) {
  const int64_t n = a.shape()[-1];
  const double size = max_abs(a);
  const Tensor one = broadcast_to(identity_like(a), a.shape());
  {
    SCOPED_TRACE("cholesky, solve, inv");
    const Tensor l = cholesky(a), b = normal_numbers(a.shape(), a.context(), f32, 1);
    expect_close(matmul(l, transpose_matrices(l)), a, n, size);
    const Tensor x = solve(a, b), y = solve_triangular(l, b);
    expect_close(matmul(a, x), b, n, size * max_abs(x));
    expect_close(matmul(l, y), b, n, max_abs(l) * max_abs(y));
    const Tensor inverse = inv(a);
    expect_close(matmul(a, inverse), one, n, size * max_abs(inverse));
  }
  {
    SCOPED_TRACE("lu, qr");
    const auto [p, l, u] = lu(a);
    expect_close(matmul(p, matmul(l, u)), a, n, size);
    const auto [q, r] = qr(a);
    expect_close(matmul(q, r), a, n, size);
    expect_orthonormal_columns(q);
  }
  {
    SCOPED_TRACE("eigh, svd");
    const auto [w, v] = eigh(a);
    expect_close(matmul(v * expand_dims(w, -2), transpose_matrices(v)), a, n, size);
    expect_orthonormal_columns(v, kLapackFactor);
    const auto [u, s, vh] = svd(a);
    expect_close(matmul(u * expand_dims(s, -2), vh), a, n, size);
    expect_orthonormal_columns(u, kLapackFactor);
    expect_orthonormal_columns(transpose_matrices(vh), kLapackFactor);
    expect_close(flip(s, -1), w, n, size);
    const Tensor logarithms = sum(log(w), -1);
    expect_close(slogdet(a).logabsdet, logarithms, n, size);
  }
}

TEST(LinearAlgebra, DecomposesAMatrixOf500) {
  for (const Context c : kernel_contexts()) {
    SCOPED_TRACE(to_string(c));
    expect_decompositions(positive_definite_numbers({500, 500}, c, f32));
  }
}

TEST(LinearAlgebra, DecomposesAHundredThousandMatrices) {
  for (const Context c : kernel_contexts()) {
    SCOPED_TRACE(to_string(c));
    expect_decompositions(positive_definite_numbers({100000, 3, 3}, c, f32));
  }
}

}  // namespace
}  // namespace locus::test
