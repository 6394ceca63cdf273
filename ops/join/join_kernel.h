// Where concat's inputs go in its output, for the host and for nvcc.
#pragma once

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>

namespace locus {

struct ConcatAttrs {
  int32_t axis = 0;  // not negative
};

// The part of `out` that starts at `begin` along `axis` and has the shape of `in`.
LOCUS_HD View concat_part(const View& out, const View& in, int axis, int64_t begin) {
  View v = out;
  v.meta.shape[axis] = in.meta.shape[axis];
  v.data = static_cast<char*>(out.data) + begin * out.stride[axis] * size_of(out.meta.dtype);
  return v;
}

template <class Backend>
constexpr KernelList join_kernels() {
  KernelList list;
  list.add("concat", kAllDTypes, Backend::concat);
  return list;
}

}  // namespace locus
