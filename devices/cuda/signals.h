// What the kernels of a device tell each other and the host through memory that lives as long as
// the device: counters of a stream, and words for faults. Made when the stream and the device are
// opened, so that a kernel function finds it there, and a captured kernel finds it again.
#pragma once

#include <cuda_runtime_api.h>

#include <locus/core/kernel.h>

namespace locus::cuda {

// n <= kMaxCounters zeros of the stream: where the blocks of a kernel count themselves, so that the
// last one to arrive can finish the work of all. Every kernel leaves them zero.
inline constexpr int kMaxCounters = 8192;
unsigned* counters(StreamView s, int n);

// What a kernel found and cannot throw.
enum class FaultKind : int {
  index,      // `value` is outside the axis `at`, whose length is `limit`
  label,      // `value`, in row `at`, is none of `limit` classes
  late_peer,  // device `value` of the group did not come within `limit` seconds
};
struct Finding {
  FaultKind kind;
  long long value, limit, at = 0;
  bool exact = true;  // false: `value` stands for a NaN, a fraction or a number past 64 bits
};

// Where the kernels of one op report: page-locked memory. The first report wins. The next
// synchronize() on the context, or copy to pageable memory, throws what the kind stands for:
// IndexError for an index or a label, DeviceError for a late peer. The text names the op.
struct Fault {
  int raised;  // 1: `finding` and `when` are valid
  Finding finding;
  unsigned long long when;  // the device's clock, ns
  int* taken;               // in the device's memory: 1 once a thread reports here
};
Fault* fault(const Call& call);

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
