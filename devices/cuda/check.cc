#include <locus/devices/cuda/check.h>

#include <string>

#include <locus/core/error.h>
#include <locus/devices/host/fork.h>

namespace locus::cuda {
void failed(cudaError_t error, const char* call, const char* file, int line) {
  failed(error == cudaErrorMemoryAllocation, cudaGetErrorString(error), call, file, line);
}

void failed(bool out_of_memory, const char* what, const char* call, const char* file, int line) {
  static_cast<void>(cudaGetLastError());
  const std::string text =
      std::string(call) + " failed at " + file + ":" + std::to_string(line) + ": " + what;
  if (out_of_memory)
    throw OutOfMemory(text, "; free tensors, or call memory_pool(context).release_cached()");
  throw DeviceError(text, fork_count() == 0
                              ? ""
                              : "; CUDA was started before fork(), and GPUs do not work in the "
                                "child; use them in the parent, or start the child with exec()");
}

}  // namespace locus::cuda
