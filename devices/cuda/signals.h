// Memory in which a device's kernels signal each other and the host: counters of a stream, and
// fault words. Allocated when the stream and the device are opened, and never freed, so a captured
// kernel can use it at every replay.
#pragma once

#include <cuda_runtime_api.h>

#include <locus/core/kernel.h>

namespace locus::cuda {

// n <= kMaxCounters zeros of the stream. The blocks of a kernel count their arrivals here, and the
// last block finishes the work. Every kernel leaves the counters zero.
inline constexpr int kMaxCounters = 8192;
unsigned* counters(StreamView s, int n);

// An error that a kernel finds but cannot throw.
enum class FaultKind : int {
  index,      // `value` is outside the axis `at`, whose length is `limit`
  position,   // the same, and negative indices are not allowed
  label,      // `value`, in row `at`, is not one of `limit` classes
  parameter,  // the f64 number of bits `value`, element `at` of input `limit`, is out of range;
              // the kernel's family throws the error
  late_peer,  // device `value` of the group did not join within `limit` seconds
};
struct Finding {
  FaultKind kind;
  long long value, limit, at = 0;
  bool exact = true;  // false: `value` stands for a NaN, a fraction or a number past 64 bits
};

// Where the kernels of one op report: page-locked memory. The first report wins. The next
// synchronize() on the context, or copy to pageable memory, throws it: IndexError for an index or a
// label, ValueError for a parameter, DeviceError for a late peer. The text names the op.
struct Fault {
  int raised;  // 1: `finding` and `when` are valid
  Finding finding;
  unsigned long long when;  // the device's clock, ns
  int* taken;               // in device memory: 1 once a thread has reported
};
// Throws the error of a parameter, with the text of the CPU's kernel.
using ThrowParameter = void (*)(const Finding&);
// The second argument is for kernels that report parameters.
Fault* fault(const Call& call, ThrowParameter = nullptr);

#ifdef __CUDACC__
__device__ inline void report(Fault* fault, const Finding& finding) {
  if (atomicExch(fault->taken, 1) == 0) {  // not on `raised`: the bus to the host has no atomics
    fault->finding = finding;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(fault->when));
    __threadfence_system();
    *static_cast<volatile int*>(&fault->raised) = 1;
  }
}
#endif

}  // namespace locus::cuda
