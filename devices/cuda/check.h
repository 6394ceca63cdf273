// LOCUS_CUDA(call): every call of CUDA goes through it, and every call of a library whose status
// has a failed() of its own in scope.
#pragma once

#include <cuda_runtime_api.h>

namespace locus::cuda {

// Throw OutOfMemory when the device had no memory left, DeviceError otherwise, naming the call, its
// place and the driver's text. An error that leaves the device usable is cleared first.
[[noreturn]] void failed(cudaError_t error, const char* call, const char* file, int line);
// For libraries.
[[noreturn]] void failed(bool out_of_memory, const char* what, const char* call, const char* file,
                         int line);

}  // namespace locus::cuda

// Every kind of status is 0 on success.
#define LOCUS_CUDA(call)                                                                    \
  do {                                                                                      \
    if (const auto locus_status = (call); static_cast<int>(locus_status) != 0) [[unlikely]] \
      ::locus::cuda::failed(locus_status, #call, __FILE__, __LINE__);                       \
  } while (false)
