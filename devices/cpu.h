// The CPU back end: aligned host memory and the thread pool of the process.
//
//   parallel_ranges(n, 1024, [&](int64_t begin, int64_t end) { ... });
//
// All cpu(i) contexts share the pool. The calling thread takes part, and work is done when a call
// returns. If the pool is busy (another thread's work or a nested call), the caller computes alone.
//
// LOCUS_NUM_THREADS sets the number of threads. LOCUS_PIN=0 leaves threads unpinned.
// LOCUS_ISA=base|v3|v4 limits the instruction set.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>

#include <locus/core/kernel.h>

namespace locus {

struct KernelList;

void register_cpu();  // cpu and cpu_pinned (ordinary memory until a GPU back end offers
                      // page-locked)
// Sets the functions that give cpu_pinned its memory. A GPU back end's registration calls it before
// any tensor exists. `allocate` returns memory aligned to at least 64 bytes, or nullptr. Both
// functions work on any thread.
void set_pinned_source(void* (*allocate)(size_t bytes), void (*free)(void* p));

int num_threads();  // threads of the pool, with the caller; at least 1
void set_num_threads(int n);
// From now on the calling thread computes alone, as if the pool were busy.
void compute_alone();

// Calls body(data, begin, end) on disjoint ranges that cover [0, n), and returns when all are done.
// Each range but the last is a multiple of `grain` long. If n <= grain, the caller computes one
// range. The first exception of a range is rethrown. The same n, grain and thread count give the
// same ranges.
void run_parallel(int64_t n, int64_t grain, void (*body)(void* data, int64_t begin, int64_t end),
                  void* data);

template <class F>
LOCUS_HD void parallel_ranges(int64_t n, int64_t grain, F&& body) {
  if (n <= 0) return;
  if (n <= grain) return body(int64_t{0}, n);
  using Body = std::remove_reference_t<F>;
  run_parallel(
      n, grain,
      [](void* data, int64_t begin, int64_t end) { (*static_cast<Body*>(data))(begin, end); },
      const_cast<std::remove_const_t<Body>*>(&body));
}

// Instruction sets of CPU kernels: x86-64, x86-64-v3 (AVX2, FMA) and x86-64-v4 (AVX-512), each with
// all of the sets before it.
enum class Isa : uint8_t { base, v3, v4 };
const char* name(Isa isa);
// The sets of this build's kernels, in ascending order: the build option LOCUS_ISAS. The build
// writes this function.
std::span<const Isa> built_isas();
// The widest set of `built` (in ascending order) up to `most`. If there is none, throws Error.
Isa widest_isa(std::span<const Isa> built, Isa most);
// The widest set that this build has, this processor runs and LOCUS_ISA (base, v3, v4) allows. If
// there is none, or LOCUS_ISA has another value, throws Error. The first use of a cpu context or
// emulated GPU throws the same Error.
Isa cpu_isa();

// Each family's CPU kernels are compiled once per instruction set. best_isa returns the list to
// register: that of cpu_isa(). If cpu_isa() throws, best_isa returns any of them.
struct IsaKernels {
  Isa isa;
  const KernelList& list;
};
const KernelList& best_isa(std::initializer_list<IsaKernels> built);

}  // namespace locus
