// LOCUS_CUDA(call): every CUDA and cuBLAS call goes through it.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

namespace locus::cuda {

// Throw OutOfMemory when the device had no memory left, DeviceError otherwise, naming the call, its
// place and the driver's text. An error that leaves the device usable is cleared first.
[[noreturn]] void failed(cudaError_t error, const char* call, const char* file, int line);
[[noreturn]] void failed(cublasStatus_t status, const char* call, const char* file, int line);

}  // namespace locus::cuda

// Both kinds of status are 0 on success.
#define LOCUS_CUDA(call)                                                                    \
  do {                                                                                      \
    if (const auto locus_status = (call); static_cast<int>(locus_status) != 0) [[unlikely]] \
      ::locus::cuda::failed(locus_status, #call, __FILE__, __LINE__);                       \
  } while (false)
