// cuSOLVER and cuBLAS see the memory of a row-major matrix as its transpose, column-major. Work
// copies are column-major, so that they factor the matrix itself, as the host does. Cholesky also
// takes half the time on a lower triangle.
#include <limits>

#include <locus/devices/cuda/blas.h>
#include <locus/devices/cuda/check.h>
#include <locus/devices/cusolver/solver.h>
#include <locus/ops/kernel/copy.h>
#include <locus/ops/linalg/matrices_gpu.h>

namespace locus::cuda {
namespace {

constexpr int64_t kMaxBatchedLength = 512;  // several matrices up to this length: one call for all

bool is_batched(int64_t count, int64_t n) { return count > 1 && n <= kMaxBatchedLength; }

__global__ void fill_pointers(void** pointers, char* first, int64_t bytes, int64_t count) {
  for (int64_t i = first_thread(); i < count; i += all_threads()) pointers[i] = first + i * bytes;
}

// Pointers to the matrices of a contiguous batch, in the device's memory.
class MatrixPointers {
 public:
  MatrixPointers(const Call& call, void* first, int64_t bytes, int64_t count)
      : memory_(call, static_cast<size_t>(count) * sizeof(void*)) {
    launch(call.stream, count, fill_pointers, data(), static_cast<char*>(first), bytes, count);
  }
  void** data() const { return memory_.as<void*>(); }

 private:
  Scratch memory_;
};

// failed[k]: whether an element on the diagonal of matrix k is 0 or, with kPositive, not positive,
// or info[k] is not 0. One block per matrix.
template <class T, bool kPositive>
__global__ void check_diagonals(const T* a, int64_t n, const int* info, bool* failed) {
  const int64_t k = blockIdx.x;
  const T* const matrix = a + k * n * n;
  bool bad = info && info[k] != 0;
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
    const T x = matrix[i * (n + 1)];
    bad = bad || (kPositive ? !(x > 0) : x == 0);
  }
  bad = __syncthreads_or(bad);
  if (threadIdx.x == 0) failed[k] = bad;
}
template <bool kPositive, class T>
void find_failed(const Call& call, const T* a, const MatrixBatch& s, const int* info,
                 bool* failed) {
  check_diagonals<T, kPositive>
      <<<static_cast<unsigned>(s.count), kBlock, 0, native(call.stream)>>>(a, s.n, info, failed);
}

// l: row-major, 0 above the diagonal, NaN if the matrix failed; from column-major matrices.
template <class T>
__global__ void copy_lower(const T* from, T* l, int64_t n, int64_t count, const bool* failed) {
  const int64_t size = n * n, all = count * size;
  for (int64_t i = first_thread(); i < all; i += all_threads()) {
    const int64_t k = i / size, row = i % size / n, column = i % n;
    l[i] = failed[k]      ? std::numeric_limits<T>::quiet_NaN()
           : column > row ? T{0}
                          : from[k * size + column * n + row];
  }
}

void copy_bytes(const Call& call, void* to, const void* from, int64_t bytes) {
  if (bytes > 0)
    LOCUS_CUDA(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice,
                               native(call.stream)));
}

// Computes the order of the rows, and its sign, from the exchanges. A thread follows one row
// through all exchanges.
template <class T, class P>
__global__ void order_rows(const P* pivots, int64_t m, int64_t pivot_count, int64_t count,
                           int64_t* order, T* sign) {
  for (int64_t at = first_thread(); at < count * m; at += all_threads()) {
    const int64_t k = at / m, row = at % m;
    int64_t place = row;
    bool odd = false;
    for (int64_t i = 0; i < pivot_count; ++i) {
      const int64_t exchanged = pivots[k * pivot_count + i] - 1;
      odd ^= exchanged != i;
      place = place == i ? exchanged : place == exchanged ? i : place;
    }
    order[k * m + place] = row;
    if (row == 0) sign[k] = odd ? T{-1} : T{1};
  }
}

