// Device memory and page-locked host memory, as sources of caching pools.
#include <algorithm>

#include <locus/core/error.h>
#include <locus/devices/cpu.h>
#include <locus/devices/cuda/device.h>
#include <locus/devices/pool.h>

namespace locus::cuda {
namespace {

// nullptr on cudaErrorMemoryAllocation, which leaves the device usable.
void* or_null(cudaError_t error, const char* call, void* p) {
  if (error == cudaSuccess) return p;
  if (error != cudaErrorMemoryAllocation) failed(error, call, __FILE__, __LINE__);
  static_cast<void>(cudaGetLastError());
  return nullptr;
}

class DeviceMemory final : public MemorySource {
 public:
  explicit DeviceMemory(int index) : index_(index) {}
  void* allocate(size_t bytes) override {
    if (fork_count() > 0) throw_used_before_fork(gpu(index_));
    const Guard guard(index_);
    const OutsideCapture allowed;
    void* p = nullptr;
    const cudaError_t error = cudaMalloc(&p, bytes);
    return or_null(error, "cudaMalloc", p);
  }
  // Waits for the work queued on the device. At exit the driver may be gone already.
  void release(void* p, size_t) noexcept override { static_cast<void>(free_memory(p)); }

 private:
  int index_;
};

}  // namespace

void* pinned_memory(size_t bytes) {
  // A context must be current: gpu(0)'s only if no device is opened yet.
  const Guard guard(std::max(0, first_opened()));
  const OutsideCapture allowed;
  void* p = nullptr;
  const cudaError_t error = cudaHostAlloc(&p, bytes, cudaHostAllocPortable);
  return or_null(error, "cudaHostAlloc", p);
}

std::unique_ptr<CachingPool> make_pool(Context context) {
  return std::make_unique<CachingPool>(std::make_unique<DeviceMemory>(context.index),
                                       PoolOptions{.context = context});
}

void offer_pinned_memory() {
  set_pinned_source(&pinned_memory, [](void* p) { static_cast<void>(free_host_memory(p)); });
}

void* CudaDevice::allocate_raw(size_t bytes) {
  const Guard guard(index());
  const OutsideCapture allowed;
  void* p = nullptr;
  if (cudaMalloc(&p, bytes) == cudaSuccess) return p;
  static_cast<void>(cudaGetLastError());
  pool_->release_cached();
  LOCUS_CUDA(cudaMalloc(&p, bytes));
  return p;
}

}  // namespace locus::cuda
