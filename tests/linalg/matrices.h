// Matrices for tests of linear algebra, and the size of errors.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/linalg.h>
#include <locus/ops/matmul.h>
#include <locus/ops/reduce.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>
#include "tests/tape/gradcheck.h"

namespace locus::test {

// Normal numbers.
inline Tensor normal_numbers(const Shape& shape, Context c, DType d = f64, unsigned seed = 0) {
  std::mt19937 random(seed + 17);
  std::normal_distribution<double> draw;
  std::vector<double> v(static_cast<size_t>(shape.size()));
  for (double& x : v) x = draw(random);
  return from_values(v, shape, c, d);
}
inline Tensor transpose_matrices(const Tensor& x) { return swapaxes(x, -1, -2); }
inline Tensor symmetrize(const Tensor& x) { return (x + transpose_matrices(x)) * .5; }
inline Tensor symmetric_numbers(const Shape& shape, Context c, DType d = f64, unsigned seed = 0) {
  return symmetrize(normal_numbers(shape, c, d, seed));
}
inline Tensor identity_like(const Tensor& square) {
  return eye(square.shape()[-1], 0, 0, {square.context(), square.dtype()});
}
// Symmetric, with eigenvalues from about 1 on.
inline Tensor positive_definite_numbers(const Shape& shape, Context c, DType d = f64) {
  const Tensor x = normal_numbers(shape, c, d);
  return matmul(x, transpose_matrices(x)) + identity_like(x);
}

inline double max_abs(const Tensor& x) { return x.size() == 0 ? 0 : max(abs(x)).item<double>(); }
inline double epsilon(DType d) { return d == f64 ? 0x1p-52 : 0x1p-23; }
// The largest norm of the matrices.
inline double max_norm(const Tensor& a) { return max_abs(norm(a, {.axis = {-2, -1}})); }
// Each element of `got` is right within `factor` n epsilon times a size.
inline void expect_close(const Tensor& got, const Tensor& wanted, int64_t n, double size,
                         double factor = 8) {
  ASSERT_EQ(got.shape(), wanted.shape());
  const double allowed = factor * static_cast<double>(n) * epsilon(got.dtype()) * size;
  EXPECT_LE(max_abs(got - wanted), allowed) << got.shape() << " " << name(got.dtype());
}
inline void expect_orthonormal_columns(const Tensor& v, double factor = 8) {
  const Tensor product = matmul(transpose_matrices(v), v);
  expect_close(product, broadcast_to(identity_like(product), product.shape()), v.shape()[-2], 1,
               factor);
}

}  // namespace locus::test
