// Ops of one operand.
//
// A floating tensor keeps its dtype; integers and bool become f64 first, except where the result of
// an integer is one: negative, abs, sign, square, clip, relu and the roundings, which keep it.
// Results have the operand's shape and memory layout. Outside a function's domain the result is
// NaN. Errors: DTypeError (for bool in negative and sign, too, as in NumPy); ValueError for an
// attribute outside its range.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

Tensor negative(const Tensor& x);
inline Tensor operator-(const Tensor& x) { return negative(x); }
// The lowest integer has no positive counterpart and stays.
Tensor abs(const Tensor& x);
// -1, 0 or 1; NaN stays NaN.
Tensor sign(const Tensor& x);
// Of bool: i8.
Tensor square(const Tensor& x);
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
// Toward zero.
Tensor trunc(const Tensor& x);
// Halves away from zero, as MXNet; rint() is NumPy's.
Tensor round(const Tensor& x);
// Halves to even.
Tensor rint(const Tensor& x);
Tensor sqrt(const Tensor& x);
// 1 / sqrt(x).
Tensor rsqrt(const Tensor& x);
Tensor cbrt(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor exp(const Tensor& x);
// exp(x) - 1, exact near 0.
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor log10(const Tensor& x);
// log(1 + x), exact near 0.
Tensor log1p(const Tensor& x);
// max(x, 0). The gradient at 0 is 0.
Tensor relu(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor tanh(const Tensor& x);
// x / (1 + |x|).
Tensor softsign(const Tensor& x);
// log(1 + exp(x)), MXNet's softrelu.
Tensor softplus(const Tensor& x);
// x / 2 (1 + erf(x / sqrt(2))).
Tensor gelu(const Tensor& x);
// x sigmoid(x).
Tensor silu(const Tensor& x);
// x sigmoid(beta x).
Tensor swish(const Tensor& x, double beta);
// x tanh(softplus(x)).
Tensor mish(const Tensor& x);
Tensor erf(const Tensor& x);
// x where it is above 0, else slope x; the gradient at 0 is slope.
Tensor leaky_relu(const Tensor& x, double slope = .25);
// The same with slopes that are learned. alpha is one number of any rank, or (C,) for an x
// (N, C, ...); dtypes are promoted as those of two operands. Throws ShapeError for another alpha:
// MXNet also takes slopes of axis 0, (N,), or of axes 0 and 1, (N, C). The gradient at 0 is
// alpha's.
Tensor prelu(const Tensor& x, const Tensor& alpha);
// x where it is above 0, else alpha (exp(x) - 1), for an alpha that x's dtype holds.
Tensor elu(const Tensor& x, double alpha = 1);
// elu scaled so that activations keep mean 0 and variance 1 (Klambauer et al. 2017).
Tensor selu(const Tensor& x);
// alpha x + beta, at least 0 and at most 1.
Tensor hard_sigmoid(const Tensor& x, double alpha = .2, double beta = .5);
// x min(max(x + 3, 0), 6) / 6.
Tensor hard_swish(const Tensor& x);
// (scalar x)^2 / 2 where |x| <= 1 / scalar^2, else |x| - 1 / (2 scalar^2), for scalar > 0.
Tensor smooth_l1(const Tensor& x, double scalar = 1);
// c tanh(x / c), for c > 0 that x's dtype holds.
Tensor softcap(const Tensor& x, double c);
// At least a_min and at most a_max, which must not be below it; integers cut the bounds. The
// gradient is 1 at the bounds, too. Of bool: i8.
Tensor clip(const Tensor& x, double a_min, double a_max);

// Radians.
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor arcsin(const Tensor& x);
Tensor arccos(const Tensor& x);
Tensor arctan(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor arcsinh(const Tensor& x);
Tensor arccosh(const Tensor& x);
Tensor arctanh(const Tensor& x);

}  // namespace locus
