// Joining and splitting along an axis.
//
//   const Tensor both = concat({a, b}, {.axis = 0});
//
// Operands of different dtypes are promoted. Axes may be negative. Lengths that do not match are a
// ShapeError, different contexts a ContextMismatch.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

struct ConcatOptions {
  int axis = 1;  // MXNet's default
};
struct StackOptions {
  int axis = 0;
};
struct SplitOptions {
  int axis = 1;               // MXNet's default
  bool squeeze_axis = false;  // true: if pieces have length 1, drop the axis
};

// Joins along an axis. Other lengths are equal.
Tensor concat(const Tensors& data, const ConcatOptions& options = {}, Caller = Caller::here());
// Joins along a new axis. All shapes are equal.
Tensor stack(const Tensors& data, const StackOptions& options = {}, Caller = Caller::here());
// `sections` views of equal length.
Tensors split(const Tensor& x, int64_t sections, const SplitOptions& options = {},
              Caller = Caller::here());

// Repeats x reps[i] times along axis i. The shorter of shape and reps gets leading ones (NumPy).
Tensor tile(const Tensor& x, const Shape& reps, Caller = Caller::here());
// Repeats each element n times along `axis`.
Tensor repeat(const Tensor& x, int64_t n, int axis, Caller = Caller::here());

}  // namespace locus
