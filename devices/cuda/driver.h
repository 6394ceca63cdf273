// Internal to devices/cuda: driver calls that replace calls of the runtime.
//
// If a thread has no current device, the runtime makes gpu(0) current and creates its context: some
// hundred MB on a GPU that the program may not use. The driver finds the context by the stream. Its
// calls also cost 0.1 us less. Error codes are the same numbers as the runtime's.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <locus/core/noncopyable.h>
#include <locus/devices/cuda/check.h>

namespace locus::cuda {

// Looked up at run time: a binary that links the driver would not start on a machine without one.
struct Driver {
  PFN_cuCtxGetCurrent_v4000 get_context;
  PFN_cuCtxPushCurrent_v4000 push_context;
  PFN_cuCtxPopCurrent_v4000 pop_context;
  PFN_cuDevicePrimaryCtxRetain_v7000 retain_primary;
  PFN_cuDevicePrimaryCtxGetState_v7000 primary_state;
  PFN_cuMemcpyHtoDAsync_v3020 up;
  PFN_cuMemcpyDtoHAsync_v3020 down;
  PFN_cuMemcpyDtoDAsync_v3020 across;
  PFN_cuEventRecord_v2000 record;
  PFN_cuStreamWaitEvent_v3020 wait;
  PFN_cuStreamSynchronize_v2000 synchronize;
  PFN_cuMemFree_v3020 free;
  PFN_cuMemFreeHost_v2000 free_host;
  PFN_cuModuleLoadData_v2000 load_module;
  PFN_cuModuleUnload_v2000 unload_module;
  PFN_cuModuleGetFunction_v2000 find_function;
  PFN_cuModuleGetFunctionCount_v12040 count_functions;
  PFN_cuModuleEnumerateFunctions_v12040 list_functions;
  PFN_cuModuleGetGlobal_v3020 find_global;
  PFN_cuFuncGetName_v12030 function_name;
  PFN_cuFuncGetParamInfo_v12040 parameter;
  PFN_cuFuncGetAttribute_v2020 attribute;
  PFN_cuFuncSetAttribute_v9000 set_attribute;
  PFN_cuOccupancyMaxActiveBlocksPerMultiprocessor_v6050 max_active_blocks;
  PFN_cuOccupancyMaxPotentialBlockSize_v6050 suggested_block;
  PFN_cuLaunchKernel_v4000 launch;
  PFN_cuLaunchKernelEx_v11060 launch_with;
};
// Throws Error if the driver is too old.
const Driver& driver();

inline CUdeviceptr device_pointer(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

// As cudaMemcpyAsync: up from the host, down to the host, across within a device or between devices
// with peer access.
inline cudaError_t copy_up(void* dst, const void* src, size_t bytes, cudaStream_t s) {
  return static_cast<cudaError_t>(driver().up(device_pointer(dst), src, bytes, s));
}
inline cudaError_t copy_down(void* dst, const void* src, size_t bytes, cudaStream_t s) {
  return static_cast<cudaError_t>(driver().down(dst, device_pointer(src), bytes, s));
}
inline cudaError_t copy_across(void* dst, const void* src, size_t bytes, cudaStream_t s) {
  return static_cast<cudaError_t>(
      driver().across(device_pointer(dst), device_pointer(src), bytes, s));
}

inline cudaError_t record(cudaEvent_t e, cudaStream_t s) {
  return static_cast<cudaError_t>(driver().record(e, s));
}
inline cudaError_t wait(cudaStream_t s, cudaEvent_t e) {
  return static_cast<cudaError_t>(driver().wait(s, e, 0));
}
inline cudaError_t synchronize(cudaStream_t s) {
  return static_cast<cudaError_t>(driver().synchronize(s));
}
inline cudaError_t free_memory(void* p) {
  return static_cast<cudaError_t>(driver().free(device_pointer(p)));
}
inline cudaError_t free_host_memory(void* p) {
  return static_cast<cudaError_t>(driver().free_host(p));
}

int num_devices();  // 0 without a driver; queried once

// Makes `device` current for a scope. Does nothing on a machine with one GPU. If the device is
// current already, costs one query.
class Guard : NonCopyable {
 public:
  explicit Guard(int device) {
    if (num_devices() > 1) enter(device);
  }
  ~Guard() {
    if (entered_) leave();
  }

 private:
  void enter(int device);
  static void leave();
  bool entered_ = false;
};

// In a scope, the thread may make calls that CUDA refuses during any stream's capture and that no
// graph records: allocating memory, making a library's handle.
class OutsideCapture : NonCopyable {
 public:
  OutsideCapture() { LOCUS_CUDA(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~OutsideCapture() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace locus::cuda
