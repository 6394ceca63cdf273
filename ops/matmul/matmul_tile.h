// Device code: one tile of an f32 product, for matmul.cu and dense.cu.
//
// A block of 256 threads computes T x T outputs, 4 x 4 per thread. G = 4096 / (T*T) groups of
// T*T/16 threads share the steps of k: 64 -> 1, 32 -> 4, 16 -> 16. Shared memory adds their sums
// in order.
// A step is 2048 / T deep. Registers load the next step while shared memory
// feeds this one.
// If k is cut across blocks, the last block to arrive adds all blocks' sums, in the order of the
// cuts. Results repeat bit for bit. Long sums are sums of runs, so the error does not grow with k.
#pragma once

#include <locus/ops/kernel/launch.h>
#include <locus/ops/matmul/matmul_tiling.h>

namespace locus::cuda {

inline constexpr int kTileThreads = 256;

// c (m x n, row-major) = a (m x k) · b (k x n) + bias, then max(c, 0) if relu.
struct TileProduct {
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
  const float* mask = nullptr;  // laid out as a; if <= 0, a counts as 0
  const float* bias = nullptr;  // n, or null
  float* row_sum = nullptr;     // m, or null: the sum over k of each row of (masked) a
  float* partial = nullptr;     // scratch memory and counters, if splits > 1
  unsigned* arrived = nullptr;
  int64_t lda = 0, ldb = 0;  // distance of contiguous runs
  int64_t a_batch = 0, b_batch = 0, c_batch = 0;
  int m = 0, n = 0, k = 0;
  int tiles = 1, tiles_n = 1, splits = 1, k_split = 0;
  bool vector_a = false, vector_b = false;  // 16-byte loads are aligned (also of the mask)
  bool relu = false;
};

template <int T>
struct TileShape {
  static constexpr int kDepth = 2048 / T;
  static constexpr int kLine = T + 4;  // keeps 16-byte alignment and spreads the banks
  static constexpr int kGroupThreads = T * T / 16;
  static constexpr int kGroups = kTileThreads / kGroupThreads;
  static constexpr int kGroupDepth = kDepth / kGroups;
  static constexpr int kStage = kDepth * kLine;  // floats of one operand and one buffer
  static constexpr int kShared = 4 * kStage;
  static constexpr int kOutputs = T * T / kTileThreads;  // outputs per thread, at the end
  static constexpr int kPartial = T * T + T;
  static_assert(kShared >= kGroups * (T * T + T) && kShared * 4 <= 48 * 1024);
};

// Position of float4 number `id` of a step. `line` counts rows of a or columns of b. Along k, pairs
// of threads read 32 bytes of a line, and a warp's 16 lines use different banks.
template <int T, bool AlongK>
__device__ __forceinline__ void place(int id, int& line, int& depth) {
  constexpr int kDepth = TileShape<T>::kDepth;
  if constexpr (AlongK) {
    const int rest = id >> 5;
    depth = (rest % (kDepth / 8)) * 8 + (id & 1) * 4;
    line = (rest / (kDepth / 8)) * 16 + ((id >> 1) & 15);
  } else {
    line = (id % (T / 4)) * 4;
    depth = id / (T / 4);
  }
}

// Loads four neighbours along the contiguous direction; zeros from `valid` on.
__device__ __forceinline__ float4 load4(const float* p, int valid, bool vector) {
  if (vector && valid >= 4) return __ldg(reinterpret_cast<const float4*>(p));
  float4 v = make_float4(0, 0, 0, 0);
  if (valid > 0) v.x = __ldg(p);
  if (valid > 1) v.y = __ldg(p + 1);
  if (valid > 2) v.z = __ldg(p + 2);
  if (valid > 3) v.w = __ldg(p + 3);
  return v;
}

// Loads this thread's two float4 of the step at `depth0`. The operand has `lines` lines.
template <int T, bool AlongK, bool Mask>
__device__ __forceinline__ void fetch(float4 (&v)[2], const float* p, const float* mask, int64_t ld,
                                      bool vector, int line0, int lines, int depth0,
                                      int depth_end) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    int line, depth;
    place<T, AlongK>(static_cast<int>(threadIdx.x) + i * kTileThreads, line, depth);
    line += line0;
    depth += depth0;
    const bool inside = line < lines && depth < depth_end;
    const int valid = !inside ? 0 : AlongK ? depth_end - depth : lines - line;
    const int64_t at = AlongK ? line * ld + depth : depth * ld + line;
    v[i] = load4(p + at, valid, vector);
    if constexpr (Mask) {
      const float4 y = load4(mask + at, valid, vector);
      v[i].x = y.x <= 0 ? 0 : v[i].x;
      v[i].y = y.y <= 0 ? 0 : v[i].y;
      v[i].z = y.z <= 0 ? 0 : v[i].z;
      v[i].w = y.w <= 0 ? 0 : v[i].w;
    }
  }
}

