// Arrival counters of a stream. Kernel functions ask for them while launch() holds its mutex.
#include <string>

#include <locus/core/error.h>

#include <locus/devices/cuda_device.h>

namespace locus::cuda {

unsigned* counters(StreamView view, int n) {
  LOCUS_CHECK(n <= kMaxCounters, "at most " + std::to_string(kMaxCounters) + " counters a launch");
  CudaStream& s = find_stream(view);
  if (!s.counters) [[unlikely]] {
    const Guard guard(s.device->index());
    constexpr size_t kBytes = kMaxCounters * sizeof(unsigned);
    void* memory = s.device->allocate_raw(kBytes);
    LOCUS_CUDA(cudaMemsetAsync(memory, 0, kBytes, s.native()));
    s.counters = static_cast<unsigned*>(memory);
  }
  return s.counters;
}

}  // namespace locus::cuda
