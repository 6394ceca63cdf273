// Scratch memory and library handles of a stream. Kernel functions call these while launch() holds
// the stream's mutex.
#include <algorithm>
#include <atomic>
#include <utility>

#include <locus/devices/cuda_device.h>
#include <locus/devices/cuda_driver.h>

namespace locus::cuda {
namespace {

constexpr size_t kBlasWorkspace = size_t{32} << 20;
constexpr size_t kSmallestWorkspace = size_t{4} << 20;

std::atomic<bool> use_tf32{false};

void grow(CudaStream& s, size_t bytes) {
  const Guard guard(s.device->index());
  if (s.workspace.data) {
    LOCUS_CUDA(synchronize(s.native()));
    const Workspace old = std::exchange(s.workspace, {nullptr, 0});
    LOCUS_CUDA(free_memory(old.data));
    bytes = std::max(bytes, 2 * old.bytes);
  }
  bytes = std::max(bytes, kSmallestWorkspace);
  s.workspace = {s.device->allocate_raw(bytes), bytes};
}

Workspace own_workspace(CudaStream& s) {
  if (!s.blas_workspace.data)
    s.blas_workspace = {s.device->allocate_raw(kBlasWorkspace), kBlasWorkspace};
  return s.blas_workspace;
}

void create_blas(CudaStream& s) {
  const Guard guard(s.device->index());
  const Workspace workspace = own_workspace(s);
  cublasHandle_t handle;
  LOCUS_CUDA(cublasCreate(&handle));
  try {
    // In this order: setting the stream puts the library's own workspace back.
    LOCUS_CUDA(cublasSetStream(handle, s.native()));
    LOCUS_CUDA(cublasSetWorkspace(handle, workspace.data, workspace.bytes));
    LOCUS_CUDA(cublasSetMathMode(handle, CUBLAS_DEFAULT_MATH));
  } catch (...) {
    static_cast<void>(cublasDestroy(handle));
    throw;
  }
  s.blas = handle;
  s.blas_tf32 = false;
}

}  // namespace

void* workspace(StreamView view, size_t bytes) {
  CudaStream& s = find_stream(view);
  if (bytes > s.workspace.bytes) [[unlikely]]
    grow(s, bytes);
  return s.workspace.data;
}

cublasHandle_t blas(StreamView view) {
  CudaStream& s = find_stream(view);
  if (!s.blas) [[unlikely]]
    create_blas(s);
  if (const bool on = tf32(); on != s.blas_tf32) [[unlikely]] {
    LOCUS_CUDA(cublasSetMathMode(s.blas, on ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH));
    s.blas_tf32 = on;
  }
  return s.blas;
}

cublasLtHandle_t blas_lt(StreamView view) {
  CudaStream& s = find_stream(view);
  if (!s.blas_lt) [[unlikely]] {
    const Guard guard(s.device->index());
    LOCUS_CUDA(cublasLtCreate(&s.blas_lt));
  }
  return s.blas_lt;
}

Workspace blas_workspace(StreamView view) { return own_workspace(find_stream(view)); }

bool tf32() { return use_tf32.load(std::memory_order_relaxed); }
void set_tf32(bool on) { use_tf32.store(on, std::memory_order_relaxed); }

int multiprocessors(StreamView view) { return find_stream(view).device->multiprocessors(); }

}  // namespace locus::cuda