// Sets flags[k] if an element of matrix k is not finite.
template <class T>
__global__ void find_not_finite(const T* a, int64_t size, int64_t count, bool* flags) {
  for (int64_t at = first_thread(); at < count * size; at += all_threads())
    if (!isfinite(a[at])) flags[at / size] = true;
}

// Factors a column-major matrix in place by one block: Gaussian elimination with partial pivoting.
// A column whose pivot is 0 is left as it is.
template <class T>
__device__ void eliminate(T* a, int n, int* pivots) {
  constexpr unsigned kAllLanes = ~0u;
  constexpr int kWarp = 32;
  __shared__ int pivot_row;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (int j = 0; j < n; ++j) {
    T* const column = a + j * n;
    __syncthreads();
    if (thread < kWarp) {
      T largest = -1;
      int row = j;
      for (int i = j + thread; i < n; i += kWarp)
        if (fabs(column[i]) > largest) {
          largest = fabs(column[i]);
          row = i;
        }
      for (int step = kWarp / 2; step > 0; step /= 2) {
        const T other = __shfl_xor_sync(kAllLanes, largest, step);
        const int other_row = __shfl_xor_sync(kAllLanes, row, step);
        if (other > largest || (other == largest && other_row < row)) {
          largest = other;
          row = other_row;
        }
      }
      if (thread == 0) {
        pivot_row = row;
        pivots[j] = row + 1;
      }
    }
    __syncthreads();
    for (int c = thread; c < n; c += threads) {
      const T x = a[c * n + j];
      a[c * n + j] = a[c * n + pivot_row];
      a[c * n + pivot_row] = x;
    }
    __syncthreads();
    const T pivot = column[j];
    if (pivot == 0) continue;
    for (int i = j + 1 + thread; i < n; i += threads) column[i] /= pivot;
    __syncthreads();
    const int rest = n - j - 1;
    for (int at = thread; at < rest * rest; at += threads) {
      const int i = j + 1 + at % rest, c = j + 1 + at / rest;
      a[c * n + i] -= column[i] * a[c * n + j];
    }
  }
}

// Mends the factors of cuBLAS, one block per matrix. If a matrix is not finite, the diagonal of u
// is not finite or info is not 0: the factors become NaN, and the pivots 1 to n. If info of a
// finite matrix is not 0, the matrix is factored again, because cuBLAS does not eliminate behind a
// pivot of 0. Originals are row-major, factors column-major.
template <class T>
__global__ void mend_factors(const T* originals, int n, const int* info, T* factors, int* pivots) {
  const int64_t matrix = blockIdx.x;
  const T* const original = originals + matrix * n * n;
  T* const a = factors + matrix * n * n;
  const int first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  bool sound = info[matrix] == 0;
  for (int i = first; i < n; i += step) sound = sound && isfinite(a[i * (n + 1)]);
  if (__syncthreads_and(sound)) return;

  bool finite = true;
  for (int at = first; at < n * n; at += step) finite = finite && isfinite(original[at]);
  if (!__syncthreads_and(finite)) {
    for (int at = first; at < n * n; at += step) a[at] = std::numeric_limits<T>::quiet_NaN();
    for (int i = first; i < n; i += step) pivots[matrix * n + i] = i + 1;
  } else if (info[matrix] != 0) {
    for (int at = first; at < n * n; at += step) a[at % n * n + at / n] = original[at];
    eliminate(a, n, pivots + matrix * n);
  }
}

