// LOCUS_CUDA(call) throws if a call of CUDA fails, or of a library with a failed() for its status
// in scope.
#pragma once

#include <cuda_runtime_api.h>

namespace locus::cuda {

// Throw OutOfMemory if the device has no memory left, else DeviceError. The text names the call,
// its place and the driver's text. An error that leaves the device usable is cleared.
[[noreturn]] void failed(cudaError_t error, const char* call, const char* file, int line);
// For libraries.
[[noreturn]] void failed(bool out_of_memory, const char* what, const char* call, const char* file,
                         int line);

}  // namespace locus::cuda

// Every status type is 0 on success.
#define LOCUS_CUDA(call)                                                                    \
  do {                                                                                      \
    if (const auto locus_status = (call); static_cast<int>(locus_status) != 0) [[unlikely]] \
      ::locus::cuda::failed(locus_status, #call, __FILE__, __LINE__);                       \
  } while (false)
