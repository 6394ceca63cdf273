// Attributes and formulas of the create family's kernels, for host and device code.
#pragma once

#include <locus/core/kernel_list.h>
#include <locus/core/op.h>
#include <locus/ops/kernel/copy.h>

namespace locus {

// out[i] = start + i * step in f64, rounded after each of the two operations (never fused), then
// cast. If has_last, the last element is `last`.
struct ArangeAttrs {
  double start = 0, step = 1, last = 0;
  bool has_last = false;
  Meta meta;
};

template <class Views>
void fill(const Call& call) {
  const View& out = call.out[0];
  const Scalar& value = call.attributes<FillAttrs>().value;
  Views::fill(out, element_bits(out.meta.dtype, value), call.stream);
}

template <class Backend, class Views>
constexpr KernelList create_kernels() {
  KernelList list;
  list.add("fill", kAllDTypes, fill<Views>);
  list.add_each("arange", kAllDTypes,
                [](auto d) { return Backend::template arange<CppTypeOf<d>>; });
  return list;
}

}  // namespace locus
