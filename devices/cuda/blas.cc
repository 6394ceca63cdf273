#include <locus/devices/cuda/blas.h>

#include <cublas_v2.h>

#include <memory>

#include <locus/core/base/mutex.h>
#include <locus/core/scratch.h>
#include <locus/devices/cuda/check.h>
#include <locus/devices/cuda/driver.h>
#include <locus/devices/cuda/library.h>

namespace locus::cuda {

[[noreturn]] void failed(cublasStatus_t status, const char* call, const char* file, int line) {
  failed(status == CUBLAS_STATUS_ALLOC_FAILED, cublasGetStatusString(status), call, file, line);
}

namespace {

constexpr size_t kWorkspace = size_t{32} << 20;

// The handle of one device. Calls only enqueue, so threads share it in turns: one handle per stream
// would hold 64 MiB of device memory each.
struct Blas {
  Mutex mutex;
  cublasHandle_t handle LOCUS_GUARDED_BY(mutex) = nullptr;
};

cudaDataType_t blas_type(DType d) {
  return d == f64 ? CUDA_R_64F : d == f16 ? CUDA_R_16F : d == bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

}  // namespace

void* make_blas() {
  auto blas = std::make_unique<Blas>();
  {
    const MutexLock lock(blas->mutex);
    LOCUS_CUDA(cublasCreate(&blas->handle));
    // Partial sums of 16-bit products are added in f32.
    LOCUS_CUDA(cublasSetMathMode(
        blas->handle, static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH |
                                                CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
  }
  return blas.release();
}

void blas_product(const Call& call, DType in, int64_t m, int64_t n, int64_t k, Matrix a, Matrix b,
                  void* c, int64_t count, const BlasOptions& options) {
  const auto op = [](const Matrix& x) { return x.column_major ? CUBLAS_OP_T : CUBLAS_OP_N; };
  const cudaDataType_t type = blas_type(in), result = blas_type(options.out);
  const cublasComputeType_t compute = in == f64                   ? CUBLAS_COMPUTE_64F
                                      : in == f32 && options.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                  : CUBLAS_COMPUTE_32F;
  const float one = 1, old = options.accumulate ? 1 : 0;
  const double one64 = 1, old64 = old;
  const void* alpha = in == f64 ? static_cast<const void*>(&one64) : &one;
  const void* beta = in == f64 ? static_cast<const void*>(&old64) : &old;
  const Scratch workspace(call, kWorkspace);
  Blas& blas = *static_cast<Blas*>(library(call.stream, Library::blas));
  const MutexLock lock(blas.mutex);
  const cublasHandle_t handle = blas.handle;
  const OutsideCapture allowed;  // a product of a new kind loads its kernels
  LOCUS_CUDA(cublasSetStream(handle, static_cast<cudaStream_t>(call.stream.native)));
  LOCUS_CUDA(cublasSetWorkspace(handle, workspace.data(), kWorkspace));
  // Row-major c is column-major c', which is b' · a'.
  if (count == 1)
    LOCUS_CUDA(cublasGemmEx_64(handle, op(b), op(a), n, m, k, alpha, b.data, type, b.ld, a.data,
                               type, a.ld, beta, c, result, n, compute, CUBLAS_GEMM_DEFAULT));
  else
    LOCUS_CUDA(cublasGemmStridedBatchedEx_64(
        handle, op(b), op(a), n, m, k, alpha, b.data, type, b.ld, b.batch, a.data, type, a.ld,
        a.batch, beta, c, result, n, m * n, count, compute, CUBLAS_GEMM_DEFAULT));
}

namespace {

// Calls f(handle) on the call's stream, with a workspace.
void with_blas(const Call& call, const auto& f) {
  const Scratch workspace(call, kWorkspace);
  Blas& blas = *static_cast<Blas*>(library(call.stream, Library::blas));
  const MutexLock lock(blas.mutex);
  const OutsideCapture allowed;
  LOCUS_CUDA(cublasSetStream(blas.handle, static_cast<cudaStream_t>(call.stream.native)));
  LOCUS_CUDA(cublasSetWorkspace(blas.handle, workspace.data(), kWorkspace));
  f(blas.handle);
}

constexpr float kOne = 1;
constexpr double kOne64 = 1;

struct TriangularFlags {
  cublasFillMode_t half;
  cublasOperation_t op;
  cublasDiagType_t unit;
};
TriangularFlags flags_of(const TriangularProduct& p) {
  return {p.upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER,
          p.transpose ? CUBLAS_OP_T : CUBLAS_OP_N,
          p.unit_diagonal ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT};
}

}  // namespace

void blas_solve_triangular(const Call& call, const TriangularProduct& p, const void* a, void* b) {
  with_blas(call, [&](cublasHandle_t handle) {
    const auto [half, op, unit] = flags_of(p);
    if (p.dtype == f64)
      LOCUS_CUDA(cublasDtrsm_64(handle, CUBLAS_SIDE_RIGHT, half, op, unit, p.m, p.n, &kOne64,
                                static_cast<const double*>(a), p.n, static_cast<double*>(b), p.m));
    else
      LOCUS_CUDA(cublasStrsm_64(handle, CUBLAS_SIDE_RIGHT, half, op, unit, p.m, p.n, &kOne,
                                static_cast<const float*>(a), p.n, static_cast<float*>(b), p.m));
  });
}

void blas_solve_triangular_each(const Call& call, const TriangularProduct& p, void** a, void** b,
                                int64_t count) {
  with_blas(call, [&](cublasHandle_t handle) {
    const auto [half, op, unit] = flags_of(p);
    if (p.dtype == f64)
      LOCUS_CUDA(cublasDtrsmBatched_64(handle, CUBLAS_SIDE_RIGHT, half, op, unit, p.m, p.n, &kOne64,
                                       const_cast<const double**>(reinterpret_cast<double**>(a)),
                                       p.n, reinterpret_cast<double**>(b), p.m, count));
    else
      LOCUS_CUDA(cublasStrsmBatched_64(handle, CUBLAS_SIDE_RIGHT, half, op, unit, p.m, p.n, &kOne,
                                       const_cast<const float**>(reinterpret_cast<float**>(a)), p.n,
                                       reinterpret_cast<float**>(b), p.m, count));
  });
}

void blas_lu_each(const Call& call, DType d, int64_t n, void** a, int64_t count, int* pivots,
                  int* info) {
  with_blas(call, [&](cublasHandle_t handle) {
    const int size = static_cast<int>(n), many = static_cast<int>(count);
    if (d == f64)
      LOCUS_CUDA(cublasDgetrfBatched(handle, size, reinterpret_cast<double**>(a), size, pivots,
                                     info, many));
    else
      LOCUS_CUDA(cublasSgetrfBatched(handle, size, reinterpret_cast<float**>(a), size, pivots, info,
                                     many));
  });
}

void blas_lu_solve_each(const Call& call, DType d, bool transpose, int64_t n, int64_t columns,
                        void** lu, const int* pivots, void** b, int64_t count) {
  with_blas(call, [&](cublasHandle_t handle) {
    const int size = static_cast<int>(n), many = static_cast<int>(count);
    const int right = static_cast<int>(columns);
    const cublasOperation_t op = transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
    int on_host = 0;  // whether an argument is wrong
    if (d == f64)
      LOCUS_CUDA(cublasDgetrsBatched(
          handle, op, size, right, const_cast<const double**>(reinterpret_cast<double**>(lu)), size,
          pivots, reinterpret_cast<double**>(b), size, &on_host, many));
    else
      LOCUS_CUDA(cublasSgetrsBatched(handle, op, size, right,
                                     const_cast<const float**>(reinterpret_cast<float**>(lu)), size,
                                     pivots, reinterpret_cast<float**>(b), size, &on_host, many));
  });
}

}  // namespace locus::cuda
