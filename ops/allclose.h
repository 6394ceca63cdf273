// Comparing tensors up to rounding.
#pragma once

#include <locus/ops/operand.h>

namespace locus {

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
