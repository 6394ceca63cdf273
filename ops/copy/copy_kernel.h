// The list of the copies' kernels.
#pragma once

#include <locus/ops/kernel/copy.h>

namespace locus {

template <class Backend>
constexpr KernelList copy_kernels() {
  KernelList list;
  list.add("copy", kAllDTypes, Backend::copy);
  list.add("contiguous", kAllDTypes, Backend::copy);
  return list;
}

}  // namespace locus
