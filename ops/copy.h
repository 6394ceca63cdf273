// Copies and casts: one op, "copy", of any strides on both sides.
//
// Casts are the same on every context: floating to integer cuts toward zero and saturates, NaN
// becomes 0; integer to integer wraps as in C++; anything to bool_ is `!= 0` (so NaN is true); to a
// narrower float rounds to nearest even, once. The gradient is the cast back.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

// New memory in every case, also when the dtype is x's own (MXNet's copy=True). Tensor::astype is
// the same function.
Tensor cast(const Tensor& x, DType dtype, Caller = Caller::here());
// New memory, the strides' order kept. Tensor::clone is the same function.
Tensor copy(const Tensor& x, Caller = Caller::here());
// x itself when it is row-major without gaps, else a row-major copy.
Tensor contiguous(const Tensor& x, Caller = Caller::here());

}  // namespace locus