// Factors column-major copies a of the call's matrices in place; NaN where a matrix is not finite.
// Returns whether pivots are int, as cuBLAS's are for a batch, else int64_t.
template <DType D, class T>
bool factor_lu(const Call& call, const MatrixBatch& s, T* a, const Scratch& pivots) {
  const Scratch info(call, static_cast<size_t>(s.count) * sizeof(int));
  const T* const originals = call.in[0].as<const T>();
  if (s.m == s.n && is_batched(s.count, s.n)) {
    const MatrixPointers pointers(call, a, s.size() * sizeof(T), s.count);
    blas_lu_each(call, D, s.n, pointers.data(), s.count, pivots.as<int>(), info.as<int>());
    mend_factors<<<static_cast<unsigned>(s.count), kBlock, 0, native(call.stream)>>>(
        originals, static_cast<int>(s.n), info.as<const int>(), a, pivots.as<int>());
    return true;
  }
  const int64_t pivot_count = s.m < s.n ? s.m : s.n;
  for (int64_t k = 0; k < s.count; ++k)
    solver_lu(call, D, s.m, s.n, a + k * s.size(), pivots.as<int64_t>() + k * pivot_count,
              info.as<int>() + k);
  // cuSOLVER reads NaN as 0.
  const Scratch flags(call, static_cast<size_t>(s.count));
  LOCUS_CUDA(cudaMemsetAsync(flags.data(), 0, static_cast<size_t>(s.count), native(call.stream)));
  const int64_t all = s.count * s.size();
  launch(call.stream, all, find_not_finite<T>, originals, s.size(), s.count, flags.as<bool>());
  launch(call.stream, all, fill_nan<T>, a, s.size(), s.count, flags.as<const bool>());
  return false;
}

// The factors of column-major matrices a replace them, and solutions replace x.
template <DType D, class T>
void solve_by_lu(const Call& call, const MatrixBatch& a, T* lu, const MatrixBatch& b, T* x) {
  const bool transpose = call.attributes<SolveAttrs>().transpose;
  const Scratch pivots(call, static_cast<size_t>(a.count * a.n) * sizeof(int64_t));
  const bool batched = factor_lu<D>(call, a, lu, pivots);
  if (b.n == 0) return;
  if (batched) {
    const MatrixPointers pointers(call, lu, a.size() * sizeof(T), a.count);
    const MatrixPointers right_pointers(call, x, b.size() * sizeof(T), a.count);
    blas_lu_solve_each(call, D, transpose, a.n, b.n, pointers.data(), pivots.as<int>(),
                       right_pointers.data(), a.count);
    return;
  }
  const Scratch info(call, sizeof(int));
  for (int64_t k = 0; k < a.count; ++k)
    solver_lu_solve(call, D, transpose, a.n, b.n, lu + k * a.size(), pivots.as<int64_t>() + k * a.n,
                    x + k * b.size(), info.as<int>());
}

struct Backend {
  template <DType D>
  static void cholesky(const Call& call) {
    using T = CppTypeOf<D>;
    const MatrixBatch s(call.in[0].meta);
    bool* const failed = call.out[1].as<bool>();
    const int64_t all = s.count * s.size();
    const Scratch transposed(call, static_cast<size_t>(all) * sizeof(T));
    const Scratch info(call, static_cast<size_t>(s.count) * sizeof(int));
    T* const a = transposed.as<T>();
    if (all > 0) {
      Views::copy(view_matrices(s, D, call.in[0].data, false), view_matrices(s, D, a, true),
                  call.stream);
      if (is_batched(s.count, s.n)) {
        const MatrixPointers pointers(call, a, s.size() * sizeof(T), s.count);
        solver_cholesky_each(call, D, s.n, pointers.data(), s.count, info.as<int>());
      } else {
        for (int64_t k = 0; k < s.count; ++k)
          solver_cholesky(call, D, s.n, a + k * s.size(), info.as<int>() + k);
      }
    }
    find_failed<true>(call, a, s, all > 0 ? info.as<int>() : nullptr, failed);
    if (all == 0) return;
    launch(call.stream, all, copy_lower<T>, static_cast<const T*>(a), call.out[0].as<T>(), s.n,
           s.count, failed);
  }

