// Activation functions of one operand.
//
//   const Tensor y = gelu(x);
//
// Results, dtypes and errors are those of unary.h. A floating tensor keeps its dtype. Integers and
// bool become f64 first; relu keeps integers. An attribute outside its range is a ValueError.
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
// x if x > 0, else slope x. The gradient at 0 is slope.
Tensor leaky_relu(const Tensor& x, double slope = .25, Caller = Caller::here());
// leaky_relu with learned slopes. alpha has one element, or shape (C,) for x (N, C, ...). Another
// alpha is a ShapeError; MXNet also takes slopes (N,) and (N, C). dtypes are promoted as those of
// two operands. The gradient at 0 is alpha's.
Tensor prelu(const Tensor& x, const Tensor& alpha, Caller = Caller::here());
// x if x > 0, else alpha (exp(x) - 1). x's dtype holds alpha.
Tensor elu(const Tensor& x, double alpha = 1, Caller = Caller::here());
// Scaled elu: activations keep mean 0 and variance 1 (Klambauer et al. 2017).
Tensor selu(const Tensor& x, Caller = Caller::here());
// alpha x + beta, limited to [0, 1].
Tensor hard_sigmoid(const Tensor& x, double alpha = .2, double beta = .5, Caller = Caller::here());
// x min(max(x + 3, 0), 6) / 6.
Tensor hard_swish(const Tensor& x, Caller = Caller::here());
// c tanh(x / c), with c > 0. x's dtype holds c.
Tensor softcap(const Tensor& x, double c, Caller = Caller::here());

}  // namespace locus
