// Device code: one tile of a gathered product (gathered.h).
//
// A block of 256 threads goes through its part of the depth in steps. While shared memory feeds one
// step, registers load the next step's a and b. The offsets of depths are computed one step
// earlier, once per block.
// If the depth is cut across blocks, each block writes its sums to scratch memory. The last block
// to arrive adds them in the order of the cuts. Results repeat bit for bit.
#pragma once

#include <locus/ops/convolution/gathered_cores.h>
#include <locus/ops/convolution/gathered_cuda.h>
#include <locus/ops/kernel/launch.h>

namespace locus::cuda {
namespace {

// Four values in the second-level cache, visible to other blocks.
__device__ __forceinline__ void store_far(float* to, const Pack<float, 4>& v) {
  __stcg(reinterpret_cast<float4*>(to), __builtin_bit_cast(float4, v));
}
__device__ __forceinline__ Pack<float, 4> load_far(const float* from) {
  using Four = Pack<float, 4>;
  return __builtin_bit_cast(Four, __ldcg(reinterpret_cast<const float4*>(from)));
}
__device__ __forceinline__ void store_far(double* to, const Pack<double, 4>& v) {
#pragma unroll
  for (int e = 0; e < 4; ++e) __stcg(to + e, v.v[e]);
}
__device__ __forceinline__ Pack<double, 4> load_far(const double* from) {
  Pack<double, 4> v;
#pragma unroll
  for (int e = 0; e < 4; ++e) v.v[e] = __ldcg(from + e);
  return v;
}

// What a column or depth adds to offsets in b, in `other` (c or a), and along b's axes.
struct Steps {
  uint32_t b, other;
  int at[3];
};
__device__ __forceinline__ Steps steps(const Side& s, int i) {
  uint32_t digit[4];
  uint32_t rest = static_cast<uint32_t>(i);
#pragma unroll
  for (int d = 3; d > 0; --d) {
    const uint32_t quotient = s.length[d - 1].divide(rest);
    digit[d] = rest - quotient * s.length[d - 1].value;
    rest = quotient;
  }
  digit[0] = rest;
  Steps r;
  r.b = static_cast<uint32_t>(s.b.base);  // outside the array, a sum may wrap around
  r.other = static_cast<uint32_t>(s.other.base);
#pragma unroll
  for (int d = 0; d < 4; ++d) {
    r.b += digit[d] * static_cast<uint32_t>(s.b.stride[d]);
    r.other += digit[d] * static_cast<uint32_t>(s.other.stride[d]);
  }
#pragma unroll
  for (int a = 0; a < 3; ++a)
    r.at[a] = s.base[a] + s.step[a] * static_cast<int>(s.first == 0 ? digit[a] : digit[a + 1]);
  return r;
}

// The thread's kEach of a step's `lines` x kDepth elements, at (line(e), depth(e)).
template <int kLines, int kDepth, bool kAlongDepth>
struct Share {
  static constexpr int kEach = kLines * kDepth / kGatherThreads;
  static constexpr int kFast = kAlongDepth ? kDepth : kLines, kGap = kGatherThreads / kFast;
  static_assert(kGatherThreads % kFast == 0);

