// Comparisons, logic, and where(): ops of truth values.
//
// Operands broadcast and promote as in elementwise.h; a number that an integer tensor's dtype
// cannot hold compares by value. Results are bool_. Logic takes any dtype: what is not zero is
// true, NaN too. None of the predicates has a gradient. allclose() gives the host a bool.
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
Tensor logical_not(const Tensor& x);
Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);

// x where `condition` is not zero, else y; all three broadcast, x and y promote. Two numbers give
// f32 when one is floating, i64 when one is an integer, else bool_.
Tensor where(const Tensor& condition, const Operand& x, const Operand& y);

struct CloseOptions {
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = false;  // NaN is close to NaN
};
// Whether |a - b| <= atol + rtol |b| for all elements: NumPy's rule, computed in f64. An infinity
// is close to itself only. No elements: true. Waits. Throws ContextMismatch, ShapeError, and Error
// for two numbers; in a capture CaptureError.
bool allclose(const Operand& a, const Operand& b, const CloseOptions& = {},
              Caller = Caller::here());

}  // namespace locus
