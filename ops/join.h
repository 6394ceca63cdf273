// Joining and splitting along an axis.
//
// Operands of different dtypes meet in promote()'s. Axes may be negative. Lengths that do not match
// throw ShapeError, different contexts ContextMismatch.
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
  bool squeeze_axis = false;  // drop the axis when its pieces have length 1
};

// Along an existing axis; the other lengths are equal.
Tensor concat(const Tensors& data, const ConcatOptions& options = {}, Caller = Caller::here());
// Along a new axis; all shapes are equal.
Tensor stack(const Tensors& data, const StackOptions& options = {}, Caller = Caller::here());
// `sections` views of equal length.
Tensors split(const Tensor& x, int64_t sections, const SplitOptions& options = {},
              Caller = Caller::here());

// x repeated reps[i] times along axis i, as in NumPy: the shorter of shape and reps gets leading
// ones.
Tensor tile(const Tensor& x, const Shape& reps, Caller = Caller::here());
// Each element n times along `axis`.
Tensor repeat(const Tensor& x, int64_t n, int axis, Caller = Caller::here());

}  // namespace locus
