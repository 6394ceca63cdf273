// Axes and shapes of reductions. Internal to ops.
#pragma once

#include <locus/core/error.h>
#include <locus/ops/call_check.h>
#include <locus/ops/reduce.h>
#include <locus/ops/reduce/reduce_walk.h>

namespace locus {

inline uint32_t all_axes(int rank) { return (1u << rank) - 1; }

// The attributes of a reduction of x. Throws ShapeError, which begins with `op`.
inline ReduceAttrs reduce_attrs(const Tensor& x, const Axes& axis, bool keepdims,
                                std::string_view op) {
  ReduceAttrs attrs{axis.all() ? all_axes(x.ndim()) : 0, keepdims};
  for (int64_t a : axis.list()) {
    const uint32_t bit = 1u << detail::axis_of(x, a, op);
    if (attrs.axes & bit)
      throw ShapeError(op, ": data ", describe(x), ": axis ", a,
                       " is given twice; expected distinct axes");
    attrs.axes |= bit;
  }
  return attrs;
}

// The result's shape.
inline Meta reduced(const Meta& in, const ReduceAttrs& a, DType dtype) {
  Meta out;
  out.dtype = dtype;
  for (int i = 0; i < in.rank; ++i) {
    const bool gone = a.axes >> i & 1;
    if (!gone || a.keepdims) out.shape[out.rank++] = gone ? 1 : in.shape[i];
  }
  return out;
}

// For reductions without a value for no elements. Throws ShapeError.
inline void need_elements(const Meta& in, const ReduceAttrs& a) {
  for (int i = 0; i < in.rank; ++i)
    if ((a.axes >> i & 1) && in.shape[i] == 0)
      throw ShapeError("axis ", i,
                       " has length 0; expected at least one element, since this reduction has no "
                       "value for none");
}

}  // namespace locus
