// Device code: forward products and data gradients from patches (patch.h).
//
// A block copies the patch and the weights of some channels to shared memory, one stage ahead. A
// thread has tile_m rows of c, those of its warp, and four contiguous columns: it reads each
// element once for all taps across. The last block of a tile adds all blocks' sums.
#pragma once

#include <locus/ops/convolution/gathered_cuda.h>
#include <locus/ops/convolution/patch_tiling.h>
#include <locus/ops/kernel/async_copy.h>
#include <locus/ops/kernel/launch.h>

namespace locus::cuda {
namespace {

template <int kRows>
__device__ __forceinline__ void load_rows(const float* from, float (&to)[kRows]) {
#pragma unroll
  for (int i = 0; i + 4 <= kRows; i += 4) {
    const auto four = *reinterpret_cast<const Pack<float, 4>*>(from + i);
#pragma unroll
    for (int k = 0; k < 4; ++k) to[i + k] = four.v[k];
  }
  if constexpr (kRows % 4 == 2) {
    const auto two = *reinterpret_cast<const Pack<float, 2>*>(from + kRows - 2);
    to[kRows - 2] = two.v[0];
    to[kRows - 1] = two.v[1];
  }
}

// kAcross: taps along the width.
template <int kM, int kAcross>
__global__ void __launch_bounds__(320, 2)  // registers for 20 warps
    patch_kernel(const __grid_constant__ GatheredProducts all,
                 const __grid_constant__ GatheredMemory<float> memory,
                 const __grid_constant__ PatchTiling tiling) {
  extern __shared__ __align__(16) float shared[];
  const int t = static_cast<int>(threadIdx.x), lane = t % 32, warp = t / 32;
  const int threads = static_cast<int>(blockDim.x);
  const int group = static_cast<int>(blockIdx.z);
  const GatheredProduct& p = all.each[0];
  constexpr int kN = 4;
  const int rows = tiling.warps_m * kM, columns = tiling.warps_n * kN * 32;
  const int m0 = static_cast<int>(blockIdx.x) / tiling.tiles_n * rows,
            n0 = static_cast<int>(blockIdx.x) % tiling.tiles_n * columns;
  const PatchOverlap overlap = overlap_of(p.column, p.depth);
  const Region region = region_of(overlap, p.column, n0, min(n0 + columns, p.column.count));
  const int taps = overlap.taps[0] * overlap.taps[1], channels = p.depth.count / taps;
  const int begin = min(channels, static_cast<int>(blockIdx.y) * tiling.each),
            end = min(channels, begin + tiling.each);
  const float* const a = memory.a + group * all.a_group;
  const float* const b = memory.b + group * all.b_group;
  const float* const mask = memory.mask_b ? memory.mask_b + group * all.b_group : nullptr;

  // Tables for channel 0 of a stage: sources of the patch's elements and of the weights, and the
  // weights' destinations. Elements without a source stay 0 in both stages.
  int* const source = reinterpret_cast<int*>(shared);
  struct Weight {
    int from, to;
  };
  auto* const weights = reinterpret_cast<Weight*>(source + tiling.patch);
  const int most = tiling.channels * taps * rows;
  const int elements = region.rows * tiling.pitch;
  for (int i = t; i < elements; i += threads)
    source[i] = source_of(region, overlap, i, tiling.by_pitch, p.extent, p.column.b.stride[0]);
  for (int i = t; i < most; i += threads) {
    const int slow = i / tiling.fast, fast = i - slow * static_cast<int>(tiling.fast.value);
    const int row = all.a_along_depth ? slow : fast, k = all.a_along_depth ? fast : slow;
    const int c = k / p.depth.length[2] / p.depth.length[1];
    const int from = c * p.depth.other.stride[0] + tap_in_weight(overlap, p.depth, k - c * taps);
    weights[i] = m0 + row < p.m ? Weight{from + (m0 + row) * p.a_row,
                                         k * tiling.line + row / kM * patch_line(kM) + row % kM}
                                : Weight{0, INT32_MAX};
  }
  for (int i = t; i < tiling.stage / 2; i += threads)
    reinterpret_cast<Pack<float, 4>*>(shared + tiling.table)[i] = {};
  __syncthreads();

  const int my_rows = warp % tiling.warps_m,
            my_column = n0 + (warp / tiling.warps_m * 32 + lane) * kN;
  const int place =
      my_column < p.column.count ? place_in(region, overlap, p.column, my_column, tiling.pitch) : 0;

  const int kept = tiling.channels * tiling.patch;  // a stage: patch, its mask, weights
  const auto stage_of = [&](int buffer) { return shared + tiling.table + buffer * tiling.stage; };
  const auto stage = [&](int buffer, int first) {
    const SharedFloat to(stage_of(buffer));
    const int n = min(tiling.channels, end - first);
    for (int c = 0; c < n; ++c) {
      const int channel = (first + c) * p.depth.b.stride[0];
#pragma unroll 4
      for (int i = t; i < elements; i += threads) {
        const int from = source[i];
        if (from < 0) continue;
        copy_async(to + (c * tiling.patch + i), b + (channel + from));
        if (mask) copy_async(to + (kept + c * tiling.patch + i), mask + (channel + from));
      }
    }
    const SharedFloat weight = to + (mask ? 2 : 1) * kept;
    const float* const from = a + p.depth.other.base + first * p.depth.other.stride[0];
    const int present = n * taps * tiling.line;
#pragma unroll 4
    for (int i = t; i < most; i += threads) {
      const Weight w = weights[i];
      if (w.to < present) copy_async(weight + w.to, from + w.from);
    }
    commit_copies();
  };

  float sum[kM][kN] = {};
  if (begin < end) stage(0, begin);
  int buffer = 0;
  for (int first = begin; first < end; first += tiling.channels) {
    float* const here = stage_of(buffer);
    const int n = min(tiling.channels, end - first);
    wait_for_copies();
    if (mask)
      for (int c = 0; c < n; ++c)
#pragma unroll 4
        for (int i = t; i < elements; i += threads)
          if (here[kept + c * tiling.patch + i] <= 0) here[c * tiling.patch + i] = 0;
    __syncthreads();
    buffer ^= 1;
    if (first + tiling.channels < end) stage(buffer, first + tiling.channels);
    const float* weight = here + (mask ? 2 : 1) * kept + my_rows * patch_line(kM);
    for (int c = 0; c < n; ++c) {
      for (int down = 0; down < overlap.taps[0]; ++down) {
        const float* const x = here + c * tiling.patch + down * overlap.gap[0] * tiling.pitch;
        float v[(kAcross + kN + 2) / 4 * 4];
        load_rows(x + place, v);
#pragma unroll
        for (int across = 0; across < kAcross; ++across) {
          float w[kM];
          load_rows(weight, w);
          weight += tiling.line;
#pragma unroll
          for (int r = 0; r < kM; ++r)
#pragma unroll
            for (int i = 0; i < kN; ++i) sum[r][i] += w[r] * v[i + across];
        }
      }
    }
  }

  if (tiling.splits > 1) {
    const int size = kM * kN * threads;
    const int64_t tile = int64_t{blockIdx.z} * gridDim.x + blockIdx.x;
    float* const parts = memory.partial + tile * tiling.splits * size + t;
#pragma unroll
    for (int i = 0; i < kM * kN; ++i)
      __stcg(parts + int64_t{blockIdx.y} * size + i * threads, sum[i / kN][i % kN]);
    if (!arrives_last(memory.arrived + tile, static_cast<unsigned>(tiling.splits))) return;
#pragma unroll
    for (int i = 0; i < kM * kN; ++i) sum[i / kN][i % kN] = 0;
    for (int s = 0; s < tiling.splits; ++s)
#pragma unroll
      for (int i = 0; i < kM * kN; ++i)
        sum[i / kN][i % kN] += __ldcg(parts + int64_t{s} * size + i * threads);
  }

  if (my_column >= p.column.count) return;
  float* const c = memory.c + group * all.c_group + other_place(p.column, my_column);
#pragma unroll
  for (int r = 0; r < kM; ++r) {
    const int row = m0 + my_rows * kM + r;
    if (row >= p.m) return;
    const float bias = memory.bias ? memory.bias[group * p.m + row] : 0;
    Pack<float, kN> v;
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      v.v[i] = sum[r][i] + bias;
      if (memory.relu && v.v[i] < 0) v.v[i] = 0;
    }
    if (memory.quads)
      *reinterpret_cast<Pack<float, kN>*>(c + row * p.c_row) = v;
    else
#pragma unroll
      for (int i = 0; i < kN; ++i) c[row * p.c_row + i * p.column.other.stride[3]] = v.v[i];
  }
}

}  // namespace
}  // namespace locus::cuda
