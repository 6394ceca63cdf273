// What the .cu files of copy, create, view, join and index share. Included by *.cu only.
#pragma once

#include <locus/devices/cuda.h>
#include <locus/ops/copy/copy_kernel.h>

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

__device__ __forceinline__ int64_t first_thread() {
  return blockIdx.x * static_cast<int64_t>(kBlock) + threadIdx.x;
}
__device__ __forceinline__ int64_t all_threads() {
  return gridDim.x * static_cast<int64_t>(kBlock);
}

struct alignas(16) Word16 {
  uint64_t a, b;
};

// Calls f with a value of an unsigned type of this size.
template <class F>
void by_bytes(int bytes, const F& f) {
  switch (bytes) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
    default:
      return f(Word16{});
  }
}

// The walk with at least one axis, for kernels that count on it.
inline Walk walk_of(const View& in, const View& out) {
  Walk w = make_walk(in, out);
  if (w.rank == 0) {
    w.rank = 1;
    w.shape[0] = w.in_stride[0] = w.out_stride[0] = 1;
  }
  return w;
}

// Offsets of element `at`, counted in the walk's order. I: uint32_t below 2^31 elements.
template <class I>
__device__ __forceinline__ void offsets(const Walk& w, int64_t at, int64_t& in, int64_t& out) {
  I rest = static_cast<I>(at);
  for (int i = w.rank - 1; i > 0; --i) {
    const I n = static_cast<I>(w.shape[i]), quotient = rest / n;
    const int64_t index = static_cast<int64_t>(rest - quotient * n);
    in += index * w.in_stride[i];
    out += index * w.out_stride[i];
    rest = quotient;
  }
  in += static_cast<int64_t>(rest) * w.in_stride[0];
  out += static_cast<int64_t>(rest) * w.out_stride[0];
}

inline bool narrow(int64_t n) { return n < (int64_t{1} << 31); }

inline bool aligned16(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

// Fills `out`, any strides, with the first size_of(dtype) bytes of `bits`.
void fill_view(const View& out, uint64_t bits, StreamView s);

}  // namespace locus::cuda