  template <DType D>
  static void solve(const Call& call) {
    using T = CppTypeOf<D>;
    const MatrixBatch a(call.in[0].meta), b(call.in[1].meta);
    bool* const failed = call.out[1].as<bool>();
    const int64_t factors = a.count * a.size(), all = b.count * b.size();
    const Scratch memory(call, static_cast<size_t>(factors) * sizeof(T));
    T* const lu = memory.as<T>();
    if (factors > 0)
      Views::copy(view_matrices(a, D, call.in[0].data, false), view_matrices(a, D, lu, true),
                  call.stream);
    const bool needs_transpose = b.n > 1;
    const Scratch transposed(call, needs_transpose ? static_cast<size_t>(all) * sizeof(T) : 0);
    T* const x = needs_transpose ? transposed.as<T>() : call.out[0].as<T>();
    if (all > 0) {
      if (needs_transpose)
        Views::copy(view_matrices(b, D, call.in[1].data, false), view_matrices(b, D, x, true),
                    call.stream);
      else
        copy_bytes(call, x, call.in[1].data, all * sizeof(T));
    }
    if (factors > 0) solve_by_lu<D>(call, a, lu, b, x);
    find_failed<false>(call, lu, a, nullptr, failed);
    if (all == 0) return;
    if (needs_transpose)
      Views::copy(view_matrices(b, D, x, true), view_matrices(b, D, call.out[0].data, false),
                  call.stream);
    launch(call.stream, all, fill_nan<T>, call.out[0].as<T>(), b.size(), b.count, failed);
  }

  template <DType D>
  static void triangular(const Call& call) {
    using T = CppTypeOf<D>;
    const MatrixBatch s(call.in[0].meta), b(call.in[1].meta);
    const TriangularAttrs& t = call.attributes<TriangularAttrs>();
    T* const a = call.in[0].as<T>();
    T* const x = call.out[0].as<T>();
    bool* const failed = call.out[1].as<bool>();
    const int64_t all = b.count * b.size();
    const TriangularProduct product{D, !t.upper, t.transpose, t.unit_diagonal, b.n, s.n};
    if (all > 0) {
      copy_bytes(call, x, call.in[1].data, all * sizeof(T));
      if (is_batched(s.count, s.n)) {
        const MatrixPointers pointers(call, a, s.size() * sizeof(T), s.count);
        const MatrixPointers right_pointers(call, x, b.size() * sizeof(T), s.count);
        blas_solve_triangular_each(call, product, pointers.data(), right_pointers.data(), s.count);
      } else {
        for (int64_t k = 0; k < s.count; ++k)
          blas_solve_triangular(call, product, a + k * s.size(), x + k * b.size());
      }
    }
    if (t.unit_diagonal) {
      Views::fill(call.out[1], 0, call.stream);
      return;
    }
    find_failed<false>(call, a, s, nullptr, failed);
    if (all > 0) launch(call.stream, all, fill_nan<T>, x, b.size(), b.count, failed);
  }

  template <DType D>
  static void lu(const Call& call) {
    using T = CppTypeOf<D>;
    const MatrixBatch s(call.in[0].meta);
    const int64_t pivot_count = s.m < s.n ? s.m : s.n, all = s.count * s.size();
    int64_t* const order = call.out[1].as<int64_t>();
    T* const sign = call.out[2].as<T>();
    if (s.m == 0) {  // signs of 1: identity matrices of 1 x 1
      launch(call.stream, s.count, fill_identity<T>, sign, 1, s.count);
      return;
    }
    const Scratch transposed(call, static_cast<size_t>(all) * sizeof(T));
    const Scratch pivots(call, static_cast<size_t>(s.count * pivot_count) * sizeof(int64_t));
    T* const a = transposed.as<T>();
    const View columns = view_matrices(s, D, a, true);
    if (all > 0) Views::copy(view_matrices(s, D, call.in[0].data, false), columns, call.stream);
    const auto order_all = [&]<class P>(const P* exchanges) {
      launch(call.stream, s.count * s.m, order_rows<T, P>, exchanges, s.m, pivot_count, s.count,
             order, sign);
    };
    if (all > 0 && factor_lu<D>(call, s, a, pivots))
      order_all(pivots.as<const int>());
    else
      order_all(pivots.as<const int64_t>());
    if (all > 0) Views::copy(columns, view_matrices(s, D, call.out[0].data, false), call.stream);
  }
};

}  // namespace

extern constinit const KernelList linalg = linalg_kernels<Backend>();

}  // namespace locus::cuda
