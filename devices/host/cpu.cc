// Memory of the host and its instruction set.
#include <locus/devices/cpu.h>

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <locus/core/base/environment.h>
#include <locus/core/error.h>
#include <locus/devices/host/host_memory.h>

namespace locus {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

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
  parallel_ranges(static_cast<int64_t>(bytes), static_cast<int64_t>(grain),
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
