// Ops of one operand.
//
// A floating tensor keeps its dtype; integers and bool become f64 first, except where the result of
// an integer is one: abs, sign, square and the roundings, which keep it. Results have the operand's
// shape and memory layout. Outside a function's domain the result is NaN. Errors: DTypeError (for
// bool in sign, too, as in NumPy); ValueError for an attribute outside its range.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

// The lowest integer has no positive counterpart and stays, also in negative (elementwise.h).
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
Tensor erf(const Tensor& x);
// (scalar x)^2 / 2 where |x| <= 1 / scalar^2, else |x| - 1 / (2 scalar^2), for scalar > 0.
Tensor smooth_l1(const Tensor& x, double scalar = 1);

}  // namespace locus
