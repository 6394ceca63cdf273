// The CUDA back end: gpu(i) on NVIDIA hardware, and what .cu files need.
//
// Kernel functions take memory as a Scratch (core/scratch.h), and counters and fault words from
// signals.h. Functions of a library are in that library's header (blas.h). Launches on one stream
// exclude each other. Memory comes from a caching pool (pool.h).
//
// A context has four non-blocking streams: compute, to_device, to_host and peer. The context never
// uses the legacy default stream. Every public call restores the calling thread's current CUDA
// device.
#pragma once

#include <cuda_runtime_api.h>

#include <locus/core/kernel.h>
#include <locus/devices/cuda/signals.h>

namespace locus {

// Registers gpu and gives cpu_pinned page-locked memory, if the driver has a device. Returns
// whether it has one. Without a driver num_gpus() is 0 and nothing fails.
bool register_cuda();

namespace cuda {

inline cudaStream_t stream(const Call& call) {
  return static_cast<cudaStream_t>(call.stream.native);
}

// The number of multiprocessors, for kernel functions. The look-up by stream takes a few
// nanoseconds.
int multiprocessors(StreamView s);

}  // namespace cuda
// --- Details ---
//
// - Copies from and to page-locked memory (cpu_pinned) are asynchronous.
// - Copies from and to pageable memory pass through a ring of page-locked slots. Several threads
// move the bytes.
// - Copies between devices are direct, after a test copy over the link was compared. If the test
//   fails or the driver offers no access, copies go through the host, and stderr says so once.
// - LOCUS_P2P=off turns direct copies between devices off.

}  // namespace locus
