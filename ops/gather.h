// Indexing by tensors of indices and by masks: take_along_axis, put_along_axis, gather_nd,
// scatter_nd, index_add, index_put, argwhere, compress, sequence_mask.
//
//   const Tensor order = array({{2, 0, 1}});
//   const Tensor sorted = take_along_axis(x, order, {.axis = 1});
//
// Indices are integers from -n to n - 1 for an axis of length n. Floating indices are a DTypeError
// (take in ops/index.h cuts floats). options.mode decides whether an index out of range is an
// IndexError, is clipped or wraps. If several values are added to one element, floats are summed in
// order, in f64, and rounded once. See Details.
#pragma once

#include <optional>

#include <locus/ops/index.h>
#include <locus/ops/operand.h>

namespace locus {

struct AlongAxisOptions {
  std::optional<int64_t> axis = -1;  // nullopt: x counts as flattened
  IndexMode mode = IndexMode::raise;
};
struct PutAlongAxisOptions {
  std::optional<int64_t> axis = -1;
  IndexMode mode = IndexMode::raise;
  bool inplace = true;
};
struct GatherOptions {
  IndexMode mode = IndexMode::raise;
};
struct ScatterOptions {
  bool accumulate = false;
  IndexMode mode = IndexMode::raise;
};
struct IndexAddOptions {
  Scalar alpha = 1;
  IndexMode mode = IndexMode::raise;
  Tensor out = {};
};
struct IndexPutOptions {
  bool accumulate = false;
  IndexMode mode = IndexMode::raise;
  Tensor out = {};
};
struct CompressOptions {
  std::optional<int64_t> axis = {};  // nullopt: x counts as flattened
  Tensor out = {};
};
struct SequenceMaskOptions {
  Scalar value = 0;
  int64_t axis = 0;  // of the positions: 0 or 1
};

// result[i, j, ...] = x[indices[i, j, ...], j, ...] for axis 0. indices has x's rank. Other axes
// broadcast against x's.
Tensor take_along_axis(const Tensor& x, const Tensor& indices, const AlongAxisOptions& options = {},
                       Caller = Caller::here());
// x[indices[i, j, ...], j, ...] = values[i, j, ...] for axis 0. indices and values broadcast to x's
// shape with indices' length along the axis; values are cast to x's dtype. Writes x and returns it.
// With inplace false, the result is a new tensor, which has gradients.
Tensor put_along_axis(const Tensor& x, const Tensor& indices, const Operand& values,
                      const PutAlongAxisOptions& options = {}, Caller = Caller::here());

// Indices of shape (M, ...) hold M coordinates along the first axis, for the first M axes of x, as
// in MXNet. The result has shape indices.shape[1:] + x.shape[M:].
Tensor gather_nd(const Tensor& x, const Tensor& indices, const GatherOptions& options = {},
                 Caller = Caller::here());
// Zeros of the given shape, with `values` at the positions that gather_nd reads. With `accumulate`,
// values of one position add up; otherwise the last value stays.
Tensor scatter_nd(const Tensor& values, const Tensor& indices, const Shape& shape,
                  const ScatterOptions& options = {}, Caller = Caller::here());

// x with alpha * source[i] added to entry index[i] of the axis. The index has shape (n,) or (). The
// source has x's dtype, and x's shape with length n along the axis. `out` may be x, which is then
// written in place.
Tensor index_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source,
                 const IndexAddOptions& options = {}, Caller = Caller::here());
// x with x[indices[0], indices[1], ...] = values. The index tensors broadcast against each other.
// An undefined index tensor selects a whole axis. A mask selects the positions where it is true;
// the host waits for their number. The values broadcast to the selected elements and are cast to
// x's dtype. With `accumulate`, values are added. `out` may be x.
Tensor index_put(const Tensor& x, const Tensors& indices, const Operand& values,
                 const IndexPutOptions& options = {}, Caller = Caller::here());

// The positions of the elements that are not 0, i64 of shape (n, x.ndim()), in row-major order. The
// host waits for n.
Tensor argwhere(const Tensor& x, Caller = Caller::here());
// The entries of x along an axis where the condition (one axis, any dtype) is not 0. Entries past
// the end of a shorter condition are left out. If the condition is not 0 past the end of the axis,
// compress throws IndexError. The host waits for the number of entries.
Tensor compress(const Tensor& condition, const Tensor& x, const CompressOptions& options = {},
                Caller = Caller::here());

// x of shape (n, batch, ...), or (batch, n, ...) for axis 1, with `value` at all positions from
// sequence_length[b] on, as in MXNet. sequence_length has shape (batch,). Floating lengths are cut
// toward zero, and lengths are limited to [0, n]. Without a sequence_length: a copy of x.
Tensor sequence_mask(const Tensor& x, const Tensor& sequence_length = {},
                     const SequenceMaskOptions& options = {}, Caller = Caller::here());

// Along one axis: take_along_axis(x, i, 1) is take_along_axis(x, i, {.axis = 1}).
inline Tensor take_along_axis(const Tensor& x, const Tensor& indices, Integer auto axis,
                              Caller from = Caller::here()) {
  return take_along_axis(x, indices, {.axis = axis}, from);
}
inline Tensor put_along_axis(const Tensor& x, const Tensor& indices, const Operand& values,
                             Integer auto axis, Caller from = Caller::here()) {
  return put_along_axis(x, indices, values, {.axis = axis}, from);
}
inline Tensor compress(const Tensor& condition, const Tensor& x, Integer auto axis,
                       Caller from = Caller::here()) {
  return compress(condition, x, {.axis = axis}, from);
}

// --- Details ---

// Indices out of range:
//   - The CPU throws at the call, before it writes.
//   - A GPU throws at the host's next wait. Elements read by wrong indices are 0. Values with wrong
//     indices are not written.
//   - If no element is read or written, no index is checked.

// Repeated positions:
//   - Without accumulation the last value in row-major order stays, on every context. Values that
//     do not stay have gradient 0.
//   - 2^32 indices or more are a ValueError, because repeated positions are found by sorts.
//   - Accumulation starts with x's element. Integers wrap, and bool is combined by or. The bits are
//     the same on every run and context, for any number of threads.

}  // namespace locus
