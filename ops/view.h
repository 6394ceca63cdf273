// Views: the same memory seen with another shape or other strides. Nothing moves and nothing is
// launched; writing to a view writes to its base. Under Record a view is an op like any other, and
// its gradient goes back to the base.
//
// Axes may be negative. Errors: ShapeError for shapes and axes, IndexError for positions.
// Tensor's own members (core/tensor.h): x[i], x(i, Slice(...), newaxis, ellipsis), x.reshape(),
// x.transpose(), x.T().
#pragma once

#include <initializer_list>
#include <span>

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

// MXNet's codes: -1, once, infers a length; 0 copies the length of the input's axis at that place
// (in an empty tensor without -1 it is the length 0 itself). A view where the strides allow one,
// else a copy.
Tensor reshape(const Tensor& x, const Shape& shape, Caller = Caller::here());
// (n0, n1 * n2 * ...): MXNet keeps the first axis. A 0-d tensor becomes (1, 1).
Tensor flatten(const Tensor& x, Caller = Caller::here());

// Axis i of the result is axis axes[i] of x; empty: all axes reversed.
Tensor transpose(const Tensor& x, std::span<const int> axes, Caller = Caller::here());
Tensor transpose(const Tensor& x, std::initializer_list<int> axes = {}, Caller = Caller::here());
Tensor swapaxes(const Tensor& x, int a, int b, Caller = Caller::here());

Tensor expand_dims(const Tensor& x, int axis,
                   Caller = Caller::here());  // a new axis of length 1 at `axis` of the result
Tensor squeeze(const Tensor& x, Caller = Caller::here());  // without every axis of length 1
Tensor squeeze(const Tensor& x, int axis,
               Caller = Caller::here());  // ShapeError when its length is not 1

// Stride 0 along the repeated axes, as in NumPy: writing to the result throws Error.
Tensor broadcast_to(const Tensor& x, const Shape& shape, Caller = Caller::here());

Tensor flip(const Tensor& x, int axis, Caller = Caller::here());
// begin:end along one axis, as in MXNet's slice_axis. Clipped like Slice.
Tensor slice_axis(const Tensor& x, int axis, const Slice& slice, Caller = Caller::here());

namespace detail {
// reshape() without codes; the sizes are equal.
Tensor reshape_exact(const Tensor& x, const Shape& shape);
// x(items...).
Tensor basic_index(const Tensor& x, std::span<const Index> items);
}  // namespace detail

}  // namespace locus
