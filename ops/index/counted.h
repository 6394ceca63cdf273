// Results whose shape is known only after a run: x[mask], nonzero, argwhere, compress, unique. A
// kernel counts on the device, the host waits once for the number, and the result is allocated.
//
//   const CountedMask ones(mask, from);       // counts, and waits
//   const Tensor values = ones.select(x);     // (ones.count(),), in row-major order
//
// If another kernel counts, read_count() waits for its number. Internal to ops.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/index/index_kernel.h>

namespace locus::detail {

// The last element of an i64 tensor of one axis, which a kernel has written. Waits for it.
int64_t read_count(const Tensor& counts, Caller from);

// The elements of a tensor that are not 0.
class CountedMask {
 public:
  // A mask in bool, or numbers, of which each that is not 0 counts. Waits.
  CountedMask(const Tensor& mask, Caller from);

  int64_t count() const { return attrs_.count; }
  // Row-major positions of the ones, i64 (count,), ascending.
  Tensor positions() const;
  // The elements of x at the ones, (count,). x has the mask's shape.
  Tensor select(const Tensor& x, Tensor out = {}) const;

 private:
  Tensor mask_, offsets_;
  MaskAttrs attrs_;
};

// Coordinates of flat positions in a shape with axes: i64 (axes, n), or (n, axes) with axes_last.
Tensor unravel(const Tensor& flat, const Shape& shape, bool axes_last = false);

}  // namespace locus::detail
