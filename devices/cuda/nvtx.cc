// Ranges for NVIDIA's profilers, by the header-only library NVTX 3. A call costs a few nanoseconds
// if no profiler is attached.
#include <locus/core/observe/ranges.h>
#include <locus/devices/cuda/device.h>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#endif

namespace locus::cuda {

void offer_nvtx() {
#if __has_include(<nvtx3/nvToolsExt.h>)
  static constexpr tracing::RangeCalls kCalls{[](const char* name) { nvtxRangePushA(name); },
                                              [] { nvtxRangePop(); }};
  tracing::set_range_calls(&kCalls);
#endif
}

}  // namespace locus::cuda
