// Device code: weight gradients of convolutions from patches (patch.h).
//
// A block copies dy of some places and their patch, of all its channels, to shared memory, one
// stage ahead. A thread has tile_m rows of c, those of its warp, and tile_n columns, 32 apart. If
// the depth is cut, a second launch adds the blocks' sums.
#pragma once

#include <locus/ops/convolution/patch_tile.h>

namespace locus::cuda {
namespace {

// memory.c: the weight's gradient. If cut, each part has a weight gradient, then a bias gradient.
template <int kM, int kN>
__global__ void __launch_bounds__(kN == 1 ? 512 : 640)
    patch_weight_kernel(const __grid_constant__ GatheredProducts all,
                        const __grid_constant__ GatheredMemory<float> memory,
                        const __grid_constant__ WeightPatchTiling tiling, int64_t part_size) {
  extern __shared__ __align__(16) float shared[];
  const int t = static_cast<int>(threadIdx.x), lane = t % 32, warp = t / 32;
  const int threads = static_cast<int>(blockDim.x), group = static_cast<int>(blockIdx.z);
  const GatheredProduct& p = all.each[0];
  const int rows = tiling.warps_m * kM, columns = tiling.warps_n * kN * 32;
  const int m0 = static_cast<int>(blockIdx.x) / tiling.tiles_n * rows,
            n0 = static_cast<int>(blockIdx.x) % tiling.tiles_n * columns;
  const PatchOverlap overlap = overlap_of(p.depth, p.column);
  const int taps = overlap.taps[0] * overlap.taps[1];
  const int channel = n0 / taps,
            channels = (min(n0 + columns, p.column.count) - 1) / taps + 1 - channel;
  const int stages = (p.depth.count + tiling.places - 1) / tiling.places;
  const int begin = static_cast<int>(blockIdx.y) * tiling.each,
            end = min(stages, begin + tiling.each);
  const float* const a = memory.a + group * all.a_group;
  const float* const mask = memory.mask_a ? memory.mask_a + group * all.a_group : nullptr;
  const float* const b = memory.b + group * all.b_group + int64_t{channel} * p.column.b.stride[0];
  const bool sums_rows = memory.row_sum != nullptr && n0 == 0;

  // Places are in fours. Two tables of patch sources and of each four's offset in dy; three of its
  // offset in the patch.
  constexpr int kFour = 4;
  const int quads = tiling.places / kFour;
  int* const source = reinterpret_cast<int*>(shared);
  int* const place = source + 2 * tiling.patch;
  int* const result = place + 3 * quads;
  float* const row_sum = reinterpret_cast<float*>(result + 2 * quads);
  for (int i = t; i < rows; i += threads) row_sum[i] = 0;
  const auto places_of = [&](int s) {
    return min(tiling.places, p.depth.count - s * tiling.places);
  };
  const auto elements_of = [&](int s) {
    const int first = s * tiling.places;
    return region_of(overlap, p.depth, first, first + places_of(s)).rows * tiling.pitch;
  };
  const auto find = [&](int s) {
    if (s >= end) return;
    const int first = s * tiling.places, n = places_of(s);
    const Region r = region_of(overlap, p.depth, first, first + n);
    for (int i = t; i < r.rows * tiling.pitch; i += threads)
      source[s % 2 * tiling.patch + i] =
          source_of(r, overlap, i, tiling.by_pitch, p.extent, p.depth.b.stride[0]);
    for (int i = t; i < n / kFour; i += threads) {
      const int four = first + i * kFour;
      place[s % 3 * quads + i] = place_in(r, overlap, p.depth, four, tiling.pitch);
      result[s % 2 * quads + i] = other_place(p.depth, four);
    }
  };

  const int my_rows = warp % tiling.warps_m, my_columns = warp / tiling.warps_m % tiling.warps_n,
            my_share = warp / (tiling.warps_m * tiling.warps_n);
  int tap_at[kN];
#pragma unroll
  for (int i = 0; i < kN; ++i) {
    const int n = n0 + (my_columns * kN + i) * 32 + lane, c = n / taps, tap = n - c * taps;
    const int down = tap / overlap.taps[1], across = tap - down * overlap.taps[1];
    tap_at[i] = n < p.column.count
                    ? (c - channel) * tiling.patch + down * overlap.gap[0] * tiling.pitch +
                          across * overlap.gap[1]
                    : 0;
  }

  // A stage: rows of dy, of the mask, the patch.
  const int lines = tiling.places * rows;
  const auto stage_of = [&](int s) {
    return shared + tiling.table + (s - begin) % 2 * tiling.stage;
  };
  // f(offset in the stage, offset in dy or -1) for each four of this thread.
  const auto each_result = [&](int s, const auto& f) {
    const int n = places_of(s) / kFour;
    for (int i = t; i < quads * rows; i += threads) {
      const int row = i / tiling.quads, q = i - row * quads;
      if (q < n)
        f(row * tiling.places + q * kFour,
          m0 + row < p.m ? (m0 + row) * p.a_row + result[s % 2 * quads + q] : -1);
    }
  };
  const auto stage = [&](int s) {
    float* const here = stage_of(s);
    const SharedFloat to(here), patch = to + (mask ? 2 : 1) * lines;
    each_result(s, [&](int slot, int from) {
      if (from < 0) return;
      copy_async<kFour>(to + slot, a + from);
      if (mask) copy_async<kFour>(to + (lines + slot), mask + from);
    });
    const int elements = elements_of(s);
    for (int i = t; i < elements; i += threads) {
      const int from = source[s % 2 * tiling.patch + i];
#pragma unroll 4
      for (int c = 0; c < channels; ++c)
        if (from >= 0)
          copy_async(patch + (c * tiling.patch + i), b + (from + c * p.column.b.stride[0]));
        else
          here[(mask ? 2 : 1) * lines + c * tiling.patch + i] = 0;
    }
    commit_copies();
  };

  float sum[kM][kN] = {};
  find(begin);
  for (int i = t; i < tiling.stage / 2; i += threads)  // rows past dy's last stay 0
    reinterpret_cast<Pack<float, 4>*>(shared + tiling.table)[i] = {};
  __syncthreads();
  if (begin < end) stage(begin);
  find(begin + 1);
  for (int s = begin; s < end; ++s) {
    float* const here = stage_of(s);
    wait_for_copies();
    if (mask)
      each_result(s, [&](int slot, int) {
        auto& dy = *reinterpret_cast<Pack<float, kFour>*>(here + slot);
        const auto y = *reinterpret_cast<const Pack<float, kFour>*>(here + lines + slot);
#pragma unroll
        for (int k = 0; k < kFour; ++k)
          if (y.v[k] <= 0) dy.v[k] = 0;
      });
    __syncthreads();
    if (s + 1 < end) stage(s + 1);
    find(s + 2);
    const int n = places_of(s);
    const float* const dy = here + my_rows * kM * tiling.places;
    const float* const patch = here + (mask ? 2 : 1) * lines;
    const int* const from = place + s % 3 * quads;
#pragma unroll 2
    for (int q = my_share; q < n / kFour; q += tiling.warps_k) {
      const float* const x = patch + from[q];
      float v[kN][kFour];
#pragma unroll
      for (int i = 0; i < kN; ++i)
#pragma unroll
        for (int k = 0; k < kFour; ++k) v[i][k] = x[tap_at[i] + k * overlap.step[1]];
#pragma unroll
      for (int r = 0; r < kM; ++r) {
        const auto w =
            *reinterpret_cast<const Pack<float, kFour>*>(dy + r * tiling.places + q * kFour);
#pragma unroll
        for (int i = 0; i < kN; ++i)
#pragma unroll
          for (int k = 0; k < kFour; ++k) sum[r][i] += w.v[k] * v[i][k];
      }
    }
    if (sums_rows)
      for (int row = warp; row < rows; row += threads / 32) {
        float part = 0;
        for (int q = lane; q < n; q += 32) part += here[row * tiling.places + q];
        for (int step = 16; step > 0; step /= 2) part += __shfl_down_sync(~0u, part, step);
        if (lane == 0) row_sum[row] += part;
      }
  }

  __syncthreads();
  if (sums_rows && t < rows && m0 + t < p.m)
    memory.row_sum[blockIdx.y * part_size + group * p.m + m0 + t] = row_sum[t];
  if (tiling.warps_k > 1) {
    __syncthreads();
    float* const mine =
        shared +
        ((my_share * tiling.warps_m + my_rows) * tiling.warps_n + my_columns) * (kM * kN * 32) +
        lane;
#pragma unroll
    for (int i = 0; i < kM * kN; ++i) mine[i * 32] = sum[i / kN][i % kN];
    __syncthreads();
    if (my_share > 0) return;
    const int next = tiling.warps_m * tiling.warps_n * kM * kN * 32;
    for (int k = 1; k < tiling.warps_k; ++k)
#pragma unroll
      for (int i = 0; i < kM * kN; ++i) sum[i / kN][i % kN] += mine[k * next + i * 32];
  }

  float* const c = memory.c + blockIdx.y * part_size + group * all.c_group;
#pragma unroll
  for (int i = 0; i < kN; ++i) {
    const int n = n0 + (my_columns * kN + i) * 32 + lane;
    if (n >= p.column.count) continue;
    const int where = other_place(p.column, n);
#pragma unroll
    for (int r = 0; r < kM; ++r) {
      const int row = m0 + my_rows * kM + r;
      if (row < p.m) c[row * p.c_row + where] = sum[r][i];
    }
  }
}

}  // namespace
}  // namespace locus::cuda
