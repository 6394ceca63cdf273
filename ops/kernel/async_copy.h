// Device code: asynchronous copies from device memory to shared memory.
#pragma once

#include <locus/ops/kernel/types.h>

namespace locus::cuda {

// An address in shared memory.
struct SharedFloat {
  unsigned at;
  __device__ __forceinline__ explicit SharedFloat(float* p)
      : at(static_cast<unsigned>(__cvta_generic_to_shared(p))) {}
  __device__ __forceinline__ SharedFloat operator+(int floats) const {
    SharedFloat r = *this;
    r.at += static_cast<unsigned>(floats) * 4;
    return r;
  }
};
// kFloats: 1, or 4 at addresses that are multiples of 16. The copy is complete after
// commit_copies() and wait_for_copies().
template <int kFloats = 1>
__device__ __forceinline__ void copy_async(SharedFloat to, const float* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to.at), "l"(from), "n"(kFloats * 4)
               : "memory");
}
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits for all copies that this thread committed. Other threads see them after a barrier.
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group 0;" ::: "memory");
}

}  // namespace locus::cuda
