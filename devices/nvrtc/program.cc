// Programs of real GPUs: modules of the driver. Never unloaded.
#include <locus/devices/cuda/device.h>

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <locus/core/error.h>
#include <locus/core/program.h>
#include <locus/core/program/cache.h>
#include <locus/core/program/source_key.h>
#include <locus/devices/cuda/signals.h>
#include <locus/devices/nvrtc/nvrtc.h>

namespace locus::cuda {
namespace {

// Blocks may have this much shared memory, static and dynamic, without being allowed more.
constexpr int64_t kSharedByDefault = 48 << 10;

const char* text_of_error(CUresult result) {
  return cudaGetErrorString(static_cast<cudaError_t>(result));  // the same numbers
}

// In a scope, driver calls that load code or ask about it work, also during a capture of another
// thread. The driver uses the current context. On a machine with one GPU, Guard does not set it.
class LoadScope : NonCopyable {
 public:
  explicit LoadScope(int device) : guard_(device) {
    if (num_devices() == 1) LOCUS_CUDA(cudaSetDevice(device));
  }

 private:
  const OutsideCapture outside_;
  const Guard guard_;
};

unsigned at_most_32_bits(int64_t v) { return static_cast<unsigned>(v); }

class CudaFunction final : public KernelFunction {
 public:
  CudaFunction(CUfunction function, const std::string& program, CudaDevice& device)
      : function_(function), program_(program), device_(device) {}

