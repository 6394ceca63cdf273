// take's gradient and mask positions: ops that sort or scan.
#include <cuda_runtime.h>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include <locus/core/scratch.h>
#include <locus/devices/cuda/check.h>
#include <locus/ops/index/index_fault.h>
#include <locus/ops/kernel/launch.h>

namespace locus::cuda {
namespace {

// The offset, in the result, of each index; `none` if out of range.
__global__ void __launch_bounds__(kBlock)
    find_places(TakeWalk p, int64_t n, uint64_t none, uint64_t* key, uint32_t* value,
                Fault* fault) {
  for (int64_t i = first_thread(); i < n; i += all_threads()) {
    const TakeRow row = take_row(p, i);
    if (row.bad_axis >= 0) report(fault, bad_index(p, row));
    key[i] = row.bad_axis >= 0 ? none : static_cast<uint64_t>(row.data);
    value[i] = static_cast<uint32_t>(i);
  }
}

// After a stable sort, equal places are adjacent, in the order of the indices. The thread at the
// first one adds all in f64, in this order.
template <class T>
__global__ void __launch_bounds__(kBlock)
    add_places(TakeWalk p, int64_t n, int64_t others, uint64_t none, const uint64_t* key,
               const uint32_t* value, const T* dout, T* data) {
  const int64_t total = n * others;
  for (int64_t i = first_thread(); i < total; i += all_threads()) {
    const int64_t first = i / others, other = i % others;
    const uint64_t place = key[first];
    if (place == none || (first > 0 && key[first - 1] == place)) continue;
    const int64_t before = other / p.inner.size, q = other % p.inner.size;
    int64_t at[2] = {};
    p.inner.locate(q, at, p.inner.rank);
    double sum = 0;
    int64_t to = 0;
    for (int64_t k = first; k < n && key[k] == place; ++k) {
      const TakeRow row = take_row(p, before * n + value[k]);
      to = row.data + at[0];
      sum += static_cast<double>(dout[row.result + at[1]]);
    }
    data[to] = static_cast<T>(sum);
  }
}

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

int64_t padded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

struct Backend {
  template <class T>
  static void take_grad(const Call& call) {
    const TakeGradAttrs& a = call.attributes<TakeGradAttrs>();
    Views::fill(call.out[0], 0, call.stream);
    const TakeWalk p = make_take_walk(call.out[0], call.in[0], call.in + 1, a.take);
    if (p.rows * p.inner.size == 0) return;
    const int64_t n = p.index_rows();
    const int64_t others = p.rows / n * p.inner.size;
    const uint64_t none = static_cast<uint64_t>(call.out[0].meta.size());
    int bits = 1;
    while (bits < 64 && none >> bits) ++bits;

    size_t temporary = 0;
    LOCUS_CUDA(cub::DeviceRadixSort::SortPairs(
        nullptr, temporary, static_cast<const uint64_t*>(nullptr), static_cast<uint64_t*>(nullptr),
        static_cast<const uint32_t*>(nullptr), static_cast<uint32_t*>(nullptr), n, 0, bits,
        stream(call)));
    const int64_t keys = padded(n * 8), values = padded(n * 4);
    const Scratch scratch(call, static_cast<size_t>(2 * keys + 2 * values) + temporary);
    char* memory = scratch.as<char>();
    uint64_t* key = reinterpret_cast<uint64_t*>(memory);
    uint64_t* sorted_key = reinterpret_cast<uint64_t*>(memory + keys);
    uint32_t* value = reinterpret_cast<uint32_t*>(memory + 2 * keys);
    uint32_t* sorted_value = reinterpret_cast<uint32_t*>(memory + 2 * keys + values);
    launch(call.stream, n, find_places, p, n, none, key, value, fault(call));
    LOCUS_CUDA(cub::DeviceRadixSort::SortPairs(memory + 2 * keys + 2 * values, temporary, key,
                                               sorted_key, value, sorted_value, n, 0, bits,
                                               stream(call)));
    launch(call.stream, n * others, add_places<T>, p, n, others, none, sorted_key, sorted_value,
           call.in[0].as<T>(), call.out[0].as<T>());
  }

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

extern constinit const KernelList index_scatter = scatter_kernels<Backend>();

}  // namespace locus::cuda
