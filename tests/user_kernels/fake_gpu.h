// A device that launches raw kernels without hardware: "fake_gpu(i)", two of them. Kernels are host
// functions that a test provides, and a program has those that its text names. No op has kernels
// there: fill tensors by copyto.
#pragma once

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/core/program.h>
#include <locus/devices/pool.h>
#include <locus/ops/create.h>
#include <locus/ops/raw_kernels.h>

namespace locus::test {

struct FakeKernel {
  KernelAttributes attributes;
  std::function<void(const LaunchShape& shape, std::span<const void* const> args)> run;
  int64_t max_active_blocks = 4;
};

struct FakeGpuState {
  std::map<std::string, FakeKernel> kernels;
  std::map<std::string, std::vector<std::byte>> globals;  // of all programs
  std::vector<std::string> launched;                      // by name
  std::vector<LaunchShape> shapes;
  int built = 0, waits = 0;
};
inline FakeGpuState fake_gpu_state;

class FakeFunction final : public KernelFunction {
 public:
  explicit FakeFunction(const FakeKernel& k) : kernel_(k) {}
  using KernelFunction::launch;
  void launch(StreamView, const LaunchShape& shape,
              std::span<const void* const> args) const override {
    fake_gpu_state.shapes.push_back(shape);
    kernel_.run(shape, args);
  }
  const KernelAttributes& attributes() const override { return kernel_.attributes; }
  int64_t max_active_blocks(const LaunchShape&) const override { return kernel_.max_active_blocks; }

 private:
  const FakeKernel kernel_;
};

class FakeGpuProgram final : public KernelProgram {
 public:
  explicit FakeGpuProgram(const ProgramSource& source) : text_(source.text) {
    if (text_.find("#error") != std::string::npos)
      throw SourceError(source.name, ": does not compile");
    for (const auto& [name, kernel] : fake_gpu_state.kernels)
      if (text_.find(name) != std::string::npos) functions_.try_emplace(name, kernel);
    ++fake_gpu_state.built;
  }
  const KernelFunction* find(std::string_view name) const override {
    const auto found = functions_.find(std::string(name));
    return found == functions_.end() ? nullptr : &found->second;
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto& [name, function] : functions_) all.push_back(name);
    return all;
  }
  Global global(std::string_view name) const override {
    const auto found = fake_gpu_state.globals.find(std::string(name));
    if (found == fake_gpu_state.globals.end()) return {};
    return {found->second.data(), found->second.size()};
  }

 private:
  const std::string text_;
  std::map<std::string, FakeFunction> functions_;
};

class FakeGpu final : public Device {
 public:
  explicit FakeGpu(Context c) : context_(c), memory_(std::make_unique<Memory>(), {.context = c}) {}
  MemoryPool& allocator() override { return memory_; }
  MemoryInfo memory() override { return {1 << 20, 1 << 20}; }
  ContextInfo info() override { return {"fake GPU", false}; }
  DeviceType kernels() const override { return DeviceType::gpu; }
  StreamView stream(Lane) override { return {context_, 0, nullptr}; }
  StreamView open_stream() override { return stream(Lane::compute); }
  void close_stream(StreamView) noexcept override {}
  void launch(Kernel kernel, const Call& call, const char* name) override {
    fake_gpu_state.launched.emplace_back(name);
    kernel(call);
  }
  void copy(void* dst, Context, const void* src, Context, size_t bytes, StreamView) override {
    std::memcpy(dst, src, bytes);
  }
  EventView record(StreamView) override { return {context_}; }
  void release(EventView) noexcept override {}
  bool done(EventView) override { return true; }
  void wait(StreamView, EventView) override {}
  void wait_host(EventView) override {}
  double elapsed_ms(EventView, EventView) override { return 0; }
  void synchronize(StreamView) override { ++fake_gpu_state.waits; }
  std::unique_ptr<KernelProgram> build(const ProgramSource& source) override {
    return std::make_unique<FakeGpuProgram>(source);
  }

 private:
  class Memory final : public MemorySource {
   public:
    void* allocate(size_t bytes) override { return std::aligned_alloc(512, bytes); }
    void release(void* p, size_t) noexcept override { std::free(p); }
  };
  Context context_;
  CachingPool memory_;
};

inline Context fake_gpu(int i = 0) {
  static const DeviceType type = register_device(
      {"fake_gpu", [] { return 2; },
       [](Context c) -> std::unique_ptr<Device> { return std::make_unique<FakeGpu>(c); }});
  return {type, i};
}

// Parameter i of a launch.
template <class T>
T argument(std::span<const void* const> args, size_t i) {
  T value;
  std::memcpy(&value, args[i], sizeof(T));
  return value;
}

// Clears the state, and provides two kernels:
//   add(const float* x, const float* y, float* z, int n): z = x + y
//   scale(float* x, double a, Pair p, bool b): x[0] = a * p.first + p.second + b
struct FakePair {
  int64_t first;
  float second;
};
inline void reset_fake_gpu() {
  fake_gpu_state = {};
  const KernelAttributes usual{.registers = 32,
                               .max_threads = 512,
                               .suggested_block = 128,
                               .shared_bytes = 1024,
                               .max_shared = 99 << 10,
                               .cooperative = true};
  FakeKernel add{.attributes = usual, .run = {}}, scale = add;
  add.attributes.parameters = {8, 8, 8, 4};
  add.run = [](const LaunchShape& shape, std::span<const void* const> args) {
    const auto *x = argument<float*>(args, 0), *y = argument<float*>(args, 1);
    auto* const z = argument<float*>(args, 2);
    const int64_t n = argument<int>(args, 3), threads = shape.grid.x * shape.block.x;
    for (int64_t i = 0; i < n && i < threads; ++i) z[i] = x[i] + y[i];
  };
  scale.attributes.parameters = {8, 8, sizeof(FakePair), 1};
  scale.run = [](const LaunchShape&, std::span<const void* const> args) {
    const auto pair = argument<FakePair>(args, 2);
    *argument<float*>(args, 0) =
        static_cast<float>(argument<double>(args, 1) * static_cast<double>(pair.first) +
                           pair.second + (argument<bool>(args, 3) ? 1 : 0));
  };
  fake_gpu_state.kernels = {{"add", add}, {"scale", scale}};
}

}  // namespace locus::test
