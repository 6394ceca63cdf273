// Which elements each result of a reduction combines, on every device.
#pragma once

#include <locus/ops/kernel/walk.h>

namespace locus {

struct ReduceAttrs {
  uint32_t axes = 0;  // bit i: axis i is reduced
  bool keepdims = false;
};
// The attributes of the op of a reduction R (reductions.h).
template <class R>
struct ReduceBy : ReduceAttrs {
  R how{};
};

// Result o, in the order of `keep`, combines elements k = 0 .. count - 1, in the order of `reduce`.
// Results are row-major in the order of the input's axes.
struct ReduceWalk {
  Walk<2> keep;    // of the result, of the input
  Walk<1> reduce;  // of the input
  int64_t outputs, count;

  // `ordered`: element k is the k-th in row-major order; else any fixed order.
  LOCUS_HD ReduceWalk(const View& v, uint32_t axes, bool ordered) {
    int64_t out[kMaxRank], n = 1;
    for (int i = v.meta.rank - 1; i >= 0; --i) {
      out[i] = n;
      if (!(axes >> i & 1)) n *= v.meta.shape[i];
    }
    for (int i = 0; i < v.meta.rank; ++i) {
      if (axes >> i & 1)
        reduce.add(v.meta.shape[i], {v.stride[i]});
      else
        keep.add(v.meta.shape[i], {out[i], v.stride[i]});
    }
    keep.sort();
    keep.tidy();
    if (!ordered) reduce.sort();
    reduce.tidy();
    outputs = keep.size;
    count = reduce.size;
  }
  // Of the innermost axes: the number of results, and the strides of elements.
  LOCUS_HD int64_t width() const { return keep.shape[keep.rank - 1]; }
  LOCUS_HD int64_t across() const { return keep.stride[1][keep.rank - 1]; }
  LOCUS_HD int64_t down() const { return reduce.stride[0][reduce.rank - 1]; }
};

// The axes along which `target` was broadcast to `shape`.
LOCUS_HD uint32_t broadcast_axes(const Meta& shape, const Meta& target) {
  const int shift = shape.rank - target.rank;
  uint32_t axes = 0;
  for (int i = 0; i < shape.rank; ++i)
    if (i < shift || target.shape[i - shift] != shape.shape[i]) axes |= 1u << i;
  return axes;
}

}  // namespace locus
