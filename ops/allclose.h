// Comparing tensors up to rounding.
#pragma once

#include <locus/ops/operand.h>

namespace locus {

struct CloseOptions {
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = false;  // true: NaN is close to NaN
};
// Whether |a - b| <= atol + rtol |b| for all elements: NumPy's rule, in f64. An infinity is close
// only to itself. No elements: true. The host waits. Throws:
// - ContextMismatch or ShapeError: operands do not fit.
// - Error: both operands are numbers. ValueError: a tolerance is NaN or negative.
// - CaptureError: the call is in a capture.
bool allclose(const Operand& a, const Operand& b, const CloseOptions& = {},
              Caller = Caller::here());

}  // namespace locus
