// Matrix products on the host, from packed panels (matmul_tile_cpu.h). Eigen computes vectors,
// small products and integers. A result's bits depend on operands, shapes and instruction set,
// never on the number of threads. Compiled once per instruction set; included by *_cpu.cc only.
#pragma once

#include <locus/core/dtype.h>
#include <locus/core/scratch.h>
#include <locus/devices/cpu.h>
#include <locus/ops/kernel/types.h>
#include <locus/ops/matmul/matmul_kernel.h>
#include <locus/ops/matmul/matmul_tile_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {

template <class T>
struct Matrix {
  const T* data;
  int64_t ld;
  bool column_major;
};

// c (m x n, row-major, without gaps) = a (m x k) · b (k x n) + bias (n, or null), then max(c, 0) if
// relu.
// T: float, double, uint32_t, uint64_t. If `threads` is 1, only the caller computes. `scratch` has
// gemm_scratch<T>() bytes.
template <class T>
void gemm(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, T* c, const T* bias, bool relu,
          int threads, void* scratch);

extern template void gemm(int64_t, int64_t, int64_t, Matrix<float>, Matrix<float>, float*,
                          const float*, bool, int, void*);
extern template void gemm(int64_t, int64_t, int64_t, Matrix<double>, Matrix<double>, double*,
                          const double*, bool, int, void*);
extern template void gemm(int64_t, int64_t, int64_t, Matrix<uint32_t>, Matrix<uint32_t>, uint32_t*,
                          const uint32_t*, bool, int, void*);
extern template void gemm(int64_t, int64_t, int64_t, Matrix<uint64_t>, Matrix<uint64_t>, uint64_t*,
                          const uint64_t*, bool, int, void*);

// Whether Eigen multiplies, on one thread or in pieces of one length.
template <class T>
LOCUS_HD bool by_eigen(int64_t m, int64_t n, int64_t k) {
  return !kFloating<T> || m == 1 || n == 1 || m * n * k <= 8192;
}
// A floating sum longer than twice a block's depth is the f64 sum of sums over blocks of k, as
// exact as a short one. Blocks are kDepth deep, or kBlockDepth if few panels would leave most
// threads idle. If results are few, threads share the blocks. Products of more than kManyResults
// add blocks of kBlockDepth in T.
inline constexpr int64_t kDepth = 2048, kFewResults = 4096, kManyResults = 1 << 18, kFewPanels = 8;

template <class T>
LOCUS_HD int64_t depth_of_blocks(int64_t m, int64_t n, int64_t k) {
  const int64_t down = (m + kMaxRows - 1) / kMaxRows, across = (n + kColumns<T> - 1) / kColumns<T>;
  return !by_eigen<T>(m, n, k) && down * across <= kFewPanels ? kBlockDepth : kDepth;
}
template <class T>
LOCUS_HD bool in_blocks(int64_t m, int64_t n, int64_t k) {
  return T(0.5) != T(0) && k > 2 * depth_of_blocks<T>(m, n, k) && m * n > 0 &&
         m * n <= kManyResults;
}
// The number of blocks summed in parallel.
template <class T>
LOCUS_HD int64_t blocks_at_once(int64_t m, int64_t n, int64_t k) {
  const int64_t depth = depth_of_blocks<T>(m, n, k), blocks = (k + depth - 1) / depth;
  return m * n > kFewResults ? 1 : blocks < 64 ? blocks : 64;
}
LOCUS_HD size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }

// The packed rows of a chunk fit the second-level cache.
template <class T>
inline constexpr int64_t kChunkRows = 1920 / static_cast<int64_t>(sizeof(T)) / kMaxRows* kMaxRows;
// A thread packs a chunk of rows, or less than a panel's columns as rows, and one panel of columns.
template <class T>
LOCUS_HD int64_t packed_elements(int64_t m, int64_t k) {
  int64_t rows = m < kChunkRows<T> ? m : kChunkRows<T>;
  if (rows < kVectorLanes<T>) rows = kVectorLanes<T>;
  const int64_t depth = k < kBlockDepth ? k : kBlockDepth;
  const int64_t n = (rows + kColumns<T>)*depth + kVectorLanes<T>;
  return static_cast<int64_t>(padded(static_cast<size_t>(n) * sizeof(T)) / sizeof(T));
}
// Offsets of gemm()'s scratch memory, in bytes. f64 totals of blocks are at 0.
template <class T>
struct GemmScratch {
  size_t parts = 0, packed = 0, all = 0;

  LOCUS_HD GemmScratch(int64_t m, int64_t n, int64_t k, int threads) {
    if (in_blocks<T>(m, n, k)) {
      const size_t results = static_cast<size_t>(m * n);
      parts = padded(results * sizeof(double));
      packed =
          parts + padded(results * static_cast<size_t>(blocks_at_once<T>(m, n, k)) * sizeof(T));
    }
    all = packed;
    if (!by_eigen<T>(m, n, k))
      all += static_cast<size_t>(threads * packed_elements<T>(m, k)) * sizeof(T);
  }
};
template <class T>
LOCUS_HD size_t gemm_scratch(int64_t m, int64_t n, int64_t k, int threads) {
  return GemmScratch<T>(m, n, k, threads).all;
}

// The type in which S is multiplied. Unsigned integers wrap; signed overflow is undefined.
template <class S>
using Factor = If<kInteger<S>, Wrap<S>, Compute<S>>;

// Below this much work a fork-join costs more than it saves.
inline constexpr double kSerialFlops = 1e6;

LOCUS_HD int threads_for(int64_t m, int64_t n, int64_t k) {
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k > 0 ? k : 1);
  return flops < kSerialFlops ? 1 : num_threads();
}

// Packs a rows x columns matrix of any strides as T, row-major.
template <class S, class T>
void pack(const S* in, int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride,
          T* out) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      out[i * columns + j] = static_cast<T>(in[i * row_stride + j * column_stride]);
}

}  // namespace locus::LOCUS_ISA_NAMESPACE
