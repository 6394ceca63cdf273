// Device code: one tile of a gathered product (gathered.h).
//
// A block of 256 threads goes through its part of the depth in steps. A step's elements of a and b
// are read into registers while those of the step before are multiplied out of shared memory; what
// its depths add to places is found a step earlier still, once for the whole block. 16-bit operands
// are multiplied by tensor cores, the others by each thread for its 4 x 4 outputs, or twice or four
// times as many. Where the depth is cut across blocks, each leaves its sums in scratch memory, and
// the last one to arrive adds them up in the order of the cuts: results repeat bit for bit.
#pragma once

#include <locus/ops/convolution/gathered_cuda.h>
#include <locus/ops/kernel/launch.h>

namespace locus::cuda {
namespace {

constexpr int kGatherThreads = 256;
constexpr int kNowhere = -(1 << 30);  // along an axis: never inside an array

// Products on the cores for f32 and f64. Thread (ty, tx) of a group has rows ty * 4 + r and columns
// tx * 4 + c of each block of 4 kTy rows and 4 kTx columns. Of a small tile, several groups of
// threads share the depth, and their sums are added in the order of the groups.
template <class T, int kRows, int kColumns>
struct CoreTile {
  static constexpr bool kSmall = kRows * kColumns < 4096;
  static constexpr int kTx = kSmall ? 8 : kColumns == 128 && kRows == 32 ? 32 : 16;
  static constexpr int kTy = kSmall ? 8 : kGatherThreads / kTx;
  static constexpr int kGroups = kGatherThreads / (kTy * kTx);
  static constexpr int kQy = kRows / (4 * kTy), kQx = kColumns / (4 * kTx);
  static constexpr int kDepth = kSmall ? 32 : 16;
  static constexpr int kOutputs = kRows * kColumns / kGatherThreads;
  static constexpr int kLineA = kRows + 4, kLineB = kColumns + 4;  // spreads the banks
  using Element = T;
  union alignas(32) Shared {
    struct {
      T a[2][kDepth][kLineA], b[2][kDepth][kLineB];
    };
    T sums[kSmall ? kGroups : 1][kSmall ? kRows * kColumns : 1];
  };

  T sum[16 * kQy * kQx] = {};

  static __device__ __forceinline__ void put_a(Shared& s, int buffer, int line, int depth, T v) {
    s.a[buffer][depth][line] = v;
  }
  static __device__ __forceinline__ void put_b(Shared& s, int buffer, int line, int depth, T v) {
    s.b[buffer][depth][line] = v;
  }
  static __device__ __forceinline__ T a_at(const Shared& s, int buffer, int line, int depth) {
    return s.a[buffer][depth][line];
  }
  static __device__ __forceinline__ int group() {
    return static_cast<int>(threadIdx.x) / (kTy * kTx);
  }
  static __device__ __forceinline__ int y() {
    return static_cast<int>(threadIdx.x) % (kTy * kTx) / kTx;
  }
  static __device__ __forceinline__ int x() { return static_cast<int>(threadIdx.x) % kTx; }

