// The positions of a mask's ones, and moves of the elements there.
#include <cub/device/device_scan.cuh>

#include <locus/core/scratch.h>
#include <locus/devices/cuda/check.h>
#include <locus/ops/index/index_kernel.h>
#include <locus/ops/kernel/launch.h>

namespace locus::cuda {
namespace {

// 1 for each byte that is not 0.
__device__ __forceinline__ uint32_t ones(uint32_t bytes) { return __vsetne4(bytes, 0); }

// Blocks for one warp per tile.
unsigned grid_of(int64_t n) {
  return static_cast<unsigned>((mask_tiles(n) * 32 + kBlock - 1) / kBlock);
}

// One warp counts a tile.
__global__ void __launch_bounds__(kBlock)
    count_tiles(const uint8_t* mask, int64_t n, int64_t* counts) {
  static_assert(kMaskTile == 32 * 16);
  const int64_t tile = first_thread() / 32, begin = first_thread() * 16;
  if (tile >= mask_tiles(n)) return;
  int count = 0;
  if (begin + 16 <= n && aligned(mask, 16)) {
    const uint4 w = *reinterpret_cast<const uint4*>(mask + begin);
    count = __popc(ones(w.x) | ones(w.y) << 1 | ones(w.z) << 2 | ones(w.w) << 3);
  } else {
    for (int64_t i = begin; i < begin + 16 && i < n; ++i) count += mask[i] != 0;
  }
  count = __reduce_add_sync(0xffffffffu, count);
  if (threadIdx.x % 32 == 0) counts[tile] = count;
}

// Sources of walk_tiles: a tensor's elements, or their positions.
template <class T>
struct Elements {
  const T* data;
  __device__ T operator()(int64_t i) const { return data[i]; }
  __device__ Pack<T, 4> four(int64_t i, int64_t n) const {
    if (i + 4 <= n && aligned(data, 4 * sizeof(T)))
      return *reinterpret_cast<const Pack<T, 4>*>(data + i);
    Pack<T, 4> x;
    for (int k = 0; k < 4; ++k) x.v[k] = i + k < n ? data[i + k] : T{};
    return x;
  }
};
struct Places {
  __device__ Pack<int64_t, 4> four(int64_t i, int64_t) const { return {i, i + 1, i + 2, i + 3}; }
};

// One warp walks a tile, four adjacent elements per lane at a time.
// kExpand: element i is value(the number of ones before it), or zero if the mask is.
// Otherwise elements at ones are compacted in shared memory, so that writes are coalesced. `value`
// reads element i.
template <class T, bool kExpand, class F>
__global__ void __launch_bounds__(kBlock)
    walk_tiles(const uint8_t* __restrict__ mask, int64_t n, const int64_t* __restrict__ offsets,
               T* __restrict__ out, F value) {
  constexpr int kSteps = kMaskTile / 128;
  __shared__ T buffer[kExpand ? 1 : kBlock / 32][kExpand ? 1 : kMaskTile];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t tile = first_thread() / 32, begin = tile * kMaskTile + lane * 4;
  if (tile >= mask_tiles(n)) return;
  const bool words = aligned(mask, 4);
  uint32_t bits[kSteps], own = 0;  // own: counts of all steps, one byte each
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    const int64_t i = begin + s * 128;
    bits[s] = 0;
    if (i + 4 <= n && words)
      bits[s] = ones(*reinterpret_cast<const uint32_t*>(mask + i));
    else
      for (int k = 0; k < 4; ++k)
        if (i + k < n && mask[i + k]) bits[s] |= 1u << 8 * k;
    own |= static_cast<uint32_t>(__popc(bits[s])) << 8 * s;
  }
  Pack<T, 4> values[kSteps];
#pragma unroll
  for (int s = 0; s < kSteps && !kExpand; ++s) values[s] = value.four(begin + s * 128, n);
  uint32_t sum = own;
  for (int step = 1; step < 32; step *= 2) {
    const uint32_t other = __shfl_up_sync(0xffffffffu, sum, step);
    if (lane >= step) sum += other;
  }
  const uint32_t all = __shfl_sync(0xffffffffu, sum, 31);
  const int64_t first = offsets[tile];
  int before = 0;
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    int at = before + static_cast<int>((sum - own) >> 8 * s & 255);
    for (int k = 0; k < 4; ++k) {
      const bool one = bits[s] >> 8 * k & 1;
      if constexpr (kExpand)
        values[s].v[k] = one ? value(first + at) : T{};
      else if (one)
        buffer[warp][at] = values[s].v[k];
      at += one;
    }
    if constexpr (kExpand) {
      const int64_t i = begin + s * 128;
      if (i + 4 <= n && aligned(out, 4 * sizeof(T)))
        *reinterpret_cast<Pack<T, 4>*>(out + i) = values[s];
      else
        for (int k = 0; k < 4; ++k)
          if (i + k < n) out[i + k] = values[s].v[k];
    }
    before += static_cast<int>(all >> 8 * s & 255);
  }
  if constexpr (!kExpand) {
    __syncwarp();
    for (int i = lane; i < before; i += 32) out[first + i] = buffer[warp][i];
  }
}

template <class T, bool kExpand, class F>
void walk_mask(const Call& call, const View& mask, const View& offsets, F value) {
  const int64_t n = mask.meta.size();
  if (n > 0)
    walk_tiles<T, kExpand><<<grid_of(n), kBlock, 0, stream(call)>>>(
        mask.as<uint8_t>(), n, offsets.as<int64_t>(), call.out[0].as<T>(), value);
}

struct Backend {
  static void mask_offsets(const Call& call) {
    const int64_t n = call.in[0].meta.size(), tiles = mask_tiles(n);
    int64_t* out = call.out[0].as<int64_t>();
    LOCUS_CUDA(cudaMemsetAsync(out + tiles, 0, sizeof *out, stream(call)));
    if (n == 0) return;
    count_tiles<<<grid_of(n), kBlock, 0, stream(call)>>>(call.in[0].as<uint8_t>(), n, out);
    size_t temporary = 0;
    LOCUS_CUDA(cub::DeviceScan::ExclusiveSum(nullptr, temporary, out, tiles + 1, stream(call)));
    const Scratch scratch(call, temporary);
    LOCUS_CUDA(
        cub::DeviceScan::ExclusiveSum(scratch.data(), temporary, out, tiles + 1, stream(call)));
  }

  static void mask_indices(const Call& call) {
    walk_mask<int64_t, false>(call, call.in[0], call.in[1], Places{});
  }

  template <bool kExpand>
  static void mask_move(const Call& call) {
    by_size(size_of(call.in[0].meta.dtype), [&](auto word) {
      using T = decltype(word);
      walk_mask<T, kExpand>(call, call.in[1], call.in[2], Elements<T>{call.in[0].as<T>()});
    });
  }
  static void mask_select(const Call& call) { mask_move<false>(call); }
  static void mask_select_grad(const Call& call) { mask_move<true>(call); }
};

}  // namespace

extern constinit const KernelList index_mask = mask_kernels<Backend>();

}  // namespace locus::cuda
