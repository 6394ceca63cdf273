#include <locus/devices/cuda_check.h>

#include <string>

#include <locus/core/error.h>

namespace locus::cuda {
namespace {

std::string describe(const char* call, const char* file, int line, const char* what) {
  return std::string(call) + " failed at " + file + ":" + std::to_string(line) + ": " + what;
}

}  // namespace

void failed(cudaError_t error, const char* call, const char* file, int line) {
  static_cast<void>(cudaGetLastError());
  const std::string text = describe(call, file, line, cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation)
    throw OutOfMemory(text + "; free tensors, or call memory_pool(context).release_cached()");
  throw DeviceError(text);
}

void failed(cublasStatus_t status, const char* call, const char* file, int line) {
  static_cast<void>(cudaGetLastError());
  const std::string text = describe(call, file, line, cublasGetStatusString(status));
  if (status == CUBLAS_STATUS_ALLOC_FAILED)
    throw OutOfMemory(text + "; free tensors, or call memory_pool(context).release_cached()");
  throw DeviceError(text);
}

}  // namespace locus::cuda
