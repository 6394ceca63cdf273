// A matrix that fits into shared memory is decomposed by one block. Other matrices are copied to
// column-major memory, and cuSOLVER factors one after the other.
#include <limits>

#include <locus/core/scratch.h>
#include <locus/devices/cuda/check.h>
#include <locus/devices/cusolver/solver.h>
#include <locus/ops/kernel/copy.h>
#include <locus/ops/linalg/matrices_gpu.h>
#include <locus/ops/linalg/qr_gpu.h>

namespace locus::cuda {
namespace {

constexpr int64_t kSharedBytes = 48 << 10;  // on every device, without cudaFuncSetAttribute
constexpr unsigned kAllLanes = 0xffffffff;

template <class T>
__device__ __forceinline__ T make_nan() {
  return std::numeric_limits<T>::quiet_NaN();
}

// All lanes get the same bits.
template <class T>
__device__ __forceinline__ T sum_lanes(T x) {
  for (int other = 16; other > 0; other /= 2) x += __shfl_xor_sync(kAllLanes, x, other);
  return x;
}
template <class T>
__device__ __forceinline__ T max_lanes(T x) {
  for (int other = 16; other > 0; other /= 2) {
    const T y = __shfl_xor_sync(kAllLanes, x, other);
    x = y > x ? y : x;
  }
  return x;
}

// --- A block for each matrix ---

// A matrix in shared memory, by columns. A column of an odd length has its rows in other banks.
template <class T>
struct SharedMatrix {
  T* data;
  int m, ld;

