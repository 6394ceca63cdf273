// The CUDA back end: gpu(i) on NVIDIA hardware, and what .cu files need of it.
//
// A context has four non-blocking streams (compute, to_device, to_host, peer) and never uses the
// legacy default stream. Its memory comes from a caching pool (pool.h). The CUDA current device of
// the calling thread is the same after every public call as before.
//
// Copies: page-locked memory (cpu_pinned) goes asynchronously; pageable memory through a ring of
// page-locked slots, moved by several threads; between devices directly, once a copy over that link
// has been compared, else through the host, which is said once. LOCUS_P2P=off keeps off the links.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <locus/core/kernel.h>

namespace locus {

// Registers gpu when the driver has a device; without a driver num_gpus() is 0 and nothing fails.
// Also gives cpu_pinned page-locked memory.
void register_cuda();

namespace cuda {

inline cudaStream_t stream(const Call& call) {
  return static_cast<cudaStream_t>(call.stream.native);
}

// What follows is for kernel functions, while launch() runs them: launches on one stream exclude
// each other, so that two threads never share a scratch buffer. The look-up by stream is a few
// nanoseconds. None of this memory shows in memory_pool().stats().

// Scratch memory of the stream, aligned to 256 bytes: contents are lost at the next launch there,
// or the next call with more bytes. Keeps the largest size asked for; growing waits for the stream.
void* workspace(StreamView s, size_t bytes);

// n <= kMaxCounters zeros of the stream: where the blocks of a kernel count themselves, so that the
// last one to arrive can finish the work of all. Every kernel leaves them zero.
inline constexpr int kMaxCounters = 8192;
unsigned* counters(StreamView s, int n);

// Handles bound to the stream, made at first use, with 32 MiB of device memory of their own (what
// cuBLAS recommends on Hopper), which makes results repeatable. Call blas() at every use: it sets
// the math mode.
cublasHandle_t blas(StreamView s);
cublasLtHandle_t blas_lt(StreamView s);
// The handles' memory, for cublasLtMatmul on this stream.
struct Workspace {
  void* data;
  size_t bytes;
};
Workspace blas_workspace(StreamView s);

// Whether f32 matrix products may round their operands to TF32 (10 bits of mantissa) for the tensor
// cores: several times faster, relative errors near 1e-3. Off at the start; process-wide; takes
// effect at the next launch. Kernels that use cublasLtMatmul pick CUBLAS_COMPUTE_32F_FAST_TF32 by
// it.
bool tf32();
void set_tf32(bool on);

int multiprocessors(StreamView s);

// Where a kernel reports bad values it cannot throw for: an index or a label out of range. Each op
// has a word of its own, in page-locked memory; the first report wins. The next synchronize() or
// copy to pageable memory on the context throws IndexError with the op's name. In device code:
// cuda::report(fault, value, limit).
struct Fault {
  int raised;  // 1: value and limit are valid
  long long value, limit;
  unsigned long long when;  // the device's clock, ns
  int* taken;               // in the device's memory: 1 once a thread reports here
};
Fault* fault(const Call& call);

#ifdef __CUDACC__
__device__ inline void report(Fault* fault, long long value, long long limit) {
  if (atomicExch(fault->taken, 1) == 0) {  // not on `raised`: the bus to the host has no atomics
    fault->value = value;
    fault->limit = limit;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(fault->when));
    __threadfence_system();
    *static_cast<volatile int*>(&fault->raised) = 1;
  }
}
#endif

}  // namespace cuda
}  // namespace locus
