// The ops of linear algebra, for its functions and gradients: no checks, no waiting. Internal.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/linalg/linalg_kernel.h>

namespace locus::linalg {

// {x, failed}. b is a matrix, with a's batch.
Tensors solve_op(const Tensor& a, const Tensor& b, bool transpose = false);
Tensors solve_triangular_op(const Tensor& a, const Tensor& b, const TriangularAttrs& t);
// The results of an op of one input: cholesky, lu_factor.
Tensors factor_op(const char* op, const Tensor& a);
// x with its last two axes exchanged.
Tensor transpose_matrices(const Tensor& x);
// Half of the sum of x and its transpose.
Tensor symmetrize(const Tensor& x);

}  // namespace locus::linalg
