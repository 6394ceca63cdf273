// Device code: how a block multiplies a step of a gathered product in shared memory. Tensor cores
// multiply 16-bit operands. For other dtypes each thread computes 4 x 4 outputs, or two or four
// times as many.
#pragma once

#include <locus/ops/kernel/cast.h>
#include <locus/ops/kernel/launch.h>

namespace locus::cuda {
namespace {

constexpr int kGatherThreads = 256;

// f32 and f64 products. Thread (ty, tx) of a group has rows ty * 4 + r and columns tx * 4 + c of
// each block of 4 kTy x 4 kTx outputs. In a small tile, groups of threads share the depth. Their
// sums are added in the order of the groups.
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
  // After the last step, sum[i] is output (row(i), column(i)), i < kOutputs.
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
  // Every four columns are adjacent.
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

// Tensor core products: eight warps, each kRows / kWy rows and kColumns / kWx columns, in fragments
// of 16 x 8. Lines are contiguous along the depth. A line of 20 words spreads the banks.
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

}  // namespace
}  // namespace locus::cuda
