// Makes a stream late, so that an order that is missing shows.
#pragma once

#include <chrono>

#include <locus/core/context.h>
#include <locus/core/device.h>
#ifdef LOCUS_WITH_CUDA
#include <locus/devices/cuda_device.h>
#endif

namespace locus::test {

inline constexpr std::chrono::microseconds kDelay{20};

inline void spin() {
  const auto end = std::chrono::steady_clock::now() + kDelay;
  while (std::chrono::steady_clock::now() < end) continue;
}

// Later work on s starts kDelay later. The host's own stream has nothing to delay.
inline void delay(StreamView s) {
  if (s.id == 0) return;
  if (context_info(s.context).emulated) {
    const Call call{nullptr, nullptr, 0, 0, nullptr, 0, s};
    device(s.context).launch([](const Call&) { spin(); }, call, "delay");
    return;
  }
#ifdef LOCUS_WITH_CUDA
  const cuda::Guard guard(s.context.index);
  LOCUS_CUDA(cudaLaunchHostFunc(
      static_cast<cudaStream_t>(s.native), [](void*) { spin(); }, nullptr));
#endif
}

}  // namespace locus::test
