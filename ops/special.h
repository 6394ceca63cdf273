// Special functions of one operand.
//
//   const Tensor log_density = -square(x) / 2 - log(erfc(x));
//
// Results, dtypes and errors are those of unary.h. A floating tensor keeps its dtype; integers and
// bool become f64. Outside a function's domain the result is NaN. ops/kernel/special.h has the
// accuracy. Gradients have any order.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

// 1 - erf(x), accurate for large x, where erf(x) rounds to 1.
Tensor erfc(const Tensor& x, Caller = Caller::here());
// The inverse of erf. At -1 and 1 erfinv is infinite. Outside [-1, 1] it is NaN.
Tensor erfinv(const Tensor& x, Caller = Caller::here());
// At 0 and -0 gamma is infinite with the sign of the zero. At negative integers and -infinity gamma
// is NaN.
Tensor gamma(const Tensor& x, Caller = Caller::here());
// log(|gamma(x)|). At 0, at negative integers and at both infinities lgamma is +infinity, as in C.
Tensor lgamma(const Tensor& x, Caller = Caller::here());
// The derivative of lgamma. At 0 and -0 digamma is infinite with the opposite sign, at negative
// integers NaN.
Tensor digamma(const Tensor& x, Caller = Caller::here());
// The n-th derivative of digamma, n from 0 to 1000; polygamma(0, x) is digamma(x). At negative
// integers polygamma is infinite if n is odd, else NaN.
Tensor polygamma(int n, const Tensor& x, Caller = Caller::here());
// sin(pi x) / (pi x), accurate near integers, where sinc is near 0. At 0 sinc is 1, at other
// integers 0, at infinities NaN.
Tensor sinc(const Tensor& x, Caller = Caller::here());

}  // namespace locus
