#include <locus/devices/cusolver/solver.h>

#include <cusolverDn.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
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

struct Handles {
  cusolverDnHandle_t handle = nullptr;
  cusolverDnParams_t parameters = nullptr;
  // Defaults: full accuracy, sorted.
  gesvdjInfo_t svd_rotations = nullptr;
  syevjInfo_t eigen_rotations = nullptr;
};

// The handles of one device. One thread at a time uses them, and others wait for its iterations.
struct Solver {
  Mutex mutex;
  Handles handles LOCUS_GUARDED_BY(mutex);
};

// Matrices of a call for eigenvalues or singular values. cuSOLVER 12.0 fails with more than 65,535
// in XsyevBatched, and with more than 2^21 in syevjBatched.
constexpr int64_t kMaxBatch = 1 << 15;

cudaDataType_t type_of(DType d) { return d == f64 ? CUDA_R_64F : CUDA_R_32F; }

// Calls f(handles) on the call's stream.
void with_solver(const Call& call, const auto& f) {
  Solver& solver = *static_cast<Solver*>(library(call.stream, Library::solver));
  const MutexLock lock(solver.mutex);
  Handles& h = solver.handles;
  const OutsideCapture allowed;  // the first call of a kind loads its kernels
  if (!h.parameters) LOCUS_CUDA(cusolverDnCreateParams(&h.parameters));
  if (!h.svd_rotations) LOCUS_CUDA(cusolverDnCreateGesvdjInfo(&h.svd_rotations));
  if (!h.eigen_rotations) LOCUS_CUDA(cusolverDnCreateSyevjInfo(&h.eigen_rotations));
  if (!h.handle) LOCUS_CUDA(cusolverDnCreate(&h.handle));
  LOCUS_CUDA(cusolverDnSetStream(h.handle, static_cast<cudaStream_t>(call.stream.native)));
  f(std::as_const(h));
}

// Work memory on the device and on the host, of the sizes that size_of(&device, &host) writes.
class Workspace {
 public:
  Workspace(const Call& call, const auto& size_of) : Workspace(call, query(size_of)) {}
  void* device() const { return device_.data(); }
  size_t device_bytes() const { return device_bytes_; }
  void* host() { return host_.data(); }
  size_t host_bytes() const { return host_.size(); }

 private:
  struct Sizes {
    size_t device = 0, host = 0;
  };
  static Sizes query(const auto& size_of) {
    Sizes sizes;
    LOCUS_CUDA(size_of(&sizes.device, &sizes.host));
    return sizes;
  }
  Workspace(const Call& call, const Sizes& sizes)
      : device_(call, sizes.device), device_bytes_(sizes.device), host_(sizes.host) {}

  Scratch device_;
  size_t device_bytes_;
  std::vector<char> host_;
};

}  // namespace

// The handle is made at its first use: it takes half a second and memory of the device.
void* make_solver() { return new Solver; }

void solver_cholesky(const Call& call, DType d, int64_t n, void* a, int* info) {
  constexpr cublasFillMode_t kLower = CUBLAS_FILL_MODE_LOWER;
  const cudaDataType_t type = type_of(d);
  with_solver(call, [&](const Handles& h) {
    Workspace work(call, [&](size_t* device, size_t* host) {
      return cusolverDnXpotrf_bufferSize(h.handle, h.parameters, kLower, n, type, a, n, type,
                                         device, host);
    });
    LOCUS_CUDA(cusolverDnXpotrf(h.handle, h.parameters, kLower, n, type, a, n, type, work.device(),
                                work.device_bytes(), work.host(), work.host_bytes(), info));
  });
}

void solver_cholesky_each(const Call& call, DType d, int64_t n, void** pointers, int64_t count,
                          int* info) {
  with_solver(call, [&](const Handles& h) {
    const int size = static_cast<int>(n), batch = static_cast<int>(count);
    if (d == f64)
      LOCUS_CUDA(cusolverDnDpotrfBatched(h.handle, CUBLAS_FILL_MODE_LOWER, size,
                                         reinterpret_cast<double**>(pointers), size, info, batch));
    else
      LOCUS_CUDA(cusolverDnSpotrfBatched(h.handle, CUBLAS_FILL_MODE_LOWER, size,
                                         reinterpret_cast<float**>(pointers), size, info, batch));
  });
}

void solver_lu(const Call& call, DType d, int64_t m, int64_t n, void* a, int64_t* pivots,
               int* info) {
  const cudaDataType_t type = type_of(d);
  with_solver(call, [&](const Handles& h) {
    Workspace work(call, [&](size_t* device, size_t* host) {
      return cusolverDnXgetrf_bufferSize(h.handle, h.parameters, m, n, type, a, m, type, device,
                                         host);
    });
    LOCUS_CUDA(cusolverDnXgetrf(h.handle, h.parameters, m, n, type, a, m, pivots, type,
                                work.device(), work.device_bytes(), work.host(), work.host_bytes(),
                                info));
  });
}

void solver_lu_solve(const Call& call, DType d, bool transpose, int64_t n, int64_t columns,
                     const void* lu, const int64_t* pivots, void* b, int* info) {
  with_solver(call, [&](const Handles& h) {
    const cudaDataType_t type = type_of(d);
    LOCUS_CUDA(cusolverDnXgetrs(h.handle, h.parameters, transpose ? CUBLAS_OP_T : CUBLAS_OP_N, n,
                                columns, type, lu, n, pivots, type, b, n, info));
  });
}

