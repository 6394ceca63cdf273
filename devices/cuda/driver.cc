#include <locus/devices/cuda/driver.h>

#include <atomic>
#include <string>

#include <locus/core/context.h>
#include <locus/core/error.h>
#include <locus/devices/host/fork.h>

namespace locus::cuda {
namespace {

void find(auto& f, const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult state;
  LOCUS_CUDA(cudaGetDriverEntryPointByVersion(name, &found, 12040, cudaEnableDefault, &state));
  LOCUS_CHECK(state == cudaDriverEntryPointSuccess, "the CUDA driver has no ", name,
              "; expected driver 550 or newer");
  f = reinterpret_cast<std::remove_reference_t<decltype(f)>>(found);
}

void check(CUresult result, const char* call, int device) {
  if (result == CUDA_SUCCESS) [[likely]]
    return;
  throw DeviceError(gpu(device), ": ", call,
                    " failed: ", cudaGetErrorString(static_cast<cudaError_t>(result)));
}

// The runtime's context of a device. Created at first use, never released.
CUcontext primary(int device) {
  static std::atomic<CUcontext> known[kMaxDevices];
  std::atomic<CUcontext>& slot = known[device];
  CUcontext c = slot.load(std::memory_order_acquire);
  if (c) [[likely]]
    return c;
  check(driver().retain_primary(&c, device), "cuDevicePrimaryCtxRetain", device);
  slot.store(c, std::memory_order_release);
  return c;
}

}  // namespace

int num_devices() {
  static const int n = [] {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      count = 0;
    }
    return count;
  }();
  return n;
}

const Driver& driver() {
  static const Driver found = [] {
    Driver d;
    find(d.get_context, "cuCtxGetCurrent");
    find(d.push_context, "cuCtxPushCurrent");
    find(d.pop_context, "cuCtxPopCurrent");
    find(d.retain_primary, "cuDevicePrimaryCtxRetain");
    find(d.primary_state, "cuDevicePrimaryCtxGetState");
    find(d.up, "cuMemcpyHtoDAsync");
    find(d.down, "cuMemcpyDtoHAsync");
    find(d.across, "cuMemcpyDtoDAsync");
    find(d.record, "cuEventRecord");
    find(d.wait, "cuStreamWaitEvent");
    find(d.synchronize, "cuStreamSynchronize");
    find(d.free, "cuMemFree");
    find(d.free_host, "cuMemFreeHost");
    find(d.load_module, "cuModuleLoadData");
    find(d.unload_module, "cuModuleUnload");
    find(d.find_function, "cuModuleGetFunction");
    find(d.count_functions, "cuModuleGetFunctionCount");
    find(d.list_functions, "cuModuleEnumerateFunctions");
    find(d.find_global, "cuModuleGetGlobal");
    find(d.function_name, "cuFuncGetName");
    find(d.parameter, "cuFuncGetParamInfo");
    find(d.attribute, "cuFuncGetAttribute");
    find(d.set_attribute, "cuFuncSetAttribute");
    find(d.max_active_blocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    find(d.suggested_block, "cuOccupancyMaxPotentialBlockSize");
    find(d.launch, "cuLaunchKernel");
    find(d.launch_with, "cuLaunchKernelEx");
    return d;
  }();
  return found;
}

// If a thread has no current device, restoring it with cudaSetDevice would create gpu(0)'s context.
// The driver's stack of contexts has no such side effect.
void Guard::enter(int device) {
  if (fork_count() > 0) [[unlikely]]
    throw_used_before_fork(gpu(device));
  const CUcontext wanted = primary(device);
  CUcontext current = nullptr;
  check(driver().get_context(&current), "cuCtxGetCurrent", device);
  if (current == wanted) return;
  check(driver().push_context(wanted), "cuCtxPushCurrent", device);
  entered_ = true;
}

void Guard::leave() {
  CUcontext ignored;
  static_cast<void>(driver().pop_context(&ignored));
}

}  // namespace locus::cuda
