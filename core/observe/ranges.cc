#include <locus/core/observe/ranges.h>

#include <atomic>

#include <locus/core/base/environment.h>
#include <locus/core/error.h>

namespace locus::tracing {
namespace {

constinit std::atomic<const RangeCalls*> provided{nullptr};

}  // namespace

void set_range_calls(const RangeCalls* calls) { provided.store(calls, std::memory_order_release); }
const RangeCalls* range_calls() { return provided.load(std::memory_order_acquire); }

bool ranges_wanted() {
  if (environment_number("LOCUS_NVTX", 0, 1).value_or(0) == 0) return false;
  if (!range_calls())
    throw Error(
        "LOCUS_NVTX=1: there is no NVTX here; expected a build with CUDA (LOCUS_CUDA=ON) and its "
        "NVTX headers, without emulated GPUs; otherwise unset LOCUS_NVTX");
  return true;
}

}  // namespace locus::tracing
