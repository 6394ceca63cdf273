// Shared by the copy kernels.
#pragma once

#include <locus/ops/kernel/copy.h>

namespace locus {

// The axis that the walk transposes with the last, or -1.
LOCUS_HD int transposed_axis(const Walk<2>& w) {
  const int last = w.rank - 1;
  if (last < 1 || w.stride[1][last] != 1 || w.stride[0][last] == 1 || w.stride[0][last] == 0)
    return -1;
  for (int t = 0; t < last; ++t)
    if (w.stride[0][t] == 1 && w.shape[t] >= 8 && w.shape[last] >= 8) return t;
  return -1;
}

template <class Views>
void copy_all(const Call& call) {
  Views::copy(call.in[0], call.out[0], call.stream);
}

// `Backend::copy_several` copies input i to output i, both row-major.
template <class Views, class Backend>
constexpr KernelList copy_kernels() {
  KernelList list;
  list.add("copy_several", kAllDTypes, Backend::copy_several);
  list.add("copy", kAllDTypes, copy_all<Views>);
  list.add("contiguous", kAllDTypes, copy_all<Views>);
  return list;
}

}  // namespace locus
