// Ops of one operand.
//
//   const Tensor y = exp(x);
//
// A floating tensor keeps its dtype. Integers and bool become f64 first; abs, sign, square and the
// roundings keep integers. Results have the operand's shape and memory layout. Outside a function's
// domain the result is NaN. An attribute outside its range is a ValueError. sign of bool is a
// DTypeError, as in NumPy.
#pragma once

#include <optional>

#include <locus/ops/operand.h>

namespace locus {

// The abs of the lowest integer is itself, because the true value does not fit. So is its negative
// (elementwise.h).
Tensor abs(const Tensor& x, Caller = Caller::here());
// -1, 0 or 1; NaN stays NaN.
Tensor sign(const Tensor& x, Caller = Caller::here());
// bool gives i8.
Tensor square(const Tensor& x, Caller = Caller::here());
Tensor floor(const Tensor& x, Caller = Caller::here());
Tensor ceil(const Tensor& x, Caller = Caller::here());
// Rounds toward zero.
Tensor trunc(const Tensor& x, Caller = Caller::here());
// Rounds halves away from zero, as MXNet. NumPy's are rint() and round(x, decimals).
Tensor round(const Tensor& x, Caller = Caller::here());
// Rounds halves to even.
Tensor rint(const Tensor& x, Caller = Caller::here());
// Rounds halves to even, as NumPy: x 10^decimals to an integer, then / 10^decimals, each step in
// x's dtype, of 16 bits in f32. If x 10^decimals overflows, the result is x. Integers are exact;
// results that do not fit wrap.
Tensor round(const Tensor& x, int decimals, Caller = Caller::here());
inline Tensor around(const Tensor& x, int decimals = 0, Caller from = Caller::here()) {
  return round(x, decimals, from);
}
Tensor sqrt(const Tensor& x, Caller = Caller::here());
// 1 / sqrt(x).
Tensor rsqrt(const Tensor& x, Caller = Caller::here());
Tensor cbrt(const Tensor& x, Caller = Caller::here());
Tensor reciprocal(const Tensor& x, Caller = Caller::here());
Tensor exp(const Tensor& x, Caller = Caller::here());
Tensor exp2(const Tensor& x, Caller = Caller::here());
// exp(x) - 1, exact near 0.
Tensor expm1(const Tensor& x, Caller = Caller::here());
Tensor log(const Tensor& x, Caller = Caller::here());
Tensor log2(const Tensor& x, Caller = Caller::here());
Tensor log10(const Tensor& x, Caller = Caller::here());
// log(1 + x), exact near 0.
Tensor log1p(const Tensor& x, Caller = Caller::here());
// From radians to degrees, and back.
Tensor degrees(const Tensor& x, Caller = Caller::here());
Tensor radians(const Tensor& x, Caller = Caller::here());
// Replaces NaN and infinities. Without posinf and neginf, infinities become the largest and the
// lowest number of x's dtype. The gradient is 0 where x was replaced. Integers stay.
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> posinf = {},
                  std::optional<double> neginf = {}, Caller = Caller::here());
Tensor erf(const Tensor& x, Caller = Caller::here());
// (scalar x)^2 / 2 if |x| <= 1 / scalar^2, else |x| - 1 / (2 scalar^2). scalar > 0.
Tensor smooth_l1(const Tensor& x, double scalar = 1, Caller = Caller::here());

}  // namespace locus
