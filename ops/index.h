// Indexing by tensors: take, pick, one_hot, and x[mask], x[ids], x(ids, Slice()).
//
//   const Tensor rows = take(x, ids);      // rows of x at the positions ids
//
// Index tensors are integers; floating ones are cut toward zero, as in MXNet. -1 is the last entry.
// An index outside its axis, or NaN, is an IndexError. The CPU throws at once, a GPU at the host's
// next wait. If the result has no elements, no index is checked.
//
// Masks are bool_. The result's shape needs the mask's number of ones, so x[mask] and nonzero wait
// for that number. x[mask] = number does not wait.
#pragma once

#include <locus/ops/operand.h>

namespace locus {

// The handling of an index outside [-n, n). raise: IndexError. clip: the nearest entry; all
// negative indices give the first, as in NumPy. wrap: the index modulo n; a floating index that
// 64 bits do not hold is an IndexError.
enum class IndexMode : uint8_t { raise, clip, wrap };

struct TakeOptions {
  int axis = 0;
  IndexMode mode = IndexMode::raise;
};
struct PickOptions {
  int axis = -1;
  bool keepdims = false;
  IndexMode mode = IndexMode::raise;
};
struct OneHotOptions {
  double on_value = 1, off_value = 0;
  DType dtype = f32;
};

// The entries of x along an axis. In the result's shape, ids' shape replaces that axis. The
// gradient adds repeated ids in order and in f64: the same bits each run. The gradient by 2^32 ids
// or more is a ValueError.
Tensor take(const Tensor& x, const Tensor& ids, const TakeOptions& options = {},
            Caller = Caller::here());
// One element along an axis for each position of the other axes. ids has x's shape without that
// axis or with length 1 there. The usual call is pick(log_softmax(y), label).
Tensor pick(const Tensor& x, const Tensor& ids, const PickOptions& options = {},
            Caller = Caller::here());
// The result has shape ids' shape + (depth,). An id outside [0, depth) gives a row of off_value, as
// in MXNet.
Tensor one_hot(const Tensor& ids, int64_t depth, const OneHotOptions& options = {},
               Caller = Caller::here());
// The positions of the elements that are not 0, in row-major order. One i64 tensor an axis.
Tensors nonzero(const Tensor& x, Caller = Caller::here());

// The positions along each axis of a tensor of this shape of the elements that lie at `ids` in
// row-major order: one i64 tensor an axis, each of ids' shape. An id outside [0, size), negative
// too, is an IndexError.
Tensors unravel_index(const Tensor& ids, const Shape& shape, Caller = Caller::here());
// The inverse: flat positions, i64, from one tensor an axis. The tensors broadcast. By default an
// index outside [0, n) of its axis, negative too, is an IndexError.
Tensor ravel_multi_index(const Tensors& ids, const Shape& shape, IndexMode mode = IndexMode::raise,
                         Caller = Caller::here());

}  // namespace locus