  __device__ __forceinline__ void multiply(const Shared& s, int buffer) {
#pragma unroll
    for (int i = 0; i < kDepth / kGroups; ++i) {
      const int k = group() * (kDepth / kGroups) + i;
      Pack<T, 4> a[kQy], b[kQx];
#pragma unroll
      for (int q = 0; q < kQy; ++q)
        a[q] = *reinterpret_cast<const Pack<T, 4>*>(&s.a[buffer][k][(q * kTy + y()) * 4]);
#pragma unroll
      for (int q = 0; q < kQx; ++q)
        b[q] = *reinterpret_cast<const Pack<T, 4>*>(&s.b[buffer][k][(q * kTx + x()) * 4]);
#pragma unroll
      for (int r = 0; r < 4 * kQy; ++r)
#pragma unroll
        for (int c = 0; c < 4 * kQx; ++c)
          sum[r * 4 * kQx + c] += a[r / 4].v[r % 4] * b[c / 4].v[c % 4];
    }
  }
  // After the last step: sum[i], i < kOutputs, is that of row(i) and column(i).
  __device__ __forceinline__ void finish(Shared& s) {
    if constexpr (kSmall) {
#pragma unroll
      for (int i = 0; i < 16; ++i)
        s.sums[group()][(y() * 4 + i / 4) * kColumns + x() * 4 + i % 4] = sum[i];
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kOutputs; ++i) {
        sum[i] = 0;
#pragma unroll
        for (int g = 0; g < kGroups; ++g) sum[i] += s.sums[g][row(i) * kColumns + column(i)];
      }
    }
  }
  // Columns of four neighbours follow each other.
  static __device__ __forceinline__ int row(int i) {
    if constexpr (kSmall) return static_cast<int>(threadIdx.x) * kOutputs / kColumns;
    const int at = i / (4 * kQx);
    return (at / 4 * kTy + y()) * 4 + at % 4;
  }
  static __device__ __forceinline__ int column(int i) {
    if constexpr (kSmall) return static_cast<int>(threadIdx.x) * kOutputs % kColumns + i;
    const int at = i % (4 * kQx);
    return (at / 4 * kTx + x()) * 4 + at % 4;
  }
};

// d (16 x 8) += a (16 x 16) · b (16 x 8), by a warp.
template <class S>
__device__ __forceinline__ void multiply_fragments(float (&d)[4], const uint32_t (&a)[4],
                                                   const uint32_t (&b)[2]) {
  if constexpr (kSame<S, Half>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Products on tensor cores: eight warps, each kRows / kWy rows and kColumns / kWx columns in
// fragments of 16 x 8. Lines lie along the depth; 20 words from one to the next spread the banks.
template <class S, int kRows, int kColumns>
struct TensorTile {
  static constexpr int kDepth = 32, kLine = kDepth + 8;
  static constexpr int kWy = 2, kWx = 4;
  static constexpr int kFy = kRows / kWy / 16, kFx = kColumns / kWx / 8;
  static constexpr int kOutputs = 4 * kFy * kFx;
  using Element = S;
  struct alignas(16) Shared {
    S a[2][kRows][kLine], b[2][kColumns][kLine];
  };

  float sum[kOutputs] = {};

  static __device__ __forceinline__ void put_a(Shared& s, int buffer, int line, int depth, S v) {
    s.a[buffer][line][depth] = v;
  }
  static __device__ __forceinline__ void put_b(Shared& s, int buffer, int line, int depth, S v) {
    s.b[buffer][line][depth] = v;
  }
  static __device__ __forceinline__ float a_at(const Shared& s, int buffer, int line, int depth) {
    return convert<float>(s.a[buffer][line][depth]);
  }
  static __device__ __forceinline__ uint32_t two(const S* p) {
    return *reinterpret_cast<const uint32_t*>(p);
  }
  __device__ __forceinline__ void multiply(const Shared& s, int buffer) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int y = warp / kWx * (kRows / kWy) + lane / 4,
              x = warp % kWx * (kColumns / kWx) + lane / 4;
#pragma unroll
    for (int k = 0; k < kDepth; k += 16) {
      const int at = k + lane % 4 * 2;
      uint32_t a[kFy][4], b[kFx][2];
#pragma unroll
      for (int i = 0; i < kFy; ++i)
#pragma unroll
        for (int q = 0; q < 4; ++q)
          a[i][q] = two(&s.a[buffer][y + i * 16 + q % 2 * 8][at + q / 2 * 8]);
#pragma unroll
      for (int j = 0; j < kFx; ++j)
#pragma unroll
        for (int q = 0; q < 2; ++q) b[j][q] = two(&s.b[buffer][x + j * 8][at + q * 8]);
#pragma unroll
      for (int i = 0; i < kFy; ++i)
#pragma unroll
        for (int j = 0; j < kFx; ++j)
          multiply_fragments<S>(*reinterpret_cast<float(*)[4]>(sum + (i * kFx + j) * 4), a[i],
                                b[j]);
    }
  }
  __device__ __forceinline__ void finish(Shared&) {}
  static __device__ __forceinline__ int row(int i) {
    const int t = static_cast<int>(threadIdx.x), fragment = i / 4 / kFx;
    return t / 32 / kWx * (kRows / kWy) + fragment * 16 + t % 32 / 4 + i % 4 / 2 * 8;
  }
  static __device__ __forceinline__ int column(int i) {
    const int t = static_cast<int>(threadIdx.x), fragment = i / 4 % kFx;
    return t / 32 % kWx * (kColumns / kWx) + fragment * 8 + t % 4 * 2 + i % 2;
  }
};

// What a column or a depth adds to places: in b, elsewhere (c or a), and along the axes of b.
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
  r.b = static_cast<uint32_t>(s.b.base);  // where nothing is, a sum may wrap around
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

// Which of a step's `lines` x kDepth elements a thread has: E of them, the first at (line, depth),
// the others so many lines or depths further on.
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
  const int split = static_cast<int>(blockIdx.y);
  const int k_begin = split * memory.k_split, k_end = min(p.depth.count, k_begin + memory.k_split);
  const int64_t a_group = group * all.a_group, b_group = group * all.b_group;
  const bool sums_rows = memory.row_sum != nullptr && n0 == 0;

  if (t < kColumns) {
    Steps s = steps(p.column, n0 + t);
    if (n0 + t >= p.column.count) s.at[0] = kNowhere;
    columns[t] = s;
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
      const int row = m0 + A::line(e), depth = A::depth(e);
      a[e] = S{};
      if (row >= p.m || k0 + depth >= k_end) continue;
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
#pragma unroll
      for (int x = 0; x < 3; ++x)
        inside = inside && static_cast<unsigned>(column.at[x] + down.at[x]) <
                               static_cast<unsigned>(p.extent[x]);
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

  if (memory.splits > 1) {
    constexpr int kAll = (Tile::kOutputs + 1) * kGatherThreads;
    const int64_t place = int64_t{blockIdx.z} * gridDim.x + blockIdx.x;
    T* const parts = memory.partial + place * memory.splits * kAll + t;
    T* const mine = parts + int64_t{split} * kAll;
#pragma unroll
    for (int i = 0; i < Tile::kOutputs; ++i) __stcg(mine + i * kGatherThreads, tile.sum[i]);
    if (sums_rows) __stcg(mine + Tile::kOutputs * kGatherThreads, row_sum);
    if (!arrives_last(memory.arrived + place, static_cast<unsigned>(memory.splits))) return;
#pragma unroll
    for (int i = 0; i < Tile::kOutputs; ++i) tile.sum[i] = 0;
    row_sum = 0;
    for (int s = 0; s < memory.splits; ++s) {
      const T* const part = parts + int64_t{s} * kAll;
#pragma unroll
      for (int i = 0; i < Tile::kOutputs; ++i) tile.sum[i] += __ldcg(part + i * kGatherThreads);
      if (sums_rows) row_sum += __ldcg(part + Tile::kOutputs * kGatherThreads);
    }
  }

  S* const c = memory.c + group * all.c_group;
  const auto finished = [&](int i, int row) {
    T v = tile.sum[i];
    if (memory.bias) v += convert<T>(memory.bias[group * p.m + row]);
    return convert<S>(memory.relu && v < T(0) ? T(0) : v);
  };
  if constexpr (kSame<S, float>) {
    if (memory.quads) {
#pragma unroll
      for (int i = 0; i < Tile::kOutputs; i += 4) {
        const int row = m0 + Tile::row(i), column = Tile::column(i);
        if (row >= p.m || n0 + column >= p.column.count) continue;
        Pack<S, 4> v;
#pragma unroll
        for (int e = 0; e < 4; ++e) v.v[e] = finished(i + e, row);
        *reinterpret_cast<Pack<S, 4>*>(
            c + (static_cast<uint32_t>(row * p.c_row) + columns[column].other)) = v;
      }
    }
  }
  if (!kSame<S, float> || !memory.quads) {
#pragma unroll
    for (int i = 0; i < Tile::kOutputs; ++i) {
      const int row = m0 + Tile::row(i), column = Tile::column(i);
      if (row < p.m && n0 + column < p.column.count)
        c[static_cast<uint32_t>(row * p.c_row) + columns[column].other] = finished(i, row);
    }
  }
  if (sums_rows && t < kRows && m0 + t < p.m)
    memory.row_sum[group * p.m + m0 + t] = convert<S>(row_sum);
}

}  // namespace
}  // namespace locus::cuda