  __device__ T& operator()(int i, int j) const { return data[j * ld + i]; }
};

int64_t shared_bytes(const QrSizes& s, int64_t element) {
  return ((s.m | 1) * s.width() + s.n + s.reflections +
          (s.reflections > s.columns ? s.reflections : s.columns)) *
         element;
}

// Divides columns by their scales. Whether all of this thread's elements are finite.
template <class T>
__device__ bool scale_columns(const SharedMatrix<T>& a, int n, T* scales, int warp, int warps,
                              int lane) {
  bool finite = true;
  for (int j = warp; j < n; j += warps) {
    T largest = 0;
    for (int i = lane; i < a.m; i += 32) {
      const T x = a(i, j) < 0 ? -a(i, j) : a(i, j);
      finite = finite && x <= std::numeric_limits<T>::max();
      largest = x > largest ? x : largest;
    }
    const T scale = column_scale(max_lanes(largest)), inverse = 1 / scale;
    for (int i = lane; i < a.m; i += 32) a(i, j) *= inverse;
    if (lane == 0) scales[j] = scale;
  }
  return finite;
}

// Makes the reflection of column j: its coefficient, and its vector below the diagonal. One warp.
template <class T>
__device__ void make_reflection(const SharedMatrix<T>& a, int j, T* coefficients, int lane) {
  T sum = 0;
  for (int i = j + 1 + lane; i < a.m; i += 32) sum += a(i, j) * a(i, j);
  sum = sum_lanes(sum);
  const T alpha = a(j, j);
  T beta = alpha, coefficient = 0;
  __syncwarp();
  if (sum > std::numeric_limits<T>::min()) {
    const T length = sqrt(alpha * alpha + sum);
    beta = alpha < 0 ? length : -length;
    coefficient = (beta - alpha) / beta;
    const T below = alpha - beta;
    for (int i = j + 1 + lane; i < a.m; i += 32) a(i, j) /= below;
  }
  if (lane == 0) {
    a(j, j) = beta;
    coefficients[j] = coefficient;
  }
}

// Applies the reflection of column j to columns j + 1 to n - 1.
template <class T>
__device__ void reflect(const SharedMatrix<T>& a, int j, int n, T coefficient, int warp, int warps,
                        int lane) {
  for (int c = j + 1 + warp; c < n; c += warps) {
    T sum = lane == 0 ? a(j, c) : T{0};
    for (int i = j + 1 + lane; i < a.m; i += 32) sum += a(i, j) * a(i, c);
    sum = sum_lanes(sum) * coefficient;
    if (lane == 0) a(j, c) -= sum;
    for (int i = j + 1 + lane; i < a.m; i += 32) a(i, c) -= sum * a(i, j);
  }
}

template <class T>
__global__ void decompose_each(const T* from, T* q, T* r, QrSizes s) {
  extern __shared__ double shared[];
  const int m = static_cast<int>(s.m), n = static_cast<int>(s.n),
            reflections = static_cast<int>(s.reflections);
  const int columns = static_cast<int>(s.columns), rows = static_cast<int>(s.rows);
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int lane = thread % 32, warp = thread / 32, warps = threads / 32;
  const SharedMatrix<T> a{reinterpret_cast<T*>(shared), m, m | 1};
  T* const scales = a.data + a.ld * s.width();
  T* const coefficients = scales + n;
  T* const signs = coefficients + reflections;
  const int64_t matrix = blockIdx.x;
  from += matrix * m * n;
  q += matrix * m * columns;
  r += matrix * rows * n;

  for (int i = thread; i < m * n; i += threads) a(i / n, i % n) = from[i];
  __syncthreads();
  const bool finite = __syncthreads_and(scale_columns(a, n, scales, warp, warps, lane));
  for (int j = 0; j < reflections; ++j) {
    if (warp == 0) make_reflection(a, j, coefficients, lane);
    __syncthreads();
    reflect(a, j, n, coefficients[j], warp, warps, lane);
    __syncthreads();
  }
  const int sign_count = reflections > columns ? reflections : columns;
  for (int i = thread; i < sign_count; i += threads)
    signs[i] = !finite ? make_nan<T>() : i < reflections && a(i, i) < 0 ? T{-1} : T{1};
  __syncthreads();
  for (int at = thread; at < rows * n; at += threads) {
    const int i = at / n, j = at % n;
    r[at] = j < i ? T{0} : signs[i] * a(i, j) * scales[j];
  }
  if (columns == 0) return;
  __syncthreads();
  // The product of the reflections, in their place. It starts with the last reflection, which
  // changes the last rows only.
  for (int at = thread; at < m * (columns - reflections); at += threads) {
    const int i = at % m, j = reflections + at / m;
    a(i, j) = i == j ? T{1} : T{0};
  }
  __syncthreads();
  for (int j = reflections - 1; j >= 0; --j) {
    const T coefficient = coefficients[j];
    reflect(a, j, columns, coefficient, warp, warps, lane);
    __syncthreads();
    for (int i = thread; i < m; i += threads)
      a(i, j) = i < j ? T{0} : i == j ? 1 - coefficient : -coefficient * a(i, j);
    __syncthreads();
  }
  for (int at = thread; at < m * columns; at += threads) {
    const int i = at / columns, j = at % columns;
    q[at] = signs[j] * a(i, j);
  }
}

// --- By cuSOLVER ---

// Divides columns by their scales, one block per column. A column that is not finite becomes 0,
// with scale NaN.
template <class T>
__global__ void normalize_columns(T* a, int64_t m, T* scales) {
  __shared__ T of_warps[kBlock / 32];
  T* const column = a + blockIdx.x * m;
  const int thread = static_cast<int>(threadIdx.x);
  T largest = 0;
  bool finite = true;
  for (int64_t i = thread; i < m; i += kBlock) {
    const T x = column[i] < 0 ? -column[i] : column[i];
    finite = finite && x <= std::numeric_limits<T>::max();
    largest = x > largest ? x : largest;
  }
  largest = max_lanes(largest);
  if (thread % 32 == 0) of_warps[thread / 32] = largest;
  finite = __syncthreads_and(finite);
  for (const T x : of_warps) largest = x > largest ? x : largest;
  const T scale = column_scale(largest), inverse = 1 / scale;
  for (int64_t i = thread; i < m; i += kBlock) column[i] = finite ? column[i] * inverse : T{0};
  if (thread == 0) scales[blockIdx.x] = finite ? scale : make_nan<T>();
}

// The signs of the columns of q: those of the diagonal, NaN if a scale is NaN. One block.
template <class T>
__global__ void find_diagonal_signs(const T* a, int64_t m, int64_t n, int64_t reflections,
                                    const T* scales, int64_t count, T* signs) {
  bool finite = true;
  for (int64_t j = threadIdx.x; j < n; j += kBlock) finite = finite && scales[j] == scales[j];
  finite = __syncthreads_and(finite);
  for (int64_t i = threadIdx.x; i < count; i += kBlock)
    signs[i] = !finite ? make_nan<T>() : i < reflections && a[i * m + i] < 0 ? T{-1} : T{1};
}

// r from the factors, whose columns are read in order.
template <class T>
__global__ void write_r(const T* a, int64_t m, int64_t n, int64_t rows, const T* scales,
                        const T* signs, T* r) {
  for (int64_t at = first_thread(); at < rows * n; at += all_threads()) {
    const int64_t i = at % rows, j = at / rows;
    r[i * n + j] = j < i ? T{0} : signs[i] * a[j * m + i] * scales[j];
  }
}

template <class T>
__global__ void multiply_columns(T* q, int64_t m, int64_t columns, const T* signs) {
  for (int64_t at = first_thread(); at < m * columns; at += all_threads()) q[at] *= signs[at / m];
}

template <class T>
void decompose_one(const Call& call, DType d, const T* from, T* q, T* r, const QrSizes& s, T* a,
                   T* scales, int* info) {
  T* const coefficients = scales + s.n;
  T* const signs = coefficients + s.reflections;
  Views::copy(view_matrices({1, s.m, s.n}, d, from, false),
              view_matrices({1, s.m, s.n}, d, a, true), call.stream);
  normalize_columns<T>
      <<<static_cast<unsigned>(s.n), kBlock, 0, native(call.stream)>>>(a, s.m, scales);
  solver_qr(call, d, s.m, s.n, a, coefficients, info);
  const int64_t sign_count = s.reflections > s.columns ? s.reflections : s.columns;
  find_diagonal_signs<T><<<1, kBlock, 0, native(call.stream)>>>(a, s.m, s.n, s.reflections, scales,
                                                                sign_count, signs);
  launch(call.stream, s.rows * s.n, write_r<T>, a, s.m, s.n, s.rows, scales, signs, r);
  if (s.columns == 0) return;
  solver_qr_q(call, d, s.m, s.columns, s.reflections, a, coefficients, info);
  launch(call.stream, s.m * s.columns, multiply_columns<T>, a, s.m, s.columns, signs);
  Views::copy(view_matrices({1, s.m, s.columns}, d, a, true),
              view_matrices({1, s.m, s.columns}, d, q, false), call.stream);
}

// For one larger matrix cuSOLVER is faster: it uses all multiprocessors.
int64_t max_shared_bytes(const Call& call, const QrSizes& s) {
  if (s.count == 1) return kSharedBytes;
  int max_bytes = 0;
  LOCUS_CUDA(cudaDeviceGetAttribute(&max_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                    call.stream.context.index));
  return max_bytes;
}

}  // namespace

template <class T>
void decompose_qr(const Call& call, DType d, const QrSizes& s, const T* a, T* q, T* r) {
  if (s.n == 0) {
    if (s.columns > 0) launch(call.stream, s.count * s.m * s.m, fill_identity<T>, q, s.m, s.count);
    return;
  }
  const int64_t shared = shared_bytes(s, sizeof(T)), max_bytes = max_shared_bytes(call, s);
  if (shared <= max_bytes) {
    // The same limit each time, so no launch lowers it.
    if (shared > kSharedBytes)
      LOCUS_CUDA(cudaFuncSetAttribute(decompose_each<T>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(max_bytes)));
    const int64_t warps = s.width() / 8;  // columns per warp
    const unsigned threads = 32 * static_cast<unsigned>(warps < 1 ? 1 : warps > 16 ? 16 : warps);
    decompose_each<T><<<static_cast<unsigned>(s.count), threads, static_cast<size_t>(shared),
                        native(call.stream)>>>(a, q, r, s);
    return;
  }
  const Scratch factor(call, static_cast<size_t>(s.m * s.width()) * sizeof(T));
  const int64_t vectors =
      s.n + s.reflections + (s.reflections > s.columns ? s.reflections : s.columns);
  const Scratch numbers(call, static_cast<size_t>(vectors) * sizeof(T));
  const Scratch info(call, sizeof(int));
  for (int64_t k = 0; k < s.count; ++k)
    decompose_one(call, d, a + k * s.m * s.n, q + k * s.m * s.columns, r + k * s.rows * s.n, s,
                  factor.as<T>(), numbers.as<T>(), info.as<int>());
}

template void decompose_qr(const Call&, DType, const QrSizes&, const float*, float*, float*);
template void decompose_qr(const Call&, DType, const QrSizes&, const double*, double*, double*);

namespace {

struct Backend {
  template <DType D>
  static void qr(const Call& call) {
    using T = CppTypeOf<D>;
    const QrSizes s(MatrixBatch(call.in[0].meta), call.attributes<QrAttrs>().complete, true);
    decompose_qr(call, D, s, call.in[0].as<const T>(), call.out[0].as<T>(), call.out[1].as<T>());
  }
  template <DType D>
  static void qr_r(const Call& call) {
    using T = CppTypeOf<D>;
    const QrSizes s(MatrixBatch(call.in[0].meta), false, false);
    decompose_qr<T>(call, D, s, call.in[0].as<const T>(), nullptr, call.out[0].as<T>());
  }
};

}  // namespace

extern constinit const KernelList qr = qr_kernels<Backend>();

}  // namespace locus::cuda
