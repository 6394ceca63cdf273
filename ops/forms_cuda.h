// CUDA kernels of formulas and reductions (forms.h), for .cu files: nvcc compiles them with
// --expt-relaxed-constexpr.
#pragma once

#include <locus/ops/elementwise/elementwise_gpu.h>
#include <locus/ops/forms.h>
#include <locus/ops/reduce/reduce_cuda.h>

namespace locus {

// Adds CUDA kernels to the ops of the list. Call it before other threads use them.
template <class... F>
void add_cuda_kernels(formula::List<F...>) {
  const auto add_one = []<class G>(G) {
    const formula::List<G> one;
    if constexpr (requires { G::kArity; })
      set_kernels(DeviceType::gpu, cuda::elementwise_kernels(one));
    else
      set_kernels(DeviceType::gpu, formula::kernels_of<cuda::Engine>(one));
  };
  (add_one(F()), ...);
}

}  // namespace locus
