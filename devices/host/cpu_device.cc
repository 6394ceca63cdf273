// cpu(i) and cpu_pinned(i): the host as a device.
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/devices/cpu.h>
#include <locus/devices/host/host_memory.h>
#include <locus/devices/host/host_program.h>

namespace locus {
namespace {

constexpr size_t kCopyGrain = size_t{256} << 10;  // bytes a thread copies in about 10 us

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

// Set while the program starts, before the first device opens.
void* (*allocate_pinned)(size_t bytes) = nullptr;
void (*free_pinned)(void* p) = nullptr;

class PinnedMemory final : public MemorySource {
 public:
  void* allocate(size_t bytes) override { return allocate_pinned(bytes); }
  void release(void* p, size_t) noexcept override { free_pinned(p); }
};

std::unique_ptr<MemorySource> source_of(Context c) {
  if (c.type == DeviceType::cpu_pinned && allocate_pinned != nullptr)
    return std::make_unique<PinnedMemory>();
  return std::make_unique<HostMemory>(64);
}

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(Context c)
      : context_(c),
        // Pinned memory is not poisoned: a GPU's queue may still read it after its release.
        pool_(source_of(c), {.context = c, .rounding = 64, .poison = c.type == DeviceType::cpu}) {}

  MemoryPool& allocator() override { return pool_; }
  MemoryInfo memory() override { return host_memory(); }
  ContextInfo info() override { return {cpu_name(), false}; }
  DeviceType kernels() const override { return DeviceType::cpu; }

  StreamView stream(Lane) override { return {context_, 0, nullptr}; }
  StreamView open_stream() override { return {context_, 0, nullptr}; }
  void close_stream(StreamView) noexcept override {}

  void launch(Kernel kernel, const Call& call, const char*) override { kernel(call); }

  void copy(void* dst, Context to, const void* src, Context from, size_t bytes,
            StreamView) override {
    LOCUS_CHECK(is_host(to) && is_host(from), context_, " copies host memory only, not ", from,
                " to ", to);
    copy_on_threads(dst, src, bytes, kCopyGrain,
                    [](char* d, const char* s, size_t n) { std::memcpy(d, s, n); });
  }

  // The host's work is done when a call returns, so its events have always fired.
  EventView record(StreamView) override { return {context_, nullptr}; }
  void release(EventView) noexcept override {}
  bool done(EventView) override { return true; }
  void wait(StreamView, EventView e) override { wait_host(e); }
  void wait_host(EventView e) override {
    if (!is_host(e.context)) device(e.context).wait_host(e);
  }
  double elapsed_ms(EventView, EventView) override {
    throw Error(context_, " records no times; use a clock around the calls");
  }
  void synchronize(StreamView) override {}
  std::unique_ptr<KernelProgram> build(const ProgramSource& source) override {
    return build_on_host(context_, source);
  }

 private:
  Context context_;
  CachingPool pool_;
};

std::unique_ptr<Device> open_cpu(Context c) {
  static_cast<void>(cpu_isa());
  return std::make_unique<CpuDevice>(c);
}

}  // namespace

void set_pinned_source(void* (*allocate)(size_t bytes), void (*free)(void*)) {
  allocate_pinned = allocate;
  free_pinned = free;
}

void register_cpu() {
  const auto count = [] { return kMaxDevices; };
  register_device(DeviceType::cpu, {"cpu", count, open_cpu, "cpu(0) always exists"});
  register_device(DeviceType::cpu_pinned,
                  {"cpu_pinned", count, open_cpu, "cpu_pinned(0) always exists"});
}

}  // namespace locus
