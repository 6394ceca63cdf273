// The ops of eigenvalues and singular values, for functions and gradients: no checks, no waiting.
// Internal.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/linalg/spectral_kernel.h>

namespace locus::linalg {

Tensors eigh_op(const Tensor& a, bool upper);         // {w, v, failed}
Tensors eigvalsh_op(const Tensor& a, bool upper);     // {w, failed}
Tensors svd_op(const Tensor& a, bool full_matrices);  // {u, s, vh, failed}
Tensors svdvals_op(const Tensor& a);                  // {s, failed}

double epsilon_of(DType d);
double default_rcond(const Tensor& a);  // max(m, n) times epsilon
// x, whose column j is multiplied by factors[j].
Tensor scale_columns(const Tensor& x, const Tensor& factors);
// The gradient of a if ds is the gradient of its singular values.
Tensor backpropagate_singular_values(const Tensor& a, const Tensor& ds);

}  // namespace locus::linalg
