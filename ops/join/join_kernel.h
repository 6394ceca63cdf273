// The place of concat's inputs in its output, for the host and for nvcc.
#pragma once

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>
#include <locus/ops/kernel/copy.h>

namespace locus {

struct ConcatAttrs {
  int32_t axis = 0;  // not negative
};

// The part of `out` from `begin` along `axis`, with the shape of `in`, which may lack that axis
// (stack). Advances `begin`.
LOCUS_HD View next_part(const View& out, const View& in, int axis, int64_t& begin) {
  View v = out;
  v.data = static_cast<char*>(out.data) + begin * out.stride[axis] * size_of(out.meta.dtype);
  v.meta = in.meta;
  const bool lacks = in.meta.rank < out.meta.rank;
  for (int i = axis; lacks && i < in.meta.rank; ++i) v.stride[i] = out.stride[i + 1];
  begin += lacks ? 1 : in.meta.shape[axis];
  return v;
}

template <class Views>
void join_all(const Call& call) {
  int64_t begin = 0;
  for (int i = 0; i < call.n_in; ++i) {
    const int axis = call.attributes<ConcatAttrs>().axis;
    Views::copy(call.in[i], next_part(call.out[0], call.in[i], axis, begin), call.stream);
  }
}

template <class Views>
constexpr KernelList join_kernels() {
  KernelList list;
  list.add("concat", kAllDTypes, join_all<Views>);
  list.add("stack", kAllDTypes, join_all<Views>);
  return list;
}

}  // namespace locus
