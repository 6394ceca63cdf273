// The kernels of the gather family. Their attributes are TakeAttrs.
#pragma once

#include <locus/core/kernel_list.h>
#include <locus/ops/index/take_walk.h>

namespace locus {

template <class Backend>
constexpr KernelList gather_kernels() {
  KernelList list;
  list.add_each("index_add", kAllDTypes,
                [](auto d) { return Backend::template index_add<CppTypeOf<d>>; });
  list.add("index_put", kAllDTypes, Backend::index_put);
  return list;
}

}  // namespace locus
