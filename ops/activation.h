// Activation functions of one operand.
//
// Results, dtypes and errors are those of unary.h: a floating tensor keeps its dtype, and integers
// and bool become f64 first, except in relu, which keeps integers. ValueError for an attribute
// outside its range.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

// max(x, 0). The gradient at 0 is 0.
Tensor relu(const Tensor& x, Caller = Caller::here());
Tensor sigmoid(const Tensor& x, Caller = Caller::here());
// x / (1 + |x|).
Tensor softsign(const Tensor& x, Caller = Caller::here());
// log(1 + exp(x)), MXNet's softrelu.
Tensor softplus(const Tensor& x, Caller = Caller::here());
// x / 2 (1 + erf(x / sqrt(2))).
Tensor gelu(const Tensor& x, Caller = Caller::here());
// x sigmoid(x).
Tensor silu(const Tensor& x, Caller = Caller::here());
// x sigmoid(beta x).
Tensor swish(const Tensor& x, double beta, Caller = Caller::here());
// x tanh(softplus(x)).
Tensor mish(const Tensor& x, Caller = Caller::here());
// x where it is above 0, else slope x; the gradient at 0 is slope.
Tensor leaky_relu(const Tensor& x, double slope = .25, Caller = Caller::here());
// The same with slopes that are learned. alpha is one number of any rank, or (C,) for an x
// (N, C, ...); dtypes are promoted as those of two operands. Throws ShapeError for another alpha:
// MXNet also takes slopes of axis 0, (N,), or of axes 0 and 1, (N, C). The gradient at 0 is
// alpha's.
Tensor prelu(const Tensor& x, const Tensor& alpha, Caller = Caller::here());
// x where it is above 0, else alpha (exp(x) - 1), for an alpha that x's dtype holds.
Tensor elu(const Tensor& x, double alpha = 1, Caller = Caller::here());
// elu scaled so that activations keep mean 0 and variance 1 (Klambauer et al. 2017).
Tensor selu(const Tensor& x, Caller = Caller::here());
// alpha x + beta, at least 0 and at most 1.
Tensor hard_sigmoid(const Tensor& x, double alpha = .2, double beta = .5, Caller = Caller::here());
// x min(max(x + 3, 0), 6) / 6.
Tensor hard_swish(const Tensor& x, Caller = Caller::here());
// c tanh(x / c), for c > 0 that x's dtype holds.
Tensor softcap(const Tensor& x, double c, Caller = Caller::here());

}  // namespace locus
