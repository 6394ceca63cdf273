// Eigenvalues and eigenvectors. cuSOLVER sees the memory of a row-major matrix as its transpose,
// column-major.
//
//   several small matrices  cuSOLVER's rotations, all at once
//   others                  in f64, by divide and conquer
#include <cmath>

#include <locus/core/scratch.h>
#include <locus/devices/cusolver/solver.h>
#include <locus/ops/linalg/spectral_gpu.h>

namespace locus::cuda {
namespace {

// The bits of absolute values, as integers, are ordered as the numbers are.
__global__ void find_largest_of_each(const double* a, int64_t size, int64_t count,
                                     double* largest) {
  for (int64_t at = first_thread(); at < count * size; at += all_threads()) {
    const auto bits = static_cast<unsigned long long>(__double_as_longlong(fabs(a[at])));
    auto* const maximum = reinterpret_cast<unsigned long long*>(largest + at / size);
    if (bits > *maximum) atomicMax(maximum, bits);
  }
}

// A power of 2, so that sums with small integers are exact.
__device__ double compute_shift(double largest) {
  constexpr int kShiftExponent = 20;
  return largest > 0 ? ldexp(1., ilogb(largest) - kShiftExponent) : 0;
}
__global__ void shift_diagonals(double* a, int64_t n, int64_t count, const double* largest) {
  for (int64_t at = first_thread(); at < count * n; at += all_threads())
    a[at / n * n * n + at % n * (n + 1)] += compute_shift(largest[at / n]);
}
__global__ void shift_back(double* w, int64_t n, int64_t count, const double* largest) {
  for (int64_t at = first_thread(); at < count * n; at += all_threads())
    w[at] -= compute_shift(largest[at / n]);
}

// Copies the matrices as W and calls solve(a, values, info): eigenvalues, ascending, and, if v is
// given, eigenvectors as rows of a.
template <class W, class T>
void decompose(const Call& call, T* w, T* v, bool* failed, const auto& solve) {
  const MatrixBatch s(call.in[0].meta);
  const int64_t n = s.n;
  const Part part = call.attributes<EighAttrs>().upper ? Part::upper : Part::lower;
  const Scratch memory(call, static_cast<size_t>(s.count * s.size()) * sizeof(W));
  const Scratch values(call, static_cast<size_t>(s.count * n) * sizeof(W));
  const Scratch info(call, static_cast<size_t>(s.count) * sizeof(int));
  W* const a = memory.as<W>();
  copy_finite_matrices(call, call.in[0].as<const T>(), s, part, a, failed);
  if (s.count * s.size() == 0) return;
  solve(a, values.as<W>(), info.as<int>());
  launch(call.stream, s.count, mark_failed<int>, info.as<const int>(), s.count, failed);
  launch(call.stream, s.count * n, write_values<T, W>, values.as<const W>(), n, s.count, failed, w);
  if (!v) return;
  const Scratch signs(call, static_cast<size_t>(s.count * n) * sizeof(W));
  const Vectors<W> vectors{a, n, n, s.size(), n, 1};
  launch_find_signs(call, vectors, 0, s.count, signs.as<W>());
  write_vectors(call, vectors, Signs<W>{nullptr, signs.as<W>(), 0, 0}, true, s.count, failed, v);
}

template <class T>
void decompose_eigen(const Call& call, DType d, T* w, T* v, bool* failed) {
  const MatrixBatch s(call.in[0].meta);
  if (s.count > 1 && s.n <= kMaxRotatedLength)
    decompose<T>(call, w, v, failed, [&](T* a, T* values, int* info) {
      solver_eigen_each(call, d, v != nullptr, s.n, a, values, s.count, info);
    });
  else
    decompose<double>(call, w, v, failed, [&](double* a, double* values, int* info) {
      decompose_symmetric(call, v != nullptr, s.n, a, values, s.count, info);
    });
}

struct Backend {
  template <DType D>
  static void eigh(const Call& call) {
    using T = CppTypeOf<D>;
    decompose_eigen(call, D, call.out[0].as<T>(), call.out[1].as<T>(), call.out[2].as<bool>());
  }
  template <DType D>
  static void eigvalsh(const Call& call) {
    using T = CppTypeOf<D>;
    decompose_eigen<T>(call, D, call.out[0].as<T>(), nullptr, call.out[1].as<bool>());
  }
  template <DType D>
  static void svd(const Call& call) {
    using T = CppTypeOf<D>;
    decompose_svd(call, call.attributes<SvdAttrs>().full_matrices, call.out[0].as<T>(),
                  call.out[1].as<T>(), call.out[2].as<T>(), call.out[3].as<bool>());
  }
  template <DType D>
  static void svdvals(const Call& call) {
    using T = CppTypeOf<D>;
    decompose_svd<T>(call, false, nullptr, call.out[0].as<T>(), nullptr, call.out[1].as<bool>());
  }
};

}  // namespace

void find_largest(const Call& call, const double* a, int64_t size, int64_t count, double* largest) {
  LOCUS_CUDA(cudaMemsetAsync(largest, 0, static_cast<size_t>(count) * sizeof(double),
                             native(call.stream)));
  launch(call.stream, count * size, find_largest_of_each, a, size, count, largest);
}

void decompose_symmetric(const Call& call, bool vectors, int64_t n, double* a, double* w,
                         int64_t count, int* info) {
  const Scratch memory(call, static_cast<size_t>(count) * sizeof(double));
  double* const largest = memory.as<double>();
  find_largest(call, a, n * n, count, largest);
  launch(call.stream, count * n, shift_diagonals, a, n, count, largest);
  solver_eigen(call, vectors, n, a, w, count, info);
  launch(call.stream, count * n, shift_back, w, n, count, largest);
}

extern constinit const KernelList spectral = spectral_kernels<Backend>();

}  // namespace locus::cuda
