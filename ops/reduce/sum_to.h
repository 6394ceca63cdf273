// The kernels of sum_to. Internal to ops.
#pragma once

#include <locus/core/kernel_list.h>
#include <locus/ops/reduce/sum.h>

namespace locus {

template <class Engine>
constexpr KernelList sum_to_kernels() {
  KernelList list;
  list.add_each("sum_to", DTypes<f32, f64, f16, bf16, i64>{},
                [](auto d) { return &Engine::template sum_to<reduction::Sum, d>; });
  return list;
}

}  // namespace locus
