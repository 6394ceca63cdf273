// The current device, kept as it was. cudaSetDevice would do, but for one thing: to restore a
// device it creates that device's context, some hundred MB on a GPU that the program never asked
// for. The driver's stack of contexts has no such side effect.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <atomic>
#include <string>

#include <locus/core/error.h>
#include <locus/devices/cuda_device.h>

namespace locus::cuda {
namespace {

// Found at run time: a binary that links the driver would not start on a machine without one.
template <class F>
F entry_point(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult state;
  LOCUS_CUDA(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &state));
  LOCUS_CHECK(state == cudaDriverEntryPointSuccess,
              std::string("the CUDA driver has no ") + name + "; expected driver 525 or newer");
  return reinterpret_cast<F>(found);
}

struct Driver {
  PFN_cuCtxGetCurrent_v4000 get = entry_point<PFN_cuCtxGetCurrent_v4000>("cuCtxGetCurrent");
  PFN_cuCtxPushCurrent_v4000 push = entry_point<PFN_cuCtxPushCurrent_v4000>("cuCtxPushCurrent");
  PFN_cuCtxPopCurrent_v4000 pop = entry_point<PFN_cuCtxPopCurrent_v4000>("cuCtxPopCurrent");
  PFN_cuDevicePrimaryCtxRetain_v7000 retain =
      entry_point<PFN_cuDevicePrimaryCtxRetain_v7000>("cuDevicePrimaryCtxRetain");
};
const Driver& driver() {
  static const Driver d;
  return d;
}

void check(CUresult result, const char* call, int device) {
  if (result == CUDA_SUCCESS) [[likely]]
    return;
  throw DeviceError(to_string(gpu(device)) + ": " + call + " failed with the driver's error " +
                    std::to_string(static_cast<int>(result)));
}

// The context that the runtime uses on a device; created at first use, kept for good.
CUcontext primary(int device) {
  static std::atomic<CUcontext> known[64];
  std::atomic<CUcontext>& slot = known[device];
  CUcontext c = slot.load(std::memory_order_acquire);
  if (c) [[likely]]
    return c;
  check(driver().retain(&c, device), "cuDevicePrimaryCtxRetain", device);
  slot.store(c, std::memory_order_release);
  return c;
}

}  // namespace

void Guard::enter(int device) {
  const CUcontext wanted = primary(device);
  CUcontext current = nullptr;
  check(driver().get(&current), "cuCtxGetCurrent", device);
  if (current == wanted) return;
  check(driver().push(wanted), "cuCtxPushCurrent", device);
  entered_ = true;
}

void Guard::leave() {
  CUcontext ignored;
  static_cast<void>(driver().pop(&ignored));
}

}  // namespace locus::cuda
