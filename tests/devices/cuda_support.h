// Hardware requirements of CUDA tests, and kernels that stall a stream.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include <locus/core/context.h>
#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/core/stream.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>

#ifdef LOCUS_WITH_CUDA
#include <locus/devices/cuda.h>
#include <locus/devices/cuda/check.h>
#endif

namespace locus::test {

// Emulated GPUs do not count.
inline int real_gpus() { return num_gpus() > 0 && !context_info(gpu(0)).emulated ? num_gpus() : 0; }

#define LOCUS_NEEDS_GPUS(n)                                                           \
  if (locus::test::real_gpus() < (n))                                                 \
  GTEST_SKIP() << "needs " << (n) << " NVIDIA GPU(s) and a CUDA build; this run has " \
               << locus::test::real_gpus()

#ifdef LOCUS_WITH_CUDA
inline constexpr std::chrono::milliseconds kStall{100};

// Keeps a stream busy for kStall.
inline void stall(StreamView s) {
  LOCUS_CUDA(cudaLaunchHostFunc(
      static_cast<cudaStream_t>(s.native), [](void*) { std::this_thread::sleep_for(kStall); },
      nullptr));
}
#endif

}  // namespace locus::test
