// Products of vectors, matrices and tensors beyond ops/matmul.h. einsum() in ops/einsum.h is the
// general product.
//
//   tensordot(a, b, {0, 1}, {1, 2});          // sums over pairs of axes
//   outer(x, y);                              // x[i] * y[j]
//   cross(a, b);                              // of vectors in three dimensions
//   matrix_power(m, 5);
//
// Operands of different dtypes are promoted as in NumPy, and the result has the promoted dtype,
// unless stated otherwise. Integers wrap. bool multiplies by `and` and sums by `or`. Products with
// sums are matmuls: set_matmul_precision() sets their precision, and an amp::Scope sets the dtype
// of f32 products. Axes may be negative. Gradients exist to any order.
//
// Shapes and axes that do not fit are a ShapeError. Operands of different contexts are a
// ContextMismatch.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

// Multiplies and sums over pairs of axes of equal length: the last `axes` axes of a with the first
// `axes` axes of b, in order, or axis axes_a[i] of a with axis axes_b[i] of b. The result has the
// other axes of a, then the other axes of b. axes = 0 multiplies each element of a by each element
// of b. A negative number of axes is a ValueError.
Tensor tensordot(const Tensor& a, const Tensor& b, int64_t axes = 2, Caller = Caller::here());
Tensor tensordot(const Tensor& a, const Tensor& b, std::span<const int> axes_a,
                 std::span<const int> axes_b, Caller = Caller::here());
Tensor tensordot(const Tensor& a, const Tensor& b, std::initializer_list<int> axes_a,
                 std::initializer_list<int> axes_b, Caller = Caller::here());

// Multiplies and sums over the last axes of a and b, which have equal lengths. If a or b has no
// axes, the result is a * b.
Tensor inner(const Tensor& a, const Tensor& b, Caller = Caller::here());
// The sum of products of all elements, in row-major order: a 0-d tensor. Sizes are equal.
Tensor vdot(const Tensor& a, const Tensor& b, Caller = Caller::here());
// a[i] * b[j] of the flattened tensors. The shape is (a.size(), b.size()).
Tensor outer(const Tensor& a, const Tensor& b, Caller = Caller::here());
// The Kronecker product: a with each element replaced by the product of the element and b. Axis i
// has the length of a's axis i times the length of b's axis i. The shorter shape gets leading ones.
Tensor kron(const Tensor& a, const Tensor& b, Caller = Caller::here());

struct CrossOptions {
  int64_t axisa = -1, axisb = -1;              // the axes of a and b that hold the vectors
  int64_t axisc = -1;                          // the axis of the result that holds the vectors
  std::optional<int64_t> axis = std::nullopt;  // if set, all three
};
// The cross product of vectors of length 3. Other lengths are a ShapeError. The other axes of a and
// b broadcast. bool cannot be subtracted and is a DTypeError.
Tensor cross(const Tensor& a, const Tensor& b, const CrossOptions& options = {},
             Caller = Caller::here());

// The sum of the diagonal (ops/view.h) of the matrices in axis1 and axis2. Integers and bool are
// summed in i64.
Tensor trace(const Tensor& x, int64_t offset = 0, int64_t axis1 = 0, int64_t axis2 = 1,
             Caller = Caller::here());

// The product of n copies of each square matrix, by repeated squaring. The last two axes are the
// matrices. n = 0 gives identity matrices, without a gradient. If n is negative, the inverses are
// multiplied, as inv() in ops/linalg.h gives them: integers and bool give f64, f16 and bf16 are a
// DTypeError, a singular matrix is a ValueError, and the host waits.
Tensor matrix_power(const Tensor& x, int64_t n, Caller = Caller::here());
// The product of two or more matrices, in the order of fewest multiplications. A vector as the
// first operand is a row, and a vector as the last operand is a column. The result lacks the axis
// of length 1 of such a row or column. All operands are promoted before the first product.
Tensor multi_dot(const Tensors& matrices, Caller = Caller::here());

}  // namespace locus
