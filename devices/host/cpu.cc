// cpu(i) and cpu_pinned(i): the host as a device, and its instruction set.
#include <locus/devices/cpu.h>

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <string>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <locus/core/base/environment.h>
#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/devices/host/host_memory.h>
#include <locus/devices/host/host_program.h>

namespace locus {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kCopyGrain = size_t{256} << 10;  // bytes a thread copies in about 10 us

Isa detect() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  unsigned a, b, c, d;
  const bool leaf1 = __get_cpuid(1, &a, &b, &c, &d) != 0;
  const bool f16c_movbe = leaf1 && (c >> 29 & 1) != 0 && (c >> 22 & 1) != 0;
  const bool lzcnt = __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c >> 5 & 1) != 0;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
      !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2") || !f16c_movbe || !lzcnt)
    return Isa::base;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512cd") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vl"))
    return Isa::v3;
  return Isa::v4;
#else
  return Isa::base;
#endif
}

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
  std::unique_ptr<Program> build(const ProgramSource& source) override {
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

// Kernels are registered before main(), where nothing may throw: cpu_isa() throws `wrong` later.
struct IsaChoice {
  Isa isa = Isa::base;
  std::exception_ptr wrong;
};
const IsaChoice& isa_choice() {
  static const IsaChoice& choice = *new IsaChoice([] {
    IsaChoice c;
    try {
      const auto cap = environment_choice("LOCUS_ISA", {"base", "v3", "v4"});
      const Isa runs = detect();
      c.isa = widest_isa(built_isas(), cap ? std::min(runs, static_cast<Isa>(*cap)) : runs);
    } catch (const Error&) {
      c.wrong = std::current_exception();
    }
    return c;
  }());
  return choice;
}

}  // namespace

void* host_allocate(size_t bytes, size_t alignment) {
  // A system that overcommits grants more than there is, and kills the program that uses it.
  static const size_t most = host_memory().total;
  if (most != 0 && bytes > most) return nullptr;
  void* p = nullptr;
  const bool huge = bytes >= kHugePage;
  if (posix_memalign(&p, huge ? kHugePage : alignment, bytes) != 0) return nullptr;
  if (huge) madvise(p, bytes, MADV_HUGEPAGE);  // advice: without huge pages nothing changes
  return p;
}

void host_free(void* p) { std::free(p); }

void copy_on_threads(void* dst, const void* src, size_t bytes, size_t grain,
                     void (*move)(char*, const char*, size_t)) {
  parallel_for(static_cast<int64_t>(bytes), static_cast<int64_t>(grain),
               [=](int64_t begin, int64_t end) {
                 move(static_cast<char*>(dst) + begin, static_cast<const char*>(src) + begin,
                      static_cast<size_t>(end - begin));
               });
}

MemoryInfo host_memory() {
  std::ifstream file("/proc/meminfo");
  MemoryInfo info;
  std::string field, unit;
  for (size_t kib = 0; file >> field >> kib && std::getline(file, unit);) {
    if (field == "MemTotal:") info.total = kib << 10;
    if (field == "MemAvailable:") info.free = kib << 10;
  }
  return info;
}

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

Isa cpu_isa() {
  const IsaChoice& choice = isa_choice();
  if (choice.wrong) std::rethrow_exception(choice.wrong);
  return choice.isa;
}

const char* name(Isa isa) {
  return isa == Isa::v4 ? "x86-64-v4" : isa == Isa::v3 ? "x86-64-v3" : "x86-64";
}

Isa widest_isa(std::span<const Isa> built, Isa most) {
  std::string names;
  for (size_t i = built.size(); i-- > 0;) {
    if (built[i] <= most) return built[i];
    names = name(built[i]) + (names.empty() ? "" : " and " + names);
  }
  throw Error("cpu kernels: this build has them for ", names, " alone, and this processor or ",
              "LOCUS_ISA allows ", name(most), " at most; build Locus with -DLOCUS_ISAS=all");
}

const KernelList& best_isa(std::initializer_list<IsaKernels> built) {
  for (const IsaKernels& kernels : built)
    if (kernels.isa == isa_choice().isa) return kernels.list;
  return built.begin()->list;
}

}  // namespace locus
