// Indexing by tensors of indices, and by masks whose ones are counted: take_along_axis, gather_nd,
// index_put, compress and their kin.
//
//   const Tensor order = array({{2, 0, 1}});
//   const Tensor sorted = take_along_axis(x, order, {.axis = 1});
//
// Index tensors are integers from -n to n - 1; floats are a DTypeError (take in ops/index.h cuts
// them). Other indices are an IndexError, or are clipped or wrapped as options.mode says. If values
// of one place add up, floats are summed in order, in f64, and rounded once. See Details.
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

// As in MXNet: indices (M, ...) holds M coordinates along the first axis, for the first M axes of
// x. The result has shape indices.shape[1:] + x.shape[M:].
Tensor gather_nd(const Tensor& x, const Tensor& indices, const GatherOptions& options = {},
                 Caller = Caller::here());
// Zeros of a shape with `values` at the places that gather_nd reads. Values of repeated places add
// up with `accumulate`, else the last one stays.
Tensor scatter_nd(const Tensor& values, const Tensor& indices, const Shape& shape,
                  const ScatterOptions& options = {}, Caller = Caller::here());

// x with alpha * source[i] added to entry index[i] of the axis. index (n,) or 0-d. source has x's
// dtype and x's shape with length n along the axis. out: may be x, which is then written in place.
Tensor index_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source,
                 const IndexAddOptions& options = {}, Caller = Caller::here());
// x with x[indices[0], indices[1], ...] = values. The index tensors broadcast against each other.
// An undefined one stands for a whole axis, and a mask for its positions (which waits). values
// broadcast to the indexed elements and are cast to x's dtype. With `accumulate` they add up. out:
// may be x.
Tensor index_put(const Tensor& x, const Tensors& indices, const Operand& values,
                 const IndexPutOptions& options = {}, Caller = Caller::here());

// The positions of the elements that are not 0, i64 (n, x.ndim()), in row-major order. Waits for n.
Tensor argwhere(const Tensor& x, Caller = Caller::here());
// The entries of x along an axis where the condition (one axis, any dtype) is not 0. A shorter
// condition counts as false behind its end; a one past the axis is an IndexError. Waits for the
// number of ones.
Tensor compress(const Tensor& condition, const Tensor& x, const CompressOptions& options = {},
                Caller = Caller::here());

// As in MXNet: x of shape (n, batch, ...), or (batch, n, ...) for axis 1, with `value` at positions
// from sequence_length[b] on. sequence_length: (batch,), integers, or floats, cut toward zero;
// beyond [0, n] it counts as the nearest end. Without a sequence_length: a copy of x.
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
//   - A GPU throws at the host's next wait. Elements that wrong indices read are 0. Values with
//     wrong indices are not written.
//   - If no element is read or written, no index is checked.

// Repeated places:
//   - Without accumulation the last value in row-major order stays, on every context. The gradient
//     of a value that another one replaced is 0.
//   - Accumulation starts with x's element. Integers wrap, and bool_ is or. The bits are the same
//     on every run and context, for any number of threads.

}  // namespace locus