template <int T, bool AlongK>
__device__ __forceinline__ void put(const float4 (&v)[2], float* shared) {
  constexpr int kLine = TileShape<T>::kLine;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    int line, depth;
    place<T, AlongK>(static_cast<int>(threadIdx.x) + i * kTileThreads, line, depth);
    float* at = shared + depth * kLine + line;
    if constexpr (AlongK) {
      at[0] = v[i].x;
      at[kLine] = v[i].y;
      at[2 * kLine] = v[i].z;
      at[3 * kLine] = v[i].w;
    } else {
      *reinterpret_cast<float4*>(at) = v[i];
    }
  }
}

// Adds the partial sums of a tile's blocks. Returns true, with totals, in the last block to arrive.
template <int T, bool RowSum>
__device__ __forceinline__ bool join(const TileProduct& p, int tile, int split,
                                     float (&sum)[TileShape<T>::kOutputs], float& row) {
  using S = TileShape<T>;
  const int t = static_cast<int>(threadIdx.x);
  float* mine = p.partial + (int64_t{tile} * p.splits + split) * S::kPartial;
#pragma unroll
  for (int i = 0; i < S::kOutputs; ++i) __stcg(mine + t + i * kTileThreads, sum[i]);
  if (RowSum && t < T) __stcg(mine + T * T + t, row);
  if (!arrives_last(p.arrived + tile, static_cast<unsigned>(p.splits))) return false;
  const float* all = p.partial + int64_t{tile} * p.splits * S::kPartial;
#pragma unroll
  for (int i = 0; i < S::kOutputs; ++i) sum[i] = 0;
  row = 0;
#pragma unroll 4
  for (int s = 0; s < p.splits; ++s) {
    const float* part = all + int64_t{s} * S::kPartial;
#pragma unroll
    for (int i = 0; i < S::kOutputs; ++i) sum[i] += __ldcg(part + t + i * kTileThreads);
    if (RowSum && t < T) row += __ldcg(part + T * T + t);
  }
  return true;
}

