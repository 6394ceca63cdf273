// Indexing by tensors: take, pick, one_hot, and x[mask], x[ids], x(ids, Slice()).
//
// Index tensors are integers (floating ones are cut toward zero, as in MXNet); -1 is the last
// entry. An index outside its axis, or NaN, is an IndexError: at once on the CPU, on a GPU at the
// next wait of the host. Where the result has no elements none is looked at. Masks are bool_; their
// number of ones is needed for the result's shape, so x[mask] and nonzero wait for it, except
// x[mask] = number.
#pragma once

#include <locus/ops/operand.h>

namespace locus {

// What becomes of an index outside [-n, n): an IndexError; the nearest entry, which is the first
// for all negative ones, as in NumPy; the index modulo n.
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

// The entries of x along an axis: the result has ids' shape in the place of that axis. The gradient
// adds up repeated ids in order and in f64: the same bits on every run.
Tensor take(const Tensor& x, const Tensor& ids, const TakeOptions& options = {},
            Caller = Caller::here());
// One element along an axis for each position of the others: ids has x's shape without that axis
// (or with length 1 there). pick(log_softmax(y), label) is the usual call.
Tensor pick(const Tensor& x, const Tensor& ids, const PickOptions& options = {},
            Caller = Caller::here());
// ids' shape + (depth,); an id outside [0, depth) gives a row of off_value, as in MXNet.
Tensor one_hot(const Tensor& ids, int64_t depth, const OneHotOptions& options = {},
               Caller = Caller::here());
// The positions of the elements that are not 0, in row-major order: one i64 tensor an axis.
Tensors nonzero(const Tensor& x, Caller = Caller::here());

}  // namespace locus
