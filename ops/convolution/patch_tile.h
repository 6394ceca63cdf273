// Device code: forward products and data gradients of convolutions out of patches (patch_plan.h).
//
// A block copies, stage by stage and one stage ahead, the patch and the weights of some channels
// into shared memory. A thread has tile_m rows of c, those of its warp, and four columns that lie
// side by side, so that it reads each element once for all the taps across. The last block that
// shares a tile adds up what each left.
#pragma once

#include <locus/ops/convolution/gathered_cuda.h>
#include <locus/ops/convolution/patch_plan.h>
#include <locus/ops/kernel/async_copy.h>
#include <locus/ops/kernel/launch.h>

namespace locus::cuda {
namespace {

// The places [first, end) of images that follow each other, as bands of rows of a patch: the first
// image's, from `row`, then whole images', and what there is of the last one.
struct Region {
  int image, row;
  int first_rows, rows;  // of the patch: the first band's, all
};
__device__ __forceinline__ Region region_of(const Meeting& m, const Side& side, int first,
                                            int end) {
  const int top = first / side.length[2], bottom = (end - 1) / side.length[2];
  Region r;
  r.image = top / side.length[1];
  r.row = top - r.image * m.rows;
  const int last = bottom / side.length[1], last_row = bottom - last * m.rows;
  r.first_rows = ((last == r.image ? last_row : m.rows - 1) - r.row) * m.step[0] + m.span[0];
  r.rows = r.first_rows;
  if (last > r.image) r.rows += (last - r.image - 1) * m.full + last_row * m.step[0] + m.span[0];
  return r;
}
// Where the first tap of place n lies in the patch.
__device__ __forceinline__ int place_in(const Region& r, const Meeting& m, const Side& side, int n,
                                        int pitch) {
  const int top = n / side.length[2], across = n - top * m.width;
  const int image = top / side.length[1], row = top - image * m.rows;
  const int band = image - r.image;
  const int from =
      band == 0 ? (row - r.row) * m.step[0] : r.first_rows + (band - 1) * m.full + row * m.step[0];
  return from * pitch + across * m.step[1];
}
// Where element i of the patch comes from, in b of channel 0; -1: padding.
__device__ __forceinline__ int source_of(const Region& r, const Meeting& m, int i, Divisor pitch,
                                         const int32_t (&extent)[3], int image_stride) {
  const int row = i / pitch, across = i - row * static_cast<int>(pitch.value);
  int band = 0, down = row + r.row * m.step[0];
  if (row >= r.first_rows) {
    const int rest = row - r.first_rows;
    band = rest / m.full + 1;
    down = rest - (band - 1) * m.full;
  }
  const int h = m.low[0] + down, w = m.low[1] + across;
  if (static_cast<unsigned>(h) >= static_cast<unsigned>(extent[1]) ||
      static_cast<unsigned>(w) >= static_cast<unsigned>(extent[2]))
    return -1;
  return (r.image + band) * image_stride + h * extent[2] + w;
}
// What a product's taps, in the order in which they meet the patch, add to the weight's place.
__device__ __forceinline__ int tap_in_weight(const Meeting& m, const Side& taps, int u) {
  const int down = u / m.taps[1], across = u - down * m.taps[1];
  return (m.forwards[0] ? down : m.taps[0] - 1 - down) * taps.other.stride[2] +
         (m.forwards[1] ? across : m.taps[1] - 1 - across) * taps.other.stride[3];
}

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
                 const __grid_constant__ PatchPlan plan) {
  extern __shared__ __align__(16) float shared[];
  const int t = static_cast<int>(threadIdx.x), lane = t % 32, warp = t / 32;
  const int threads = static_cast<int>(blockDim.x);
  const int group = static_cast<int>(blockIdx.z);
  const GatheredProduct& p = all.each[0];
  constexpr int kN = 4;
  const int rows = plan.warps_m * kM, columns = plan.warps_n * kN * 32;
  const int m0 = static_cast<int>(blockIdx.x) / plan.tiles_n * rows,
            n0 = static_cast<int>(blockIdx.x) % plan.tiles_n * columns;
  const Meeting m = meeting(p.column, p.depth);
  const Region region = region_of(m, p.column, n0, min(n0 + columns, p.column.count));
  const int taps = m.taps[0] * m.taps[1], channels = p.depth.count / taps;
  const int begin = min(channels, static_cast<int>(blockIdx.y) * plan.each),
            end = min(channels, begin + plan.each);
  const float* const a = memory.a + group * all.a_group;
  const float* const b = memory.b + group * all.b_group;
  const float* const mask = memory.mask_b ? memory.mask_b + group * all.b_group : nullptr;

  // Tables: where each element of a stage's patch and of its weights comes from, for channel 0 of
  // the stage, and where those weights go. What comes from nowhere stays 0 in both stages.
  int* const source = reinterpret_cast<int*>(shared);
  struct Weight {
    int from, to;
  };
  auto* const weights = reinterpret_cast<Weight*>(source + plan.patch);
  const int most = plan.channels * taps * rows;
  const int elements = region.rows * plan.pitch;
  for (int i = t; i < elements; i += threads)
    source[i] = source_of(region, m, i, plan.by_pitch, p.extent, p.column.b.stride[0]);
  for (int i = t; i < most; i += threads) {
    const int slow = i / plan.fast, fast = i - slow * static_cast<int>(plan.fast.value);
    const int row = all.a_along_depth ? slow : fast, k = all.a_along_depth ? fast : slow;
    const int c = k / p.depth.length[2] / p.depth.length[1];
    const int from = c * p.depth.other.stride[0] + tap_in_weight(m, p.depth, k - c * taps) +
                     (m0 + row) * p.a_row;
    const bool there = m0 + row < p.m;
    weights[i] = {there ? from : 0,
                  there ? k * plan.line + row / kM * patch_line(kM) + row % kM : INT32_MAX};
  }
  for (int i = t; i < plan.stage / 2; i += threads)
    reinterpret_cast<Pack<float, 4>*>(shared + plan.table)[i] = {};
  __syncthreads();

  const int my_rows = warp % plan.warps_m, my_column = n0 + (warp / plan.warps_m * 32 + lane) * kN;
  const int place =
      my_column < p.column.count ? place_in(region, m, p.column, my_column, plan.pitch) : 0;

  const int kept = plan.channels * plan.patch;  // a stage: the patch, its mask, the weight
  const auto stage_of = [&](int buffer) { return shared + plan.table + buffer * plan.stage; };
  const auto stage = [&](int buffer, int first) {
    const SharedFloat to(stage_of(buffer));
    const int n = min(plan.channels, end - first);
    for (int c = 0; c < n; ++c) {
      const int channel = (first + c) * p.depth.b.stride[0];
#pragma unroll 4
      for (int i = t; i < elements; i += threads) {
        const int from = source[i];
        if (from < 0) continue;
        copy_async(to + (c * plan.patch + i), b + (channel + from));
        if (mask) copy_async(to + (kept + c * plan.patch + i), mask + (channel + from));
      }
    }
    const SharedFloat weight = to + (mask ? 2 : 1) * kept;
    const float* const from = a + p.depth.other.base + first * p.depth.other.stride[0];
    const int places = n * taps * plan.line;
#pragma unroll 4
    for (int i = t; i < most; i += threads) {
      const Weight w = weights[i];
      if (w.to < places) copy_async(weight + w.to, from + w.from);
    }
    commit_copies();
  };

  float sum[kM][kN] = {};
  if (begin < end) stage(0, begin);
  int buffer = 0;
  for (int first = begin; first < end; first += plan.channels) {
    float* const here = stage_of(buffer);
    const int n = min(plan.channels, end - first);
    wait_for_copies();
    if (mask)
      for (int c = 0; c < n; ++c)
#pragma unroll 4
        for (int i = t; i < elements; i += threads)
          if (here[kept + c * plan.patch + i] <= 0) here[c * plan.patch + i] = 0;
    __syncthreads();
    buffer ^= 1;
    if (first + plan.channels < end) stage(buffer, first + plan.channels);
    const float* weight = here + (mask ? 2 : 1) * kept + my_rows * patch_line(kM);
    for (int c = 0; c < n; ++c) {
      for (int down = 0; down < m.taps[0]; ++down) {
        const float* const x = here + c * plan.patch + down * m.gap[0] * plan.pitch;
        float v[(kAcross + kN + 2) / 4 * 4];
        load_rows(x + place, v);
#pragma unroll
        for (int across = 0; across < kAcross; ++across) {
          float w[kM];
          load_rows(weight, w);
          weight += plan.line;
#pragma unroll
          for (int r = 0; r < kM; ++r)
#pragma unroll
            for (int i = 0; i < kN; ++i) sum[r][i] += w[r] * v[i + across];
        }
      }
    }
  }

  if (plan.splits > 1) {
    const int size = kM * kN * threads;
    const int64_t at = int64_t{blockIdx.z} * gridDim.x + blockIdx.x;
    float* const parts = memory.partial + at * plan.splits * size + t;
#pragma unroll
    for (int i = 0; i < kM * kN; ++i)
      __stcg(parts + int64_t{blockIdx.y} * size + i * threads, sum[i / kN][i % kN]);
    if (!arrives_last(memory.arrived + at, static_cast<unsigned>(plan.splits))) return;
#pragma unroll
    for (int i = 0; i < kM * kN; ++i) sum[i / kN][i % kN] = 0;
    for (int s = 0; s < plan.splits; ++s)
#pragma unroll
      for (int i = 0; i < kM * kN; ++i)
        sum[i / kN][i % kN] += __ldcg(parts + int64_t{s} * size + i * threads);
  }

  if (my_column >= p.column.count) return;
  const int top = my_column / p.column.length[2], image = top / p.column.length[1];
  const Offset& to = p.column.other;
  float* const c = memory.c + group * all.c_group + to.base + image * to.stride[0] +
                   (top - image * m.rows) * to.stride[2] +
                   (my_column - top * m.width) * to.stride[3];
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
      for (int i = 0; i < kN; ++i) c[row * p.c_row + i * to.stride[3]] = v.v[i];
  }
}

}  // namespace
}  // namespace locus::cuda