// Computes block `block` of the product's tiles x splits. `shared` holds TileShape<T>::kShared
// floats, aligned to 16 bytes. AlongK: the operand is contiguous along k, else along its lines.
// Long: k_split may be more than one run.
template <int T, bool AlongKA, bool AlongKB, bool Mask, bool RowSum, bool Long>
__device__ __forceinline__ void multiply_tile(const TileProduct& p, int block, float* shared) {
  using S = TileShape<T>;
  const int t = static_cast<int>(threadIdx.x);
  const int split = block / p.tiles, tile = block % p.tiles;
  const int m0 = tile / p.tiles_n * T, n0 = tile % p.tiles_n * T;
  const int k_begin = split * p.k_split, k_end = min(p.k, k_begin + p.k_split);
  const int group = t / S::kGroupThreads, lane = t % S::kGroupThreads;
  const int ty = lane / (T / 4), tx = lane % (T / 4);
  const bool sums_rows = RowSum && p.row_sum != nullptr && n0 == 0;

  float acc[4][4] = {}, runs[4][4] = {};
  float rows[4] = {}, row_runs[4] = {};
  const auto end_run = [&] {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (RowSum) row_runs[i] = Long ? row_runs[i] + rows[i] : rows[i];
      rows[i] = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        runs[i][j] = Long ? runs[i][j] + acc[i][j] : acc[i][j];
        acc[i][j] = 0;
      }
    }
  };
  [[maybe_unused]] int run = kRun;
  float4 a[2], b[2];
  if (k_begin < k_end) {
    fetch<T, AlongKA, Mask>(a, p.a, p.mask, p.lda, p.vector_a, m0, p.m, k_begin, k_end);
    fetch<T, AlongKB, false>(b, p.b, nullptr, p.ldb, p.vector_b, n0, p.n, k_begin, k_end);
    put<T, AlongKA>(a, shared);
    put<T, AlongKB>(b, shared + S::kStage);
  }
  __syncthreads();
  int buffer = 0;
  for (int k0 = k_begin; k0 < k_end; k0 += S::kDepth) {
    const int next = k0 + S::kDepth;
    if (next < k_end) {
      fetch<T, AlongKA, Mask>(a, p.a, p.mask, p.lda, p.vector_a, m0, p.m, next, k_end);
      fetch<T, AlongKB, false>(b, p.b, nullptr, p.ldb, p.vector_b, n0, p.n, next, k_end);
    }
    const float* sa = shared + buffer * 2 * S::kStage + group * S::kGroupDepth * S::kLine + ty * 4;
    const float* sb =
        shared + (buffer * 2 + 1) * S::kStage + group * S::kGroupDepth * S::kLine + tx * 4;
#pragma unroll 8
    for (int k = 0; k < S::kGroupDepth; ++k) {
      const float4 x = *reinterpret_cast<const float4*>(sa + k * S::kLine);
      const float4 y = *reinterpret_cast<const float4*>(sb + k * S::kLine);
      const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (RowSum) rows[i] += xs[i];
#pragma unroll
        for (int j = 0; j < 4; ++j) acc[i][j] = fmaf(xs[i], ys[j], acc[i][j]);
      }
    }
    if (next < k_end) {
      buffer ^= 1;
      put<T, AlongKA>(a, shared + buffer * 2 * S::kStage);
      put<T, AlongKB>(b, shared + (buffer * 2 + 1) * S::kStage);
    }
    if constexpr (Long) {
      if (--run == 0) {
        end_run();
        run = kRun;
      }
    }
    __syncthreads();
  }
  end_run();

  float* sums = shared + S::kGroups * T * T;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    *reinterpret_cast<float4*>(shared + group * T * T + (ty * 4 + i) * T + tx * 4) =
        make_float4(runs[i][0], runs[i][1], runs[i][2], runs[i][3]);
    if (RowSum && tx == 0) sums[group * T + ty * 4 + i] = row_runs[i];
  }
  __syncthreads();
  float sum[S::kOutputs] = {}, row = 0;
#pragma unroll
  for (int g = 0; g < S::kGroups; ++g) {
#pragma unroll
    for (int i = 0; i < S::kOutputs; ++i) sum[i] += shared[g * T * T + t + i * kTileThreads];
    if (RowSum && t < T) row += sums[g * T + t];
  }
  if (p.splits > 1 && !join<T, RowSum>(p, tile, split, sum, row)) return;

#pragma unroll
  for (int i = 0; i < S::kOutputs; ++i) {
    const int at = t + i * kTileThreads, r = m0 + at / T, column = n0 + at % T;
    if (r >= p.m || column >= p.n) continue;
    float v = sum[i];
    if (p.bias != nullptr) v += __ldg(p.bias + column);
    if (p.relu) v = v < 0 ? 0.f : v;
    p.c[int64_t{r} * p.n + column] = v;
  }
  if (sums_rows && t < T && m0 + t < p.m) p.row_sum[m0 + t] = row;
}

}  // namespace locus::cuda
