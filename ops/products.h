// Products of vectors, matrices and tensors beyond ops/matmul.h. ops/einsum.h has the general one.
//
//   tensordot(a, b, {0, 1}, {1, 2});          // sums over pairs of axes
//   outer(x, y);                              // x[i] * y[j]
//   cross(a, b);                              // of vectors in three dimensions
//   matrix_power(m, 5);
//
// Operands of different dtypes are promoted as in NumPy, and the result has that dtype. Integers
// wrap. bool multiplies by `and` and sums by `or`. Axes may be negative. Gradients exist to any
// order. Shapes and axes that do not fit are a ShapeError, operands of different contexts a
// ContextMismatch.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

// Sums over pairs of axes of equal length: the last `axes` axes of a and the first of b, in order,
// or axis axes_a[i] of a and axes_b[i] of b. The result has a's other axes, then b's. axes = 0
// multiplies each element of a by each of b. A negative number of axes is a ValueError.
Tensor tensordot(const Tensor& a, const Tensor& b, int64_t axes = 2, Caller = Caller::here());
Tensor tensordot(const Tensor& a, const Tensor& b, std::span<const int> axes_a,
                 std::span<const int> axes_b, Caller = Caller::here());
Tensor tensordot(const Tensor& a, const Tensor& b, std::initializer_list<int> axes_a,
                 std::initializer_list<int> axes_b, Caller = Caller::here());

// Sums over the last axes of both. If a or b has no axes, the product of all elements with it.
Tensor inner(const Tensor& a, const Tensor& b, Caller = Caller::here());
// The sum of products of all elements, in row-major order: a 0-d tensor. Sizes are equal.
Tensor vdot(const Tensor& a, const Tensor& b, Caller = Caller::here());
// a[i] * b[j] of the flattened tensors, (a.size(), b.size()).
Tensor outer(const Tensor& a, const Tensor& b, Caller = Caller::here());
// Kronecker's product: each element of a times the whole of b, in a's place. The shorter shape gets
// leading ones. Along each axis, the result's length is the product of both lengths.
Tensor kron(const Tensor& a, const Tensor& b, Caller = Caller::here());

struct CrossOptions {
  int64_t axisa = -1, axisb = -1;              // the axes of the vectors in a and b
  int64_t axisc = -1;                          // the axis of the vectors in the result
  std::optional<int64_t> axis = std::nullopt;  // if set, all three
};
// a x b of vectors of length 3; other lengths are a ShapeError. The other axes broadcast. bool has
// no differences and is a DTypeError.
Tensor cross(const Tensor& a, const Tensor& b, const CrossOptions& options = {},
             Caller = Caller::here());

// The sum of the diagonal (ops/view.h) of the matrices in axis1 and axis2. Integers and bool are
// summed in i64.
Tensor trace(const Tensor& x, int64_t offset = 0, int64_t axis1 = 0, int64_t axis2 = 1,
             Caller = Caller::here());

// The product of n copies of each square matrix, the last two axes, by repeated squaring. n = 0
// gives identity matrices, without a gradient. A negative n takes the inverses (ops/linalg.h), so
// integers give f64 and a singular matrix is a ValueError.
Tensor matrix_power(const Tensor& x, int64_t n, Caller = Caller::here());
// The product of two or more matrices, in the order of fewest multiplications. The first and the
// last may be vectors: a row and a column, whose axis the result lacks.
Tensor multi_dot(const Tensors& matrices, Caller = Caller::here());

}  // namespace locus
