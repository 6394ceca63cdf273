// The CUDA back end: gpu(i) on NVIDIA hardware, and what .cu files need of it.
//
// A context has four non-blocking streams (compute, to_device, to_host, peer) and never uses the
// legacy default stream. Its memory comes from a caching pool (pool.h). The CUDA current device of
// the calling thread is the same after every public call as before.
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

// Scratch memory of a stream, for the kernels of one launch: contents are lost at the next launch
// there. Grows in stream order.
void* workspace(StreamView s, size_t bytes);

// Handles bound to the stream, with a workspace of their own. The math mode is f32 (no TF32) unless
// set_tf32(true).
cublasHandle_t blas(StreamView s);
cublasLtHandle_t blas_lt(StreamView s);
// Device memory for cublasLtMatmul on this stream.
struct Workspace {
  void* data;
  size_t bytes;
};
Workspace blas_workspace(StreamView s);
bool tf32();
void set_tf32(bool on);

int multiprocessors(StreamView s);

// Where a kernel reports bad values it cannot throw for: an index or a label out of range. The
// first report wins; the next synchronize() on the context throws IndexError with the op's name. In
// device code: cuda::report(fault, value, limit).
struct Fault {
  int raised;  // 0 or 1
  int op;      // which launch, filled by the host side
  long long value, limit;
};
Fault* fault(const Call& call);

#ifdef __CUDACC__
__device__ inline void report(Fault* fault, long long value, long long limit) {
  if (atomicCAS_system(&fault->raised, 0, 2) == 0) {
    fault->value = value;
    fault->limit = limit;
    __threadfence_system();
    atomicExch_system(&fault->raised, 1);
  }
}
#endif

}  // namespace cuda
}  // namespace locus
