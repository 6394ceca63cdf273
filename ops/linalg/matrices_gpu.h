// Batches of matrices on a GPU: views, identity matrices, NaN in matrices that failed. Included by
// *.cu only.
#pragma once

#include <limits>

#include <locus/core/kernel.h>
#include <locus/core/scratch.h>
#include <locus/ops/kernel/launch.h>
#include <locus/ops/linalg/linalg_kernel.h>

namespace locus::cuda {

// A contiguous batch as a view of three axes. The matrices are row-major or column-major.
inline View view_matrices(const MatrixBatch& s, DType d, const void* data, bool by_columns) {
  View v{const_cast<void*>(data), {d, 3, {s.count, s.m, s.n}}, {s.size(), s.n, 1}};
  if (by_columns) {
    v.stride[1] = 1;
    v.stride[2] = s.m;
  }
  return v;
}

template <class T>
__global__ void fill_identity(T* x, int64_t n, int64_t count) {
  const int64_t size = n * n;
  for (int64_t at = first_thread(); at < count * size; at += all_threads())
    x[at] = at % size / n == at % n ? T{1} : T{0};
}

template <class T>
__global__ void fill_nan(T* x, int64_t size, int64_t count, const bool* failed) {
  for (int64_t at = first_thread(); at < count * size; at += all_threads())
    if (failed[at / size]) x[at] = std::numeric_limits<T>::quiet_NaN();
}

}  // namespace locus::cuda