  void launch(StreamView s, const LaunchShape& shape, const void* args,
              size_t bytes) const override {
    void* all[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<void*>(args),
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    enqueue(s, shape, nullptr, all);
  }
  void launch(StreamView s, const LaunchShape& shape,
              std::span<const void* const> args) const override {
    enqueue(s, shape, const_cast<void**>(args.data()), nullptr);
  }

  const KernelAttributes& attributes() const override {
    const MutexLock lock(mutex_);
    if (!attributes_) attributes_ = find_attributes();
    return *attributes_;
  }
  int64_t max_active_blocks(const LaunchShape& shape) const override {
    allow_shared(shape.shared);
    const LoadScope scope(device_.index());
    const Dim3& block = shape.block;
    int blocks = 0;
    check(driver().max_active_blocks(&blocks, function_,
                                     static_cast<int>(block.x * block.y * block.z),
                                     static_cast<size_t>(shape.shared)),
          "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    return int64_t{blocks} * device_.multiprocessors();
  }
  unsigned* counters(StreamView s, int n) const override {
    static_assert(kMostCounters == kMaxCounters);
    return cuda::counters(s, n);
  }

 private:
  void check(CUresult result, const char* call) const {
    if (result != CUDA_SUCCESS)
      throw DeviceError(program_, ": ", call, " failed on ", gpu(device_.index()), ": ",
                        text_of_error(result));
  }

  KernelAttributes find_attributes() const {
    const LoadScope scope(device_.index());
    const auto ask = [&](CUfunction_attribute which) {
      int value = 0;
      check(driver().attribute(&value, which, function_), "cuFuncGetAttribute");
      return value;
    };
    const auto ask_device = [&](cudaDeviceAttr which) {
      int value = 0;
      LOCUS_CUDA(cudaDeviceGetAttribute(&value, which, device_.index()));
      return value;
    };
    KernelAttributes a;
    a.registers = ask(CU_FUNC_ATTRIBUTE_NUM_REGS);
    a.max_threads = ask(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    a.local_bytes = ask(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
    a.shared_bytes = ask(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
    a.constant_bytes = ask(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
    a.max_shared = ask_device(cudaDevAttrMaxSharedMemoryPerBlockOptin) - a.shared_bytes;
    a.cooperative = ask_device(cudaDevAttrCooperativeLaunch) != 0;
    int blocks = 0;
    check(driver().suggested_block(&blocks, &a.suggested_block, function_, nullptr, 0, 0),
          "cuOccupancyMaxPotentialBlockSize");
    size_t offset = 0, size = 0;
    while (driver().parameter(function_, a.parameters.size(), &offset, &size) == CUDA_SUCCESS)
      a.parameters.push_back(size);
    return a;
  }

  // The driver refuses larger launches until the function is allowed them.
  void allow_shared(int64_t bytes) const {
    if (bytes == 0 || bytes + attributes().shared_bytes <= kSharedByDefault) return;
    const MutexLock lock(mutex_);
    if (bytes <= allowed_) return;
    const LoadScope scope(device_.index());
    check(driver().set_attribute(function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                 static_cast<int>(bytes)),
          "cuFuncSetAttribute");
    allowed_ = bytes;
  }

  CUresult enqueue_once(CUstream s, const LaunchShape& shape, void** each, void** packed) const {
    const Dim3 &grid = shape.grid, &block = shape.block;
    CUlaunchConfig config{};
    config.gridDimX = at_most_32_bits(grid.x);
    config.gridDimY = at_most_32_bits(grid.y);
    config.gridDimZ = at_most_32_bits(grid.z);
    config.blockDimX = at_most_32_bits(block.x);
    config.blockDimY = at_most_32_bits(block.y);
    config.blockDimZ = at_most_32_bits(block.z);
    config.sharedMemBytes = at_most_32_bits(shape.shared);
    config.hStream = s;
    if (!shape.cooperative)
      return driver().launch(function_, config.gridDimX, config.gridDimY, config.gridDimZ,
                             config.blockDimX, config.blockDimY, config.blockDimZ,
                             config.sharedMemBytes, s, each, packed);
    CUlaunchAttribute cooperative{};
    cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    cooperative.value.cooperative = 1;
    config.attrs = &cooperative;
    config.numAttrs = 1;
    return driver().launch_with(&config, function_, each, packed);
  }

  void enqueue(StreamView s, const LaunchShape& shape, void** each, void** packed) const {
    allow_shared(shape.shared);
    const auto stream = static_cast<CUstream>(s.native);
    const Guard guard(s.context.index);
    CUresult result = enqueue_once(stream, shape, each, packed);
    if (result == CUDA_ERROR_INVALID_CONTEXT && num_devices() == 1) [[unlikely]] {
      LOCUS_CUDA(cudaSetDevice(s.context.index));  // this thread's first call on the only GPU
      result = enqueue_once(stream, shape, each, packed);
    }
    if (result == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) [[unlikely]]
      throw DeviceError(program_, ": the launch on ", s.context, " failed: blocks of ",
                        shape.block.x * shape.block.y * shape.block.z,
                        " threads need more registers than there are; use smaller blocks");
    if (result != CUDA_SUCCESS) [[unlikely]]
      launch_failed(static_cast<cudaError_t>(result), program_.c_str(), s.context);
  }

  const CUfunction function_;
  const std::string& program_;  // the name, for errors
  CudaDevice& device_;
  mutable Mutex mutex_;
  mutable std::optional<KernelAttributes> attributes_ LOCUS_GUARDED_BY(mutex_);
  mutable int64_t allowed_ LOCUS_GUARDED_BY(mutex_) = 0;  // dynamic shared memory, in bytes
};

class CudaProgram final : public KernelProgram {
 public:
  // `names`: of the source's expressions in the code.
  CudaProgram(CudaDevice& device, Context c, const ProgramSource& source, const std::string& code,
              const std::vector<std::string>& names)
      : name_(source.name), device_(device), context_(c) {
    for (size_t i = 0; i < names.size(); ++i) lowered_[source.expressions[i]] = names[i];
    if (const CUresult result = driver().load_module(&module_, code.c_str());
        result != CUDA_SUCCESS)
      failed(result, source.code.empty() ? "the compiled code" : "the code");
    try {
      for (const std::string& function : source.functions)
        if (!find(function))
          throw SourceError(name_, ": compiled for ", c, ", but has no function ", function,
                            "; expected extern \"C\" __global__ void ", function, "(...)");
    } catch (...) {
      driver().unload_module(module_);
      throw;
    }
  }

  const KernelFunction* find(std::string_view name) const override {
    const MutexLock lock(mutex_);
    if (const auto found = functions_.find(name); found != functions_.end()) return &found->second;
    const LoadScope scope(device_.index());
    CUfunction function = nullptr;
    const CUresult result = driver().find_function(&function, module_, lowered(name).c_str());
    if (result == CUDA_ERROR_NOT_FOUND) return nullptr;
    if (result != CUDA_SUCCESS) failed(result, std::string(name));
    return &functions_.try_emplace(std::string(name), function, name_, device_).first->second;
  }

  std::vector<std::string> names() const override {
    const LoadScope scope(device_.index());
    unsigned count = 0;
    std::vector<std::string> all;
    if (driver().count_functions(&count, module_) != CUDA_SUCCESS) return all;
    std::vector<CUfunction> functions(count);
    if (driver().list_functions(functions.data(), count, module_) != CUDA_SUCCESS) return all;
    for (const CUfunction f : functions)
      if (const char* name = nullptr; driver().function_name(&name, f) == CUDA_SUCCESS)
        all.push_back(readable(name));
    std::ranges::sort(all);
    return all;
  }

  Global global(std::string_view name) const override {
    const LoadScope scope(device_.index());
    for (const std::string& known : {std::string(name), text_of('&', name)}) {
      Global found;
      CUdeviceptr data = 0;
      const CUresult result =
          driver().find_global(&data, &found.bytes, module_, lowered(known).c_str());
      if (result == CUDA_SUCCESS) return {reinterpret_cast<void*>(data), found.bytes};
      if (result != CUDA_ERROR_NOT_FOUND) failed(result, std::string(name));
    }
    return {};
  }

 private:
  [[noreturn]] void failed(CUresult result, const std::string& what) const {
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
      throw OutOfMemory(name_, ": ", context_, " has no memory for the compiled code");
    throw DeviceError(name_, ": ", context_, " cannot load ", what, ": ", text_of_error(result));
  }
  // The name in the code.
  std::string lowered(std::string_view name) const {
    const auto found = lowered_.find(name);
    return found == lowered_.end() ? std::string(name) : found->second;
  }
  // The name in the text: "add<float>", "add(float*, int)".
  std::string readable(const char* name) const {
    for (const auto& [expression, known] : lowered_)
      if (known == name) return expression;
    char* const text = abi::__cxa_demangle(name, nullptr, nullptr, nullptr);
    std::string all = text ? text : name;
    std::free(text);
    return all;
  }

  const std::string name_;
  CudaDevice& device_;
  const Context context_;
  CUmodule module_ = nullptr;
  std::map<std::string, std::string, std::less<>> lowered_;
  mutable Mutex mutex_;
  mutable std::map<std::string, CudaFunction, std::less<>> functions_ LOCUS_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<KernelProgram> CudaDevice::build(const ProgramSource& source) {
  check_process();
  std::string code = source.code;
  std::vector<std::string> names;
  if (code.empty()) {
    const std::string architecture = text_of("sm_", capability_);
    code = *kernel_cache().get(code_key(source, {"cuda", architecture, nvrtc_identity()}),
                               [&] { return compile_cuda(source, capability_, context_); });
    names = take_names(code, source.expressions.size());
  }
  const LoadScope scope(index());  // another thread's capture may be in progress
  try {
    return std::make_unique<CudaProgram>(*this, context_, source, code, names);
  } catch (const OutOfMemory&) {
    allocator().release_cached();  // and once more
  }
  return std::make_unique<CudaProgram>(*this, context_, source, code, names);
}

}  // namespace locus::cuda
