// Attributes and formulas of the create family's kernels, for the host and for nvcc.
#pragma once

#include <locus/core/kernel_list.h>
#include <locus/core/op.h>
#include <locus/ops/kernel/copy.h>

namespace locus {

// out[i] = start + i * step in f64, rounded after each of the two operations (never fused), then
// cast; the last element is `last` when has_last.
struct ArangeAttrs {
  double start = 0, step = 1, last = 0;
  bool has_last = false;
  Meta meta;
};

template <class Backend>
constexpr KernelList create_kernels() {
  KernelList list;
  list.add("fill", kAllDTypes, Backend::fill);
  list.add_each("arange", kAllDTypes,
                [](auto d) { return Backend::template arange<CppTypeOf<d>>; });
  return list;
}

}  // namespace locus
