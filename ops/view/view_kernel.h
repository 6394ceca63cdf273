// Attributes of slices, and a slice's place in its base, for host and device code.
#pragma once

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>
#include <locus/ops/kernel/copy.h>

namespace locus {

// Of reshape and broadcast_to.
struct ShapeAttrs {
  Meta target;  // its dtype is not used
};
// Axis i of the result is axis axes[i] of the input.
struct TransposeAttrs {
  int8_t axes[kMaxRank] = {};
};
// Axis i of the result starts at begin[i], takes length[i] elements, step[i] apart (negative:
// backwards). Bit i of `drop`: the axis, of length 1, is left out of the result.
struct SlicePlace {
  int64_t begin[kMaxRank];
  int32_t step[kMaxRank];
  uint32_t drop;
};
struct SliceAttrs : SlicePlace {
  int64_t length[kMaxRank];
};
// The inverse: writes an input of the slice's shape into zeros of the base's shape.
struct SliceGradAttrs : SlicePlace {
  Meta base;
};

// The part of `base` that a slice of shape `m` covers.
LOCUS_HD View slice_of(const View& base, const Meta& m, const SlicePlace& at) {
  View v;
  int64_t offset = 0;
  int n = 0;
  for (int i = 0; i < base.meta.rank; ++i) {
    offset += at.begin[i] * base.stride[i];
    if (at.drop >> i & 1) continue;
    v.stride[n++] = at.step[i] * base.stride[i];
  }
  v.meta = m;
  v.data = static_cast<char*>(base.data) + offset * size_of(m.dtype);
  return v;
}

template <class Views>
void slice_grad(const Call& call) {
  const View &in = call.in[0], &out = call.out[0];
  Views::fill(out, 0, call.stream);
  if (in.meta.size() == 0) return;
  const SlicePlace& at = call.attributes<SliceGradAttrs>();
  Views::copy(in, slice_of(out, in.meta, at), call.stream);
}

template <class Views>
constexpr KernelList view_kernels() {
  KernelList list;
  list.add("slice_grad", kAllDTypes, slice_grad<Views>);
  return list;
}

}  // namespace locus
