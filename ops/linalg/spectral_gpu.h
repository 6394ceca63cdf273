// Shared by the kernels of eigenvectors and singular vectors: finite copies, signs, NaN in matrices
// that failed. Included by *.cu only.
#pragma once

#include <limits>

#include <locus/devices/cuda/check.h>
#include <locus/ops/kernel/math_base.h>
#include <locus/ops/linalg/matrices_gpu.h>
#include <locus/ops/linalg/spectral_kernel.h>

namespace locus::cuda {

// The singular values s and, if u is given, the vectors u and vh of a call's matrices. In svd.cu,
// for float and double.
template <class T>
void decompose_svd(const Call& call, bool full_matrices, T* u, T* s, T* vh, bool* failed);

// The eigenvalues w, ascending, of `count` symmetric matrices a (n x n) of finite numbers. With
// `vectors`, eigenvectors replace a, as rows. info[k] is not 0 if matrix k failed. In spectral.cu.
void decompose_symmetric(const Call& call, bool vectors, int64_t n, double* a, double* w,
                         int64_t count, int* info);

// Writes the largest absolute value of each matrix of `size` elements, all finite. In spectral.cu.
void find_largest(const Call& call, const double* a, int64_t size, int64_t count, double* largest);

// The part of a matrix that is copied.
enum class Part {
  lower,       // the lower triangle, and its mirror image in place of the upper
  upper,       // the upper triangle, and its mirror image in place of the lower
  all,         // all elements
  transposed,  // the transpose
};
// Copies `count` matrices (m x n). Sets failed[k] if an element of matrix k is not finite.
template <class T, class W>
__global__ void copy_finite(const T* from, int64_t m, int64_t n, int64_t count, Part part, W* to,
                            bool* failed) {
  const int64_t size = m * n, all = count * size;
  for (int64_t at = first_thread(); at < all; at += all_threads()) {
    const int64_t k = at / size, i = at % size / n, j = at % n;
    const bool mirrored = part == Part::lower ? i < j : part == Part::upper && i > j;
    const T x = from[mirrored ? k * size + j * n + i : at];
    to[part == Part::transposed ? k * size + j * m + i : at] = static_cast<W>(x);
    if (!isfinite(x)) failed[k] = true;
  }
}
// Zeros in place of matrices that failed: iterations of the others are not disturbed.
template <class T>
__global__ void zero_failed(T* x, int64_t size, int64_t count, const bool* failed) {
  for (int64_t at = first_thread(); at < count * size; at += all_threads())
    if (failed[at / size]) x[at] = 0;
}
// Copies matrices, all finite afterwards, and sets `failed`.
template <class T, class W>
void copy_finite_matrices(const Call& call, const T* from, const MatrixBatch& a, Part part, W* to,
                          bool* failed) {
  LOCUS_CUDA(cudaMemsetAsync(failed, 0, static_cast<size_t>(a.count), native(call.stream)));
  const int64_t all = a.count * a.size();
  if (all == 0) return;
  launch(call.stream, all, copy_finite<T, W>, from, a.m, a.n, a.count, part, to, failed);
  launch(call.stream, all, zero_failed<W>, to, a.size(), a.count, failed);
}

template <class Int>
__global__ void mark_failed(const Int* info, int64_t count, bool* failed) {
  for (int64_t k = first_thread(); k < count; k += all_threads())
    if (info[k] != 0) failed[k] = true;
}
// Writes w, or NaN for matrices that failed.
template <class T, class W>
__global__ void write_values(const W* w, int64_t n, int64_t count, const bool* failed, T* to) {
  for (int64_t at = first_thread(); at < count * n; at += all_threads())
    to[at] = failed[at / n] ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(w[at]);
}

// Vectors of `count` matrices. Component i of vector j of matrix k is
// data[k * matrix_stride + j * vector_stride + i * component_stride].
template <class T>
struct Vectors {
  const T* data;
  int64_t vectors, components;
  int64_t matrix_stride, vector_stride, component_stride;

  __device__ const T* begin(int64_t k, int64_t j) const {
    return data + k * matrix_stride + j * vector_stride;
  }
};

// Writes signs[k * x.vectors + j] for vectors j from `first` on. One warp per vector.
template <class T>
__global__ void find_signs(Vectors<T> x, int64_t first, int64_t count, T* signs) {
  constexpr unsigned kAll = ~0u;
  constexpr int64_t kWarp = 32;
  const int64_t rest = x.vectors - first, lane = threadIdx.x % kWarp;
  const int64_t warps = all_threads() / kWarp;
  for (int64_t at = first_thread() / kWarp; at < count * rest; at += warps) {
    const int64_t k = at / rest, j = first + at % rest;
    const T* const v = x.begin(k, j);
    T largest = 0;
    for (int64_t i = lane; i < x.components; i += kWarp)
      largest = m::max(largest, m::abs(v[i * x.component_stride]));
    for (int step = 16; step > 0; step /= 2)
      largest = m::max(largest, __shfl_xor_sync(kAll, largest, step));
    const T threshold = largest * static_cast<T>(kLargeFraction);
    T sign = 1;
    for (int64_t base = 0; base < x.components; base += kWarp) {
      const int64_t i = base + lane;
      const T value = i < x.components ? v[i * x.component_stride] : T{0};
      const unsigned found = __ballot_sync(kAll, i < x.components && m::abs(value) >= threshold);
      if (found == 0) continue;
      sign = __shfl_sync(kAll, value, __ffs(static_cast<int>(found)) - 1) < 0 ? T{-1} : T{1};
      break;
    }
    if (lane == 0) signs[k * x.vectors + j] = sign;
  }
}
template <class T>
void launch_find_signs(const Call& call, const Vectors<T>& x, int64_t first, int64_t count,
                       T* signs) {
  const int64_t n = count * (x.vectors - first);
  if (x.components > 0) launch(call.stream, n * 32, find_signs<T>, x, first, count, signs);
}

// Vectors below `shared_until` take the signs `shared` of another matrix, which has
// `shared_vectors` vectors. Later vectors take the signs `own`.
template <class T>
struct Signs {
  const T *shared, *own;
  int64_t shared_vectors, shared_until;
};
// Writes row-major matrices whose columns, or rows, are the vectors times their signs. NaN in
// matrices that failed.
template <class T, class W>
__global__ void write_signed(Vectors<W> x, Signs<W> signs, bool columns, int64_t count,
                             const bool* failed, T* to) {
  const int64_t size = x.vectors * x.components;
  for (int64_t at = first_thread(); at < count * size; at += all_threads()) {
    const int64_t k = at / size, inner = at % size;
    const int64_t j = columns ? inner % x.vectors : inner / x.components;
    const int64_t i = columns ? inner / x.vectors : inner % x.components;
    const W sign = j < signs.shared_until ? signs.shared[k * signs.shared_vectors + j]
                                          : signs.own[k * x.vectors + j];
    to[at] = failed[k] ? std::numeric_limits<T>::quiet_NaN()
                       : static_cast<T>(x.begin(k, j)[i * x.component_stride] * sign);
  }
}
template <class T, class W>
void write_vectors(const Call& call, const Vectors<W>& x, const Signs<W>& signs, bool columns,
                   int64_t count, const bool* failed, T* to) {
  const int64_t n = count * x.vectors * x.components;
  launch(call.stream, n, write_signed<T, W>, x, signs, columns, count, failed, to);
}

}  // namespace locus::cuda
