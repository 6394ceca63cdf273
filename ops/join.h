// Joining, splitting and repeating along an axis.
//
//   const Tensor both = concat({a, b}, {.axis = 0});
//
// Operands of different dtypes are promoted. Axes may be negative. Lengths that do not match are a
// ShapeError, different contexts a ContextMismatch. The default axis of concat and split is 1, for
// tensors of one axis, too: concat({a, b}) of vectors is a ShapeError; write {.axis = 0}.
#pragma once

#include <initializer_list>
#include <span>

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
struct ArraySplitOptions {
  int64_t axis = 0;  // NumPy's default
  bool squeeze_axis = false;
};

// Joins along an axis. Other lengths are equal.
Tensor concat(const Tensors& data, const ConcatOptions& options = {}, Caller = Caller::here());
// Joins along a new axis. All shapes are equal.
Tensor stack(const Tensors& data, const StackOptions& options = {}, Caller = Caller::here());
// `sections` views of equal length.
Tensors split(const Tensor& x, int64_t sections, const SplitOptions& options = {},
              Caller = Caller::here());

// The pieces between positions, as views: x[:p0], x[p0:p1], ..., x[pn:] along the axis. Positions
// are the ends of slices: a negative one counts from the end, one outside is clipped, and a piece
// that ends before it begins is empty. squeeze_axis: all pieces have length 1, else ShapeError.
Tensors split(const Tensor& x, std::span<const int64_t> positions, const SplitOptions& options = {},
              Caller = Caller::here());
Tensors split(const Tensor& x, std::initializer_list<int64_t> positions,
              const SplitOptions& options = {}, Caller = Caller::here());
// `sections` views, of which the first n mod sections are one element longer than the others.
Tensors array_split(const Tensor& x, int64_t sections, const ArraySplitOptions& options = {},
                    Caller = Caller::here());

// Repeats x reps[i] times along axis i. The shorter of shape and reps gets leading ones (NumPy).
Tensor tile(const Tensor& x, const Shape& reps, Caller = Caller::here());
// Repeats each element n times along `axis`. A negative n is a ValueError.
Tensor repeat(const Tensor& x, int64_t n, int64_t axis, Caller = Caller::here());
// The same for the flattened tensor. The result has one axis.
Tensor repeat(const Tensor& x, int64_t n, Caller = Caller::here());
// Repeats element i counts[i] times along `axis`, or in the flattened tensor. Counts are integers
// in a tensor of one axis, or a single number for all. The result's shape needs their sum, so the
// call waits for them. ValueError for a negative count, ShapeError for another number of counts.
Tensor repeat(const Tensor& x, const Tensor& counts, int64_t axis, Caller = Caller::here());
Tensor repeat(const Tensor& x, const Tensor& counts, Caller = Caller::here());
namespace detail {
// With counts on the host; without an axis of the flattened tensor.
Tensor repeat_listed(const Tensor& x, const std::vector<int64_t>& counts,
                     std::optional<int64_t> axis, Caller from);
}  // namespace detail

}  // namespace locus
