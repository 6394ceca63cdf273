// Reductions over the threads of a block. Included by *.cu only.
//
// V is a type of whole 32-bit words. join(a, b) combines two values, a from earlier threads. The
// order depends only on the number of threads, and every thread of a team gets the same bits. All
// threads of the block, or of the warp for all_of_lanes(), call these together.
#pragma once

#include <locus/ops/kernel/launch.h>

namespace locus::cuda {

__device__ __forceinline__ int thread_of_block() {
  return static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
}

// Over teams of `lanes` consecutive threads of a warp. `lanes`: a power of two.
template <class V>
__device__ __forceinline__ V all_of_lanes(V v, int lanes, const auto& join) {
  const int t = thread_of_block();
  for (int d = 1; d < lanes; d *= 2) {
    const V other =
        by_words(v, [&](const uint32_t* word) { return __shfl_xor_sync(~0u, *word, d); });
    v = t & d ? join(other, v) : join(v, other);
  }
  return v;
}

// Over teams of `lanes` consecutive threads of the block, a power of two.
template <class V>
__device__ __forceinline__ V all_of_team(V v, int lanes, const auto& join) {
  __shared__ alignas(16) unsigned char bytes[32 * sizeof(V)];
  if (lanes <= 32) return all_of_lanes(v, lanes, join);
  V* const of_warp = reinterpret_cast<V*>(bytes);
  const int t = thread_of_block(), warps = lanes / 32;
  v = all_of_lanes(v, 32, join);
  __syncthreads();  // earlier contents have been read
  if (t % 32 == 0) of_warp[t / 32] = v;
  __syncthreads();
  return all_of_lanes(of_warp[(t & -lanes) / 32 + (t & (warps - 1))], warps, join);
}

// Over threads `columns` apart. `columns` and the block's size are powers of two.
template <class V>
__device__ __forceinline__ V all_of_column(V v, int columns, const auto& join) {
  __shared__ alignas(16) unsigned char bytes[1024 * sizeof(V)];
  V* const shared = reinterpret_cast<V*>(bytes);
  const int t = thread_of_block();
  __syncthreads();
  shared[t] = v;
  for (int d = static_cast<int>(blockDim.x * blockDim.y) / 2; d >= columns; d /= 2) {
    __syncthreads();
    if (t < d) shared[t] = v = join(v, shared[t + d]);
  }
  __syncthreads();
  return shared[t & (columns - 1)];
}

}  // namespace locus::cuda
