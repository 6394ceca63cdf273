// Programs of real GPUs: modules of the driver. Never unloaded.
#include <locus/devices/cuda/device.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include <locus/core/error.h>
#include <locus/core/program.h>
#include <locus/core/program/cache.h>
#include <locus/core/program/source_key.h>
#include <locus/devices/nvrtc/nvrtc.h>

namespace locus::cuda {
namespace {

const char* text_of_error(CUresult result) {
  return cudaGetErrorString(static_cast<cudaError_t>(result));  // the same numbers
}

class CudaFunction final : public KernelFunction {
 public:
  CudaFunction(CUfunction function, const std::string& program)
      : function_(function), program_(program) {}

  void launch(StreamView s, const LaunchShape& shape, const void* args,
              size_t bytes) const override {
    const uint32_t *const grid = shape.grid, *const block = shape.block;
    void* all[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<void*>(args),
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    const auto enqueue = [&] {
      return driver().launch(function_, grid[0], grid[1], grid[2], block[0], block[1], block[2], 0,
                             static_cast<CUstream>(s.native), nullptr, all);
    };
    const Guard guard(s.context.index);
    CUresult result = enqueue();
    if (result == CUDA_ERROR_INVALID_CONTEXT && num_devices() == 1) [[unlikely]] {
      LOCUS_CUDA(cudaSetDevice(s.context.index));  // this thread's first call on the only GPU
      result = enqueue();
    }
    if (result == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) [[unlikely]]
      throw DeviceError(program_, ": the launch on ", s.context, " failed: blocks of ",
                        block[0] * block[1] * block[2],
                        " threads need more registers than there are; use smaller blocks");
    if (result != CUDA_SUCCESS) [[unlikely]]
      launch_failed(static_cast<cudaError_t>(result), program_.c_str(), s.context);
  }

 private:
  const CUfunction function_;
  const std::string& program_;  // the name, for errors
};

class CudaProgram final : public KernelProgram {
 public:
  CudaProgram(Context c, const ProgramSource& source, const std::string& code)
      : name_(source.name) {
    const auto failed = [&](CUresult result, const std::string& what) {
      if (result == CUDA_ERROR_OUT_OF_MEMORY)
        throw OutOfMemory(name_, ": ", c, " has no memory for the compiled code");
      throw DeviceError(name_, ": ", c, " cannot load ", what, ": ", text_of_error(result));
    };
    CUmodule module = nullptr;
    if (const CUresult result = driver().load_module(&module, code.c_str()); result != CUDA_SUCCESS)
      failed(result, "the compiled code");
    for (const std::string& function : source.functions) {
      CUfunction found = nullptr;
      if (const CUresult result = driver().find_function(&found, module, function.c_str());
          result != CUDA_SUCCESS) {
        driver().unload_module(module);
        if (result != CUDA_ERROR_NOT_FOUND) failed(result, function);
        throw SourceError(name_, ": compiled for ", c, ", but has no function ", function,
                          "; expected extern \"C\" __global__ void ", function, "(...)");
      }
      functions_.try_emplace(function, found, name_);
    }
  }
  const KernelFunction* find(std::string_view name) const override {
    const auto found = functions_.find(name);
    return found == functions_.end() ? nullptr : &found->second;
  }

 private:
  const std::string name_;
  std::map<std::string, CudaFunction, std::less<>> functions_;
};

}  // namespace

std::unique_ptr<KernelProgram> CudaDevice::build(const ProgramSource& source) {
  check_process();
  const std::string architecture = text_of("sm_", capability_);
  const KernelCache::Code code =
      kernel_cache().get(code_key(source, {"cuda", architecture, nvrtc_identity()}),
                         [&] { return compile_cuda(source, capability_, context_); });
  const OutsideCapture outside;  // another thread's capture may be in progress
  // The driver loads into the current context. On a machine with one GPU, Guard does not set it.
  if (num_devices() == 1) LOCUS_CUDA(cudaSetDevice(index()));
  const Guard guard(index());
  try {
    return std::make_unique<CudaProgram>(context_, source, *code);
  } catch (const OutOfMemory&) {
    allocator().release_cached();  // and once more
  }
  return std::make_unique<CudaProgram>(context_, source, *code);
}

}  // namespace locus::cuda
