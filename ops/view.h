// Views: the same memory with another shape or other strides.
//
//   const Tensor rows = slice_axis(x, 0, Slice(0, 2));    // writing to rows writes to x
//
// A view moves nothing and launches nothing. Writing to a view writes to its base. Under Record a
// view is an op, and its gradient goes to the base.
//
// Axes may be negative. Wrong shapes and axes are a ShapeError, wrong positions an IndexError.
// Tensor's members (core/tensor.h): x[i], x(i, Slice(...), newaxis, ellipsis), x.reshape(),
// x.transpose(), x.T().
#pragma once

#include <initializer_list>
#include <span>
#include <utility>

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

// Takes MXNet's codes: one -1 infers a length, and 0 copies the input's length at that axis. In an
// empty tensor without -1, 0 is the length 0. If strides allow, the result is a view, else a copy.
Tensor reshape(const Tensor& x, const Shape& shape, Caller = Caller::here());
// (n0, n1 * n2 * ...), as in MXNet. A 0-d tensor becomes (1, 1).
Tensor flatten(const Tensor& x, Caller = Caller::here());

// Axis i of the result is axis axes[i] of x; empty: all axes reversed.
Tensor transpose(const Tensor& x, std::span<const int> axes, Caller = Caller::here());
Tensor transpose(const Tensor& x, std::initializer_list<int> axes = {}, Caller = Caller::here());
Tensor swapaxes(const Tensor& x, int64_t a, int64_t b, Caller = Caller::here());
// Axes of x move from `source` to `destination`; the others keep their order. ShapeError if the
// lists differ in length or name an axis twice.
Tensor moveaxis(const Tensor& x, int64_t source, int64_t destination, Caller = Caller::here());
Tensor moveaxis(const Tensor& x, std::span<const int> source, std::span<const int> destination,
                Caller = Caller::here());
Tensor moveaxis(const Tensor& x, std::initializer_list<int> source,
                std::initializer_list<int> destination, Caller = Caller::here());
// x turned k times by 90 degrees, from the first axis to the second.
Tensor rot90(const Tensor& x, int64_t k = 1, std::pair<int64_t, int64_t> axes = {0, 1},
             Caller = Caller::here());
// The elements whose indices along axis2 and axis1 differ by `offset`. The result has x's other
// axes, then the diagonal. An offset outside the matrix gives an empty diagonal.
Tensor diagonal(const Tensor& x, int64_t offset = 0, int64_t axis1 = 0, int64_t axis2 = 1,
                Caller = Caller::here());

Tensor expand_dims(const Tensor& x, int64_t axis,
                   Caller = Caller::here());  // a new axis of length 1 at `axis` of the result
Tensor squeeze(const Tensor& x, Caller = Caller::here());  // without every axis of length 1
Tensor squeeze(const Tensor& x, int64_t axis,
               Caller = Caller::here());  // ShapeError if its length is not 1

// Repeated axes have stride 0, as in NumPy. Writing to the result throws Error.
Tensor broadcast_to(const Tensor& x, const Shape& shape, Caller = Caller::here());

Tensor flip(const Tensor& x, int64_t axis, Caller = Caller::here());
// begin:end along one axis, clipped like Slice: MXNet's slice_axis.
Tensor slice_axis(const Tensor& x, int64_t axis, const Slice& slice, Caller = Caller::here());

namespace detail {
// reshape() without codes. Sizes are equal.
Tensor reshape_exact(const Tensor& x, const Shape& shape);
// x(items...).
Tensor basic_index(const Tensor& x, std::span<const Index> items);
}  // namespace detail

}  // namespace locus
