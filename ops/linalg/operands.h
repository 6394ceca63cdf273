// Checks of the operands of linear algebra. Errors begin with the function's name. Internal.
#pragma once

#include <locus/core/tensor.h>

namespace locus::linalg {

// x in a dtype that kernels compute in: integers as f64. 16-bit floats are a DTypeError. `what` is
// the name of the operand.
Tensor computed(const char* who, const char* what, const Tensor& x);
// The same for an operand `a` of at least 2 axes, and of square matrices.
Tensor matrices(const char* who, const Tensor& x);
Tensor squares(const char* who, const Tensor& x);

}  // namespace locus::linalg