void solver_qr(const Call& call, DType d, int64_t m, int64_t n, void* a, void* coefficients,
               int* info) {
  const cudaDataType_t type = type_of(d);
  with_solver(call, [&](const Handles& h) {
    Workspace work(call, [&](size_t* device, size_t* host) {
      return cusolverDnXgeqrf_bufferSize(h.handle, h.parameters, m, n, type, a, m, type,
                                         coefficients, type, device, host);
    });
    LOCUS_CUDA(cusolverDnXgeqrf(h.handle, h.parameters, m, n, type, a, m, type, coefficients, type,
                                work.device(), work.device_bytes(), work.host(), work.host_bytes(),
                                info));
  });
}

void solver_qr_q(const Call& call, DType d, int64_t m, int64_t columns, int64_t k, void* a,
                 const void* coefficients, int* info) {
  with_solver(call, [&](const Handles& h) {
    const int rows = static_cast<int>(m), width = static_cast<int>(columns);
    const int reflections = static_cast<int>(k);
    const auto form = [&]<class T>(T* q, const T* tau, auto size_of, auto run) {
      int size = 0;  // of the work memory, in elements
      LOCUS_CUDA(size_of(h.handle, rows, width, reflections, q, rows, tau, &size));
      const Scratch work(call, static_cast<size_t>(size) * sizeof(T));
      LOCUS_CUDA(run(h.handle, rows, width, reflections, q, rows, tau, work.as<T>(), size, info));
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
  constexpr int64_t kMaxLength = 512;        // longer matrices: one a call
  constexpr int64_t kMaxElements = 1 << 27;  // of a call: the work memory grows with them
  constexpr cudaDataType_t kType = CUDA_R_64F;
  constexpr cublasFillMode_t kLower = CUBLAS_FILL_MODE_LOWER;
  const cusolverEigMode_t mode = vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
  const int64_t batch =
      n <= kMaxLength ? std::min({count, kMaxBatch, kMaxElements / (n * n)}) : int64_t{1};
  with_solver(call, [&](const Handles& h) {
    Workspace work(call, [&](size_t* device, size_t* host) {
      return cusolverDnXsyevBatched_bufferSize(h.handle, h.parameters, mode, kLower, n, kType, a, n,
                                               kType, w, kType, device, host, batch);
    });
    for (int64_t k = 0; k < count; k += batch)
      LOCUS_CUDA(cusolverDnXsyevBatched(h.handle, h.parameters, mode, kLower, n, kType,
                                        a + k * n * n, n, kType, w + k * n, kType, work.device(),
                                        work.device_bytes(), work.host(), work.host_bytes(),
                                        info + k, std::min(batch, count - k)));
  });
}

void solver_eigen_each(const Call& call, DType d, bool vectors, int64_t n, void* a, void* w,
                       int64_t count, int* info) {
  constexpr cublasFillMode_t kLower = CUBLAS_FILL_MODE_LOWER;
  const cusolverEigMode_t mode = vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
  const int size = static_cast<int>(n), most = static_cast<int>(std::min(count, kMaxBatch));
  with_solver(call, [&](const Handles& h) {
    const auto run = [&]<class T>(T* matrices, auto work_of, auto solve) {
      T* const values = static_cast<T*>(w);
      int numbers = 0;
      LOCUS_CUDA(work_of(h.handle, mode, kLower, size, matrices, size, values, &numbers,
                         h.eigen_rotations, most));
      const Scratch work(call, static_cast<size_t>(numbers) * sizeof(T));
      for (int64_t k = 0; k < count; k += most)
        LOCUS_CUDA(solve(h.handle, mode, kLower, size, matrices + k * n * n, size, values + k * n,
                         work.as<T>(), numbers, info + k, h.eigen_rotations,
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
  const auto job = static_cast<signed char>(vectors);
  with_solver(call, [&](const Handles& h) {
    Workspace work(call, [&](size_t* device, size_t* host) {
      return cusolverDnXgesvd_bufferSize(h.handle, h.parameters, job, job, m, n, kType, a, m, kType,
                                         s, kType, u, m, kType, vh, n, kType, device, host);
    });
    LOCUS_CUDA(cusolverDnXgesvd(h.handle, h.parameters, job, job, m, n, kType, a, m, kType, s,
                                kType, u, m, kType, vh, n, kType, work.device(),
                                work.device_bytes(), work.host(), work.host_bytes(), info));
  });
}

void solver_svd_each(const Call& call, DType d, bool vectors, int64_t m, int64_t n, void* a,
                     void* s, void* u, void* v, int64_t count, int* info) {
  const cusolverEigMode_t mode = vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
  const int rows = static_cast<int>(m), columns = static_cast<int>(n);
  const int most = static_cast<int>(std::min(count, kMaxBatch));
  with_solver(call, [&](const Handles& h) {
    const auto run = [&]<class T>(T* matrices, auto work_of, auto solve) {
      T *const values = static_cast<T*>(s), *const left = static_cast<T*>(u),
               *const right = static_cast<T*>(v);
      int numbers = 0;
      LOCUS_CUDA(work_of(h.handle, mode, rows, columns, matrices, rows, values, left, rows, right,
                         columns, &numbers, h.svd_rotations, most));
      const Scratch work(call, static_cast<size_t>(numbers) * sizeof(T));
      for (int64_t k = 0; k < count; k += most)
        LOCUS_CUDA(solve(h.handle, mode, rows, columns, matrices + k * m * n, rows,
                         values + k * std::min(m, n), left + k * m * m, rows, right + k * n * n,
                         columns, work.as<T>(), numbers, info + k, h.svd_rotations,
                         static_cast<int>(std::min<int64_t>(most, count - k))));
    };
    if (d == f64)
      run(static_cast<double*>(a), cusolverDnDgesvdjBatched_bufferSize, cusolverDnDgesvdjBatched);
    else
      run(static_cast<float*>(a), cusolverDnSgesvdjBatched_bufferSize, cusolverDnSgesvdjBatched);
  });
}

}  // namespace locus::cuda
