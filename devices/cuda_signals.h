// What the kernels of a device tell each other and the host through memory that lives as long as
// the device: counters of a stream, and words for bad values. Made when the stream and the device
// are opened, so that a kernel function finds it there, and a captured kernel finds it again.
#pragma once

#include <cuda_runtime_api.h>

#include <locus/core/kernel.h>

namespace locus::cuda {

// n <= kMaxCounters zeros of the stream: where the blocks of a kernel count themselves, so that the
// last one to arrive can finish the work of all. Every kernel leaves them zero.
inline constexpr int kMaxCounters = 8192;
unsigned* counters(StreamView s, int n);

// Where a kernel reports bad values it cannot throw for: an index or a label out of range. Each op
// has a word of its own, in page-locked memory; the first report wins. The next synchronize() or
// copy to pageable memory on the context throws IndexError with the op's name. In device code:
// cuda::report(fault, value, limit), exact = false where the value is no whole number; kLate, a
// DeviceError, where device `value` did not come within `limit` seconds.
inline constexpr int kLate = 2;
struct Fault {
  int raised;  // 1: the others are valid
  int exact;   // or kLate
  long long value, limit;
  unsigned long long when;  // the device's clock, ns
  int* taken;               // in the device's memory: 1 once a thread reports here
};
Fault* fault(const Call& call);

#ifdef __CUDACC__
__device__ inline void report(Fault* fault, long long value, long long limit, int exact = 1) {
  if (atomicExch(fault->taken, 1) == 0) {  // not on `raised`: the bus to the host has no atomics
    fault->value = value;
    fault->limit = limit;
    fault->exact = exact;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(fault->when));
    __threadfence_system();
    *static_cast<volatile int*>(&fault->raised) = 1;
  }
}
#endif

}  // namespace locus::cuda
