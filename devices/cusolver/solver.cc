#include <locus/devices/cusolver/solver.h>

#include <cusolverDn.h>

#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <locus/core/base/mutex.h>
#include <locus/core/scratch.h>
#include <locus/devices/cuda/check.h>
#include <locus/devices/cuda/driver.h>
#include <locus/devices/cuda/library.h>

namespace locus::cuda {

[[noreturn]] void failed(cusolverStatus_t status, const char* call, const char* file, int line) {
  failed(status == CUSOLVER_STATUS_ALLOC_FAILED,
         ("cuSOLVER's status " + std::to_string(static_cast<int>(status))).c_str(), call, file,
         line);
}

namespace {

// The handle of one device. One thread at a time uses it, and others wait for its iterations.
struct Solver {
  Mutex mutex;
  cusolverDnHandle_t handle LOCUS_GUARDED_BY(mutex) = nullptr;
  cusolverDnParams_t parameters LOCUS_GUARDED_BY(mutex) = nullptr;
  // Defaults: full accuracy, sorted.
  gesvdjInfo_t svd_rotations LOCUS_GUARDED_BY(mutex) = nullptr;
  syevjInfo_t eigen_rotations LOCUS_GUARDED_BY(mutex) = nullptr;
};

// Matrices of a call. cuSOLVER 12.0 fails with more than 65,535 in some functions.
constexpr int64_t kMaxBatch = 1 << 15;

cudaDataType_t type_of(DType d) { return d == f64 ? CUDA_R_64F : CUDA_R_32F; }

// Calls f(handle, parameters) on the call's stream. The type of f's second argument selects general
// parameters, or those of rotations.
void with_solver(const Call& call, const auto& f) {
  Solver& solver = *static_cast<Solver*>(library(call.stream, Library::solver));
  const MutexLock lock(solver.mutex);
  const OutsideCapture allowed;  // the first call of a kind loads its kernels
  if (!solver.parameters) LOCUS_CUDA(cusolverDnCreateParams(&solver.parameters));
  if (!solver.svd_rotations) LOCUS_CUDA(cusolverDnCreateGesvdjInfo(&solver.svd_rotations));
  if (!solver.eigen_rotations) LOCUS_CUDA(cusolverDnCreateSyevjInfo(&solver.eigen_rotations));
  if (!solver.handle) LOCUS_CUDA(cusolverDnCreate(&solver.handle));
  LOCUS_CUDA(cusolverDnSetStream(solver.handle, static_cast<cudaStream_t>(call.stream.native)));
  if constexpr (std::is_invocable_v<decltype(f), cusolverDnHandle_t, gesvdjInfo_t>)
    f(solver.handle, solver.svd_rotations);
  else if constexpr (std::is_invocable_v<decltype(f), cusolverDnHandle_t, syevjInfo_t>)
    f(solver.handle, solver.eigen_rotations);
  else
    f(solver.handle, solver.parameters);
}

}  // namespace

// The handle is made at its first use: it takes half a second and memory of the device.
void* make_solver() { return new Solver; }

void solver_cholesky(const Call& call, DType d, int64_t n, void* a, int* info) {
  with_solver(call, [&](cusolverDnHandle_t handle, cusolverDnParams_t parameters) {
    const cudaDataType_t type = type_of(d);
    size_t on_device = 0, on_host = 0;
    LOCUS_CUDA(cusolverDnXpotrf_bufferSize(handle, parameters, CUBLAS_FILL_MODE_LOWER, n, type, a,
                                           n, type, &on_device, &on_host));
    const Scratch work(call, on_device);
    std::vector<char> host(on_host);
    LOCUS_CUDA(cusolverDnXpotrf(handle, parameters, CUBLAS_FILL_MODE_LOWER, n, type, a, n, type,
                                work.data(), on_device, host.data(), on_host, info));
  });
}

void solver_cholesky_each(const Call& call, DType d, int64_t n, void** pointers, int64_t count,
                          int* info) {
  with_solver(call, [&](cusolverDnHandle_t handle, cusolverDnParams_t) {
    const int size = static_cast<int>(n), batch = static_cast<int>(count);
    if (d == f64)
      LOCUS_CUDA(cusolverDnDpotrfBatched(handle, CUBLAS_FILL_MODE_LOWER, size,
                                         reinterpret_cast<double**>(pointers), size, info, batch));
    else
      LOCUS_CUDA(cusolverDnSpotrfBatched(handle, CUBLAS_FILL_MODE_LOWER, size,
                                         reinterpret_cast<float**>(pointers), size, info, batch));
  });
}

void solver_lu(const Call& call, DType d, int64_t m, int64_t n, void* a, int64_t* pivots,
               int* info) {
  with_solver(call, [&](cusolverDnHandle_t handle, cusolverDnParams_t parameters) {
    const cudaDataType_t type = type_of(d);
    size_t on_device = 0, on_host = 0;
    LOCUS_CUDA(cusolverDnXgetrf_bufferSize(handle, parameters, m, n, type, a, m, type, &on_device,
                                           &on_host));
    const Scratch work(call, on_device);
    std::vector<char> host(on_host);
    LOCUS_CUDA(cusolverDnXgetrf(handle, parameters, m, n, type, a, m, pivots, type, work.data(),
                                on_device, host.data(), on_host, info));
  });
}

void solver_lu_solve(const Call& call, DType d, bool transpose, int64_t n, int64_t columns,
                     const void* lu, const int64_t* pivots, void* b, int* info) {
  with_solver(call, [&](cusolverDnHandle_t handle, cusolverDnParams_t parameters) {
    const cudaDataType_t type = type_of(d);
    LOCUS_CUDA(cusolverDnXgetrs(handle, parameters, transpose ? CUBLAS_OP_T : CUBLAS_OP_N, n,
                                columns, type, lu, n, pivots, type, b, n, info));
  });
}

void solver_qr(const Call& call, DType d, int64_t m, int64_t n, void* a, void* coefficients,
               int* info) {
  with_solver(call, [&](cusolverDnHandle_t handle, cusolverDnParams_t parameters) {
    const cudaDataType_t type = type_of(d);
    size_t on_device = 0, on_host = 0;
    LOCUS_CUDA(cusolverDnXgeqrf_bufferSize(handle, parameters, m, n, type, a, m, type, coefficients,
                                           type, &on_device, &on_host));
    const Scratch work(call, on_device);
    std::vector<char> host(on_host);
    LOCUS_CUDA(cusolverDnXgeqrf(handle, parameters, m, n, type, a, m, type, coefficients, type,
                                work.data(), on_device, host.data(), on_host, info));
  });
}

void solver_qr_q(const Call& call, DType d, int64_t m, int64_t columns, int64_t k, void* a,
                 const void* coefficients, int* info) {
  with_solver(call, [&](cusolverDnHandle_t handle, cusolverDnParams_t) {
    const int rows = static_cast<int>(m), width = static_cast<int>(columns);
    const int reflections = static_cast<int>(k);
    const auto form = [&]<class T>(T* q, const T* tau, auto size_of, auto run) {
      int size = 0;  // of the work memory, in elements
      LOCUS_CUDA(size_of(handle, rows, width, reflections, q, rows, tau, &size));
      const Scratch work(call, static_cast<size_t>(size) * sizeof(T));
      LOCUS_CUDA(run(handle, rows, width, reflections, q, rows, tau, work.as<T>(), size, info));
    };
    if (d == f64)
      form(static_cast<double*>(a), static_cast<const double*>(coefficients),
           cusolverDnDorgqr_bufferSize, cusolverDnDorgqr);
    else
      form(static_cast<float*>(a), static_cast<const float*>(coefficients),
           cusolverDnSorgqr_bufferSize, cusolverDnSorgqr);
  });
}

void solver_eigen(const Call& call, bool vectors, int64_t n, double* a, double* w, int64_t count,
                  int* info) {
  constexpr int64_t kMaxBatchedLength = 512;  // longer matrices: one a call
  constexpr int64_t kMaxElements = 1 << 27;   // of a call: the work memory grows with them
  constexpr cudaDataType_t kType = CUDA_R_64F;
  constexpr cublasFillMode_t kLower = CUBLAS_FILL_MODE_LOWER;
  const cusolverEigMode_t mode = vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
  const int64_t most = std::min({count, kMaxBatch, kMaxElements / (n * n)});
  const int64_t batch = n <= kMaxBatchedLength ? most : 1;
  with_solver(call, [&](cusolverDnHandle_t handle, cusolverDnParams_t parameters) {
    size_t on_device = 0, on_host = 0;
    LOCUS_CUDA(cusolverDnXsyevBatched_bufferSize(handle, parameters, mode, kLower, n, kType, a, n,
                                                 kType, w, kType, &on_device, &on_host, batch));
    const Scratch work(call, on_device);
    std::vector<char> host(on_host);
    for (int64_t k = 0; k < count; k += batch)
      LOCUS_CUDA(cusolverDnXsyevBatched(
          handle, parameters, mode, kLower, n, kType, a + k * n * n, n, kType, w + k * n, kType,
          work.data(), on_device, host.data(), on_host, info + k, std::min(batch, count - k)));
  });
}

void solver_eigen_each(const Call& call, DType d, bool vectors, int64_t n, void* a, void* w,
                       int64_t count, int* info) {
  constexpr cublasFillMode_t kLower = CUBLAS_FILL_MODE_LOWER;
  const cusolverEigMode_t mode = vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
  const int size = static_cast<int>(n), most = static_cast<int>(std::min(count, kMaxBatch));
  with_solver(call, [&](cusolverDnHandle_t handle, syevjInfo_t rotations) {
    const auto run = [&]<class T>(T* matrices, auto work_of, auto solve) {
      T* const values = static_cast<T*>(w);
      int numbers = 0;
      LOCUS_CUDA(
          work_of(handle, mode, kLower, size, matrices, size, values, &numbers, rotations, most));
      const Scratch work(call, static_cast<size_t>(numbers) * sizeof(T));
      for (int64_t k = 0; k < count; k += most)
        LOCUS_CUDA(solve(handle, mode, kLower, size, matrices + k * n * n, size, values + k * n,
                         work.as<T>(), numbers, info + k, rotations,
                         static_cast<int>(std::min<int64_t>(most, count - k))));
    };
    if (d == f64)
      run(static_cast<double*>(a), cusolverDnDsyevjBatched_bufferSize, cusolverDnDsyevjBatched);
    else
      run(static_cast<float*>(a), cusolverDnSsyevjBatched_bufferSize, cusolverDnSsyevjBatched);
  });
}

void solver_svd(const Call& call, char vectors, int64_t m, int64_t n, double* a, double* s,
                double* u, double* vh, int* info) {
  constexpr cudaDataType_t kType = CUDA_R_64F;
  with_solver(call, [&](cusolverDnHandle_t handle, cusolverDnParams_t parameters) {
    const auto job = static_cast<signed char>(vectors);
    size_t on_device = 0, on_host = 0;
    LOCUS_CUDA(cusolverDnXgesvd_bufferSize(handle, parameters, job, job, m, n, kType, a, m, kType,
                                           s, kType, u, m, kType, vh, n, kType, &on_device,
                                           &on_host));
    const Scratch work(call, on_device);
    std::vector<char> host(on_host);
    LOCUS_CUDA(cusolverDnXgesvd(handle, parameters, job, job, m, n, kType, a, m, kType, s, kType, u,
                                m, kType, vh, n, kType, work.data(), on_device, host.data(),
                                on_host, info));
  });
}

void solver_svd_each(const Call& call, DType d, bool vectors, int64_t m, int64_t n, void* a,
                     void* s, void* u, void* v, int64_t count, int* info) {
  const cusolverEigMode_t mode = vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
  const int rows = static_cast<int>(m), columns = static_cast<int>(n);
  const int most = static_cast<int>(std::min(count, kMaxBatch));
  with_solver(call, [&](cusolverDnHandle_t handle, gesvdjInfo_t rotations) {
    const auto run = [&]<class T>(T* matrices, auto work_of, auto solve) {
      T *const values = static_cast<T*>(s), *const left = static_cast<T*>(u),
               *const right = static_cast<T*>(v);
      int numbers = 0;
      LOCUS_CUDA(work_of(handle, mode, rows, columns, matrices, rows, values, left, rows, right,
                         columns, &numbers, rotations, most));
      const Scratch work(call, static_cast<size_t>(numbers) * sizeof(T));
      for (int64_t k = 0; k < count; k += most)
        LOCUS_CUDA(solve(handle, mode, rows, columns, matrices + k * m * n, rows,
                         values + k * std::min(m, n), left + k * m * m, rows, right + k * n * n,
                         columns, work.as<T>(), numbers, info + k, rotations,
                         static_cast<int>(std::min<int64_t>(most, count - k))));
    };
    if (d == f64)
      run(static_cast<double*>(a), cusolverDnDgesvdjBatched_bufferSize, cusolverDnDgesvdjBatched);
    else
      run(static_cast<float*>(a), cusolverDnSgesvdjBatched_bufferSize, cusolverDnSgesvdjBatched);
  });
}

}  // namespace locus::cuda
