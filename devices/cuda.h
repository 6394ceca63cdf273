// The CUDA back end: gpu(i) on NVIDIA hardware, and what .cu files need of it. Kernel functions
// take memory as a Scratch (core/scratch.h), counters and fault words from signals.h, and what
// a library offers from that library's header (blas.h). Launches on one stream exclude each
// other.
//
// A context has four non-blocking streams (compute, to_device, to_host, peer) and never uses the
// legacy default stream. Its memory comes from a caching pool (pool.h). The CUDA current device of
// the calling thread is the same after every public call as before.
//
// Copies: page-locked memory (cpu_pinned) goes asynchronously; pageable memory through a ring of
// page-locked slots, moved by several threads; between devices directly, once a copy over that link
// has been compared, else through the host, which is said once. LOCUS_P2P=off keeps off the links.
#pragma once

#include <cuda_runtime_api.h>

#include <locus/core/kernel.h>
#include <locus/devices/cuda/signals.h>

namespace locus {

// Registers gpu when the driver has a device, and returns whether it has one; without a driver
// num_gpus() is 0 and nothing fails. Also gives cpu_pinned page-locked memory.
bool register_cuda();

namespace cuda {

inline cudaStream_t stream(const Call& call) {
  return static_cast<cudaStream_t>(call.stream.native);
}

// For kernel functions: a look-up by stream of a few nanoseconds.
int multiprocessors(StreamView s);

}  // namespace cuda
}  // namespace locus
