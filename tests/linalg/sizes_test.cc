// Decompositions of one large matrix, and of very many small ones.
#include <locus/ops/products.h>
#include "tests/linalg/matrices.h"
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

// |error| within LAPACK's limit for n columns, whose operands are up to `size`.
void expect_small(const Tensor& error, int64_t n, double size) {
  EXPECT_LE(max_abs(error), 30 * static_cast<double>(n) * size * 0x1p-23) << describe(error);
}
void expect_orthonormal_columns(const Tensor& q) {
  const Tensor product = matmul(transpose_matrices(q), q);
  expect_small(product - identity_like(product), q.shape()[-2], 1);
}

// What every decomposition of a (..., n, n), symmetric and positive definite, reconstructs.
void expect_decompositions(const Tensor& a) {
  const int64_t n = a.shape()[-1];
  const double size = max_abs(a);
  const Tensor one = broadcast_to(identity_like(a), a.shape());
  {
    SCOPED_TRACE("cholesky, solve, inv");
    const Tensor l = cholesky(a), b = normal_numbers(a.shape(), a.context(), f32, 1);
    expect_small(matmul(l, transpose_matrices(l)) - a, n, size);
    const Tensor x = solve(a, b), y = solve_triangular(l, b);
    expect_small(matmul(a, x) - b, n, size * std::max(1., max_abs(x)));
    expect_small(matmul(l, y) - b, n, std::max(1., max_abs(l)) * std::max(1., max_abs(y)));
    const Tensor inverse = inv(a);
    expect_small(matmul(a, inverse) - one, n, size * max_abs(inverse));
  }
  {
    SCOPED_TRACE("lu, qr");
    const auto [p, l, u] = lu(a);
    expect_small(matmul(p, matmul(l, u)) - a, n, size);
    const auto [q, r] = qr(a);
    expect_small(matmul(q, r) - a, n, size);
    expect_orthonormal_columns(q);
  }
  {
    SCOPED_TRACE("eigh, svd");
    const auto [w, v] = eigh(a);
    expect_small(matmul(v * expand_dims(w, -2), transpose_matrices(v)) - a, n, size);
    expect_orthonormal_columns(v);
    const auto [u, s, vh] = svd(a);
    expect_small(matmul(u * expand_dims(s, -2), vh) - a, n, size);
    expect_orthonormal_columns(u);
    expect_orthonormal_columns(transpose_matrices(vh));
    expect_small(flip(s, -1) - w, n, size);
    const Tensor logarithms = sum(log(w), -1);
    expect_small(slogdet(a).logabsdet - logarithms, n, size);
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