  static __device__ __forceinline__ int line(int e) {
    const int t = static_cast<int>(threadIdx.x);
    return kAlongDepth ? t / kDepth + e * kGap : t % kLines;
  }
  static __device__ __forceinline__ int depth(int e) {
    const int t = static_cast<int>(threadIdx.x);
    return kAlongDepth ? t % kDepth : t / kLines + e * kGap;
  }
};

template <class S, class Tile, int kRows, int kColumns, bool kADepth, bool kBDepth>
__global__ void __launch_bounds__(kGatherThreads, 2)
    gathered_kernel(const __grid_constant__ GatheredProducts all,
                    const __grid_constant__ GatheredMemory<S> memory) {
  using T = Compute<S>;
  using Element = typename Tile::Element;
  constexpr int kDepth = Tile::kDepth;
  using A = Share<kRows, kDepth, kADepth>;
  using B = Share<kColumns, kDepth, kBDepth>;
  __shared__ typename Tile::Shared shared;
  __shared__ Steps columns[kColumns], depths[2][kDepth];

  const int t = static_cast<int>(threadIdx.x);
  const int phase = static_cast<int>(blockIdx.z) % all.n,
            group = static_cast<int>(blockIdx.z) / all.n;
  const GatheredProduct& p = all.each[phase];
  const int m0 = static_cast<int>(blockIdx.x) / memory.tiles_n * kRows,
            n0 = static_cast<int>(blockIdx.x) % memory.tiles_n * kColumns;
  if (n0 >= p.column.count) return;
  const int split = static_cast<int>(blockIdx.y),
            splits = static_cast<int>(gathered_splits(p.depth.count, memory.k_split));
  if (split >= splits) return;
  const int k_begin = split * memory.k_split, k_end = min(p.depth.count, k_begin + memory.k_split);
  const int64_t a_group = group * all.a_group, b_group = group * all.b_group;
  const bool sums_rows = memory.row_sum != nullptr && n0 == 0;

  if (t < kColumns) {
    columns[t] = steps(p.column, min(n0 + t, p.column.count - 1));
  }
  const auto find_depths = [&](int k0) {
    if (t >= kDepth || k0 + t >= k_end) return;
    depths[(k0 - k_begin) / kDepth % 2][t] = steps(p.depth, k0 + t);
  };
  find_depths(k_begin);
  find_depths(k_begin + kDepth);
  __syncthreads();

  S a[A::kEach], b[B::kEach];
  const auto fetch = [&](int k0) {
    const Steps* const found = depths[(k0 - k_begin) / kDepth % 2];
#pragma unroll
    for (int e = 0; e < A::kEach; ++e) {
      const int row = min(m0 + A::line(e), p.m - 1), depth = A::depth(e);
      a[e] = S{};
      if (k0 + depth >= k_end) continue;
      a[e] = masked(memory.a, memory.mask_a,
                    a_group + (static_cast<uint32_t>(row * p.a_row) + found[depth].other));
    }
#pragma unroll
    for (int e = 0; e < B::kEach; ++e) {
      const int depth = B::depth(e);
      b[e] = S{};
      if (k0 + depth >= k_end) continue;
      const Steps &column = columns[B::line(e)], &down = found[depth];
      bool inside = true;
      if (!p.inside) {
#pragma unroll
        for (int x = 0; x < 3; ++x)
          inside = inside && static_cast<unsigned>(column.at[x] + down.at[x]) <
                                 static_cast<unsigned>(p.extent[x]);
      }
      if (!inside) continue;
      b[e] = masked(memory.b, memory.mask_b, b_group + (column.b + down.b));
    }
  };
  const auto put = [&](int buffer) {
#pragma unroll
    for (int e = 0; e < A::kEach; ++e)
      Tile::put_a(shared, buffer, A::line(e), A::depth(e), convert<Element>(a[e]));
#pragma unroll
    for (int e = 0; e < B::kEach; ++e)
      Tile::put_b(shared, buffer, B::line(e), B::depth(e), convert<Element>(b[e]));
  };

  Tile tile;
  T row_sum = 0;
  if (k_begin < k_end) {
    fetch(k_begin);
    put(0);
  }
  __syncthreads();
  int buffer = 0;
  for (int k0 = k_begin; k0 < k_end; k0 += kDepth) {
    const int next = k0 + kDepth;
    if (next < k_end) fetch(next);
    find_depths(next + kDepth);
    tile.multiply(shared, buffer);
    if (sums_rows && t < kRows) {
#pragma unroll 4
      for (int k = 0; k < kDepth; ++k) row_sum += Tile::a_at(shared, buffer, t, k);
    }
    buffer ^= 1;
    if (next < k_end) put(buffer);
    __syncthreads();
  }

  tile.finish(shared);

  // Parts in memory: a thread's sums in groups of four, then row sums.
  constexpr int kAll = (Tile::kOutputs + 1) * kGatherThreads;
  const int64_t place = int64_t{blockIdx.z} * gridDim.x + blockIdx.x;
  T* const parts = memory.partial + place * memory.splits * kAll;
  if (splits > 1) {
    T* const mine = parts + int64_t{split} * kAll;
#pragma unroll
    for (int i = 0; i < Tile::kOutputs; i += 4) {
      Pack<T, 4> four;
#pragma unroll
      for (int e = 0; e < 4; ++e) four.v[e] = tile.sum[i + e];
      store_far(mine + (i / 4 * kGatherThreads + t) * 4, four);
    }
    if (sums_rows) __stcg(mine + Tile::kOutputs * kGatherThreads + t, row_sum);
    if (!arrives_last(memory.arrived + place, static_cast<unsigned>(splits))) return;
    row_sum = 0;
    for (int s = 0; s < splits && sums_rows; ++s)
      row_sum += __ldcg(parts + int64_t{s} * kAll + Tile::kOutputs * kGatherThreads + t);
  }

  S* const c = memory.c + group * all.c_group;
  const auto finished = [&](T v, int row) {
    if (memory.bias) v += convert<T>(memory.bias[group * p.m + row]);
    return convert<S>(memory.relu && v < T(0) ? T(0) : v);
  };
  constexpr int kChunk = Tile::kOutputs < 16 ? Tile::kOutputs : 16, kAtOnce = 16 / sizeof(T);
#pragma unroll
  for (int i = 0; i < Tile::kOutputs; i += kChunk) {
    Pack<T, 4> sums[kChunk / 4];
#pragma unroll
    for (int e = 0; e < kChunk; ++e) sums[e / 4].v[e % 4] = splits > 1 ? T(0) : tile.sum[i + e];
    for (int s = 0; splits > 1 && s < splits; s += kAtOnce) {
      Pack<T, 4> some[kAtOnce][kChunk / 4];
#pragma unroll
      for (int q = 0; q < kAtOnce; ++q)
#pragma unroll
        for (int f = 0; f < kChunk / 4; ++f)
          some[q][f] =
              s + q < splits
                  ? load_far(parts + int64_t{s + q} * kAll + ((i / 4 + f) * kGatherThreads + t) * 4)
                  : Pack<T, 4>{};
#pragma unroll
      for (int q = 0; q < kAtOnce; ++q)
#pragma unroll
        for (int e = 0; e < kChunk; ++e) sums[e / 4].v[e % 4] += some[q][e / 4].v[e % 4];
    }
#pragma unroll
    for (int f = 0; f < kChunk / 4; ++f) {
      const int four = i + f * 4;
      if constexpr (kSame<S, float>) {
        if (memory.quads) {
          const int row = m0 + Tile::row(four), column = Tile::column(four);
          if (row >= p.m || n0 + column >= p.column.count) continue;
          Pack<S, 4> v;
#pragma unroll
          for (int e = 0; e < 4; ++e) v.v[e] = finished(sums[f].v[e], row);
          *reinterpret_cast<Pack<S, 4>*>(
              c + (static_cast<uint32_t>(row * p.c_row) + columns[column].other)) = v;
          continue;
        }
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = m0 + Tile::row(four + e), column = Tile::column(four + e);
        if (row < p.m && n0 + column < p.column.count)
          c[static_cast<uint32_t>(row * p.c_row) + columns[column].other] =
              finished(sums[f].v[e], row);
      }
    }
  }
  if (sums_rows && t < kRows && m0 + t < p.m)
    memory.row_sum[group * p.m + m0 + t] = convert<S>(row_sum);
}

}  // namespace
}  // namespace locus::cuda
