// The ops of linear algebra and small functions of matrices, for functions and gradients. They
// neither check operands nor wait. Internal.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/linalg/linalg_kernel.h>

namespace locus::linalg {

// {x, failed}. b is a matrix, with a's batch.
Tensors solve_op(const Tensor& a, const Tensor& b, bool transpose = false);
Tensors solve_triangular_op(const Tensor& a, const Tensor& b, const TriangularAttrs& t);
// {inverse, failed}, of a or of its transpose.
Tensors invert_op(const Tensor& a, bool transpose = false);
Tensors cholesky_op(const Tensor& a);   // {l, failed}
Tensors factor_lu_op(const Tensor& a);  // {l and u in one matrix, order of rows, its sign}

// x with its last two axes exchanged.
Tensor transpose_matrices(const Tensor& x);
// Half of the sum of x and its transpose.
Tensor symmetrize(const Tensor& x);
// The identity matrix whose length is that of x's last axis.
Tensor identity_like(const Tensor& x);
// 1 / x where the condition holds, else 0.
Tensor invert_where(const Tensor& condition, const Tensor& x);
// Writes a function op's result: copies it into `out` if `out` has memory, else makes it `out`.
void store_result(Tensor& out, const Tensor& result);

// Samples: sample values from -1 to 1 plus a multiple of the identity matrix.
Tensor sample_matrices(Context c, DType d, const Shape& shape, double diagonal);
// Samples: values up to `size` plus a diagonal of 1, 4, 9 and so on. The singular values, and the
// absolute values of eigenvalues, lie apart.
Tensor sample_separated_matrices(Context c, DType d, const Shape& shape, double size);

}  // namespace locus::linalg
