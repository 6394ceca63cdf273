// Launching CUDA kernels over elements. Included by *.cu only.
#pragma once

#include <locus/devices/cuda.h>
#include <locus/ops/kernel/walk.h>

namespace locus::cuda {

inline constexpr int kBlock = 256;  // threads

// Enough blocks to fill the device several times over; more would only queue.
inline unsigned blocks_for(StreamView s, int64_t threads) {
  int64_t b = (threads + kBlock - 1) / kBlock;
  if (b > 512) {
    const int64_t most = static_cast<int64_t>(multiprocessors(s)) * 32;
    if (b > most) b = most;
  }
  return static_cast<unsigned>(b < 1 ? 1 : b);
}
inline cudaStream_t native(StreamView s) { return static_cast<cudaStream_t>(s.native); }

// kernel<<<...>>>(args...) with n threads, or as many as blocks_for() allows.
template <class... P, class... A>
void launch(StreamView s, int64_t n, void (*kernel)(P...), const A&... args) {
  kernel<<<blocks_for(s, n), kBlock, 0, native(s)>>>(args...);
}

__device__ __forceinline__ int64_t first_thread() {
  return blockIdx.x * static_cast<int64_t>(kBlock) + threadIdx.x;
}
__device__ __forceinline__ int64_t all_threads() {
  return gridDim.x * static_cast<int64_t>(kBlock);
}

// Whether 32-bit indices suffice for n elements.
inline bool narrow(int64_t n) { return n < (int64_t{1} << 31); }

LOCUS_HD bool aligned(const void* p, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(bytes) == 0;
}

// E elements of T, loaded and stored at once.
template <class T, int E>
struct alignas(sizeof(T) * E) Pack {
  T v[E];
};

// Whether the calling block is the last of `blocks` to arrive. `counter` is 0 before and after
// (counters() in signals.h). All threads of the block call this. The last block sees the others'
// earlier writes if it reads past the L1 cache: __ldcg, or by_words.
__device__ __forceinline__ bool arrives_last(unsigned* counter, unsigned blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    last = atomicAdd(counter, 1u) == blocks - 1;
    if (last) *counter = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

// A value whose words are f(address of the word in `from`).
template <class A>
__device__ __forceinline__ A by_words(const A& from, const auto& f) {
  static_assert(sizeof(A) % 4 == 0);
  struct Words {
    uint32_t word[sizeof(A) / 4];
  } w;
  const uint32_t* words = reinterpret_cast<const uint32_t*>(&from);
#pragma unroll
  for (unsigned i = 0; i < sizeof(A) / 4; ++i) w.word[i] = f(words + i);
  return __builtin_bit_cast(A, w);
}

// Adds the offsets of element `at`, in the walk's order. I: uint32_t below 2^31 elements.
template <class I, int N>
__device__ __forceinline__ void offsets(const Walk<N>& w, int64_t at, int64_t (&offset)[N]) {
  I rest = static_cast<I>(at);
  for (int i = w.rank - 1; i > 0; --i) {
    const I n = static_cast<I>(w.shape[i]), quotient = rest / n;
    const int64_t index = static_cast<int64_t>(rest - quotient * n);
#pragma unroll
    for (int k = 0; k < N; ++k) offset[k] += index * w.stride[k][i];
    rest = quotient;
  }
#pragma unroll
  for (int k = 0; k < N; ++k) offset[k] += static_cast<int64_t>(rest) * w.stride[k][0];
}

}  // namespace locus::cuda
