// Matrix products on the host: Eigen on one slab a thread, cut by the pool. Compiled once per
// instruction set; included by *_cpu.cc only.
#pragma once

#include <cstdlib>
#include <new>

#include <locus/core/dtype.h>
#include <locus/devices/cpu.h>
#include <locus/ops/matmul/matmul_kernel.h>

namespace locus::LOCUS_ISA {

template <class T>
struct Operand {
  const T* data;
  int64_t ld;
  bool column_major;
};

// c (m x n, row-major, without gaps) = a (m x k) · b (k x n) + bias (n, or null), then max(c, 0).
// T: float, double, uint32_t, uint64_t. `threads`: 1 keeps it on the caller.
template <class T>
void gemm(int64_t m, int64_t n, int64_t k, Operand<T> a, Operand<T> b, T* c, const T* bias,
          bool relu, int threads);

extern template void gemm(int64_t, int64_t, int64_t, Operand<float>, Operand<float>, float*,
                          const float*, bool, int);
extern template void gemm(int64_t, int64_t, int64_t, Operand<double>, Operand<double>, double*,
                          const double*, bool, int);

// What a storage type is multiplied in. Unsigned integers wrap; signed overflow is undefined.
template <class S>
struct ComputeOf {
  using type = S;
};
template <>
struct ComputeOf<Half> {
  using type = float;
};
template <>
struct ComputeOf<BFloat16> {
  using type = float;
};
template <>
struct ComputeOf<int32_t> {
  using type = uint32_t;
};
template <>
struct ComputeOf<int64_t> {
  using type = uint64_t;
};
template <>
struct ComputeOf<int8_t> {
  using type = uint32_t;
};
template <>
struct ComputeOf<uint8_t> {
  using type = uint32_t;
};

// Below this much work a fork-join costs more than it saves.
inline constexpr double kSerialFlops = 1e6;

LOCUS_HD int threads_for(int64_t m, int64_t n, int64_t k) {
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k > 0 ? k : 1);
  return flops < kSerialFlops ? 1 : num_threads();
}

// Scratch memory of a kernel.
template <class T>
class Buffer {
 public:
  explicit Buffer(int64_t size)
      : data_(size > 0 ? static_cast<T*>(std::malloc(static_cast<size_t>(size) * sizeof(T)))
                       : nullptr) {
    if (size > 0 && data_ == nullptr) throw std::bad_alloc();
  }
  ~Buffer() { std::free(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  T* data() const { return data_; }

 private:
  T* data_;
};

// A rows x columns matrix of any strides as its compute type, row-major.
template <class S, class T>
void pack(const S* in, int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride,
          T* out) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      out[i * columns + j] = static_cast<T>(in[i * row_stride + j * column_stride]);
}

}  // namespace locus::LOCUS_ISA
