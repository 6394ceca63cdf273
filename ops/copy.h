// Copies and casts of tensors. One op, "copy", reads and writes any strides.
//
// Casts give the same values on every context:
// - Floating to integer: cut toward zero and saturated; NaN becomes 0.
// - Integer to integer: wrapped, as in C++.
// - Any dtype to bool_: x != 0, so NaN is true.
// - To a narrower float: rounded once, to nearest even.
//
// The gradient of a cast is cast back.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

// Casts x into new memory, also if x has that dtype (MXNet's copy=True). Tensor::astype is the same
// function.
Tensor cast(const Tensor& x, DType dtype, Caller = Caller::here());
// Copies x into new memory, with the order of its strides if x has no gaps, else row-major.
// Tensor::clone is the same function. As results of all ops, copies of cpu_pinned() tensors live on
// cpu(0); x.copyto(x.context()) keeps them page-locked.
Tensor copy(const Tensor& x, Caller = Caller::here());
// Returns x if x is row-major without gaps, else a row-major copy.
Tensor contiguous(const Tensor& x, Caller = Caller::here());

}  // namespace locus
