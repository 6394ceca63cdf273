// The ops of linear algebra, for its functions and gradients: no checks, no waiting. Internal.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/linalg/linalg_kernel.h>

namespace locus::linalg {

// {x, failed}. b is a matrix, with a's batch.
Tensors solved(const Tensor& a, const Tensor& b, bool transpose = false);
Tensors solved_triangular(const Tensor& a, const Tensor& b, const TriangularAttrs& t);
// The results of an op of one input: cholesky, lu_factor.
Tensors factored(const char* op, const Tensor& a);
// x with its last two axes exchanged.
Tensor turned(const Tensor& x);
// Half of the sum of x and its transpose.
Tensor symmetric(const Tensor& x);

}  // namespace locus::linalg
