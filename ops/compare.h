// Comparisons, logic and where().
//
//   const Tensor positive = where(x > 0, x, 0);
//
// Operands broadcast and promote as in elementwise.h. If an integer tensor's dtype cannot hold a
// number, they compare by value. Results are bool_. Logic takes any dtype: nonzero is true, also
// NaN. Predicates have no gradient.
#pragma once

#include <locus/ops/operand.h>

namespace locus {

Tensor equal(const Operand& a, const Operand& b);
Tensor not_equal(const Operand& a, const Operand& b);
Tensor greater(const Operand& a, const Operand& b);
Tensor greater_equal(const Operand& a, const Operand& b);
Tensor lesser(const Operand& a, const Operand& b);
Tensor lesser_equal(const Operand& a, const Operand& b);
inline Tensor operator==(const Operand& a, const Operand& b) { return equal(a, b); }
inline Tensor operator!=(const Operand& a, const Operand& b) { return not_equal(a, b); }
inline Tensor operator>(const Operand& a, const Operand& b) { return greater(a, b); }
inline Tensor operator>=(const Operand& a, const Operand& b) { return greater_equal(a, b); }
inline Tensor operator<(const Operand& a, const Operand& b) { return lesser(a, b); }
inline Tensor operator<=(const Operand& a, const Operand& b) { return lesser_equal(a, b); }

Tensor logical_and(const Operand& a, const Operand& b);
Tensor logical_or(const Operand& a, const Operand& b);
Tensor logical_xor(const Operand& a, const Operand& b);
Tensor logical_not(const Tensor& x, Caller = Caller::here());
Tensor isnan(const Tensor& x, Caller = Caller::here());
Tensor isinf(const Tensor& x, Caller = Caller::here());
Tensor isfinite(const Tensor& x, Caller = Caller::here());

// x where `condition` is not zero, else y. All three broadcast; x and y promote. Two numbers give
// f32 if one is floating, i64 if one is an integer, else bool_.
Tensor where(const Tensor& condition, const Operand& x, const Operand& y);

}  // namespace locus
