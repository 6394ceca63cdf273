#include <locus/devices/cuda_faults.h>

#include <atomic>
#include <string>

#include <locus/core/error.h>
#include <locus/devices/cuda_check.h>
#include <locus/devices/cuda_driver.h>

namespace locus::cuda {

void Faults::open(cudaStream_t s) {
  LOCUS_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&words_), kWords * sizeof(Fault),
                           cudaHostAllocMapped | cudaHostAllocPortable));
  LOCUS_CUDA(cudaMalloc(reinterpret_cast<void**>(&taken_), kWords * sizeof(int)));
  LOCUS_CUDA(cudaMemsetAsync(taken_, 0, kWords * sizeof(int), s));
  LOCUS_CUDA(cuda::synchronize(s));  // other streams do not wait for it
  for (int i = 0; i < kWords; ++i) {
    words_[i] = Fault{};
    words_[i].taken = taken_ + i;
  }
}

Fault* Faults::word(const char* op) {
  const auto find = [&](int from, int n) {
    for (int i = from; i < n; ++i)
      if (ops_[i] == op) return i;
    return -1;
  };
  const int n = size_.load(std::memory_order_acquire);
  int i = find(0, n);
  if (i < 0) {
    const MutexLock lock(mutex_);
    const int now = size_.load(std::memory_order_relaxed);
    i = find(n, now);
    if (i < 0) {
      LOCUS_CHECK(now < kWords, "more than ", kWords, " ops report faults");
      ops_[i = now] = op;
      size_.store(now + 1, std::memory_order_release);
    }
  }
  return words_ + i;
}

void Faults::check(Context context, cudaStream_t s) {
  const int n = size_.load(std::memory_order_acquire);
  int first = -1;
  for (int i = 0; i < n; ++i) {
    if (std::atomic_ref(words_[i].raised).load(std::memory_order_acquire) != 1) continue;
    if (first < 0 || words_[i].when < words_[first].when) first = i;
  }
  if (first < 0) [[likely]]
    return;
  const MutexLock lock(mutex_);
  const Fault fault = words_[first];
  if (fault.raised != 1) return;  // another thread throws it
  for (int i = 0; i < n; ++i) {
    std::atomic_ref raised(words_[i].raised);
    if (raised.load(std::memory_order_acquire) == 1) raised.store(0, std::memory_order_release);
  }
  const Guard guard(context.index);
  LOCUS_CUDA(cudaMemsetAsync(taken_, 0, kWords * sizeof(int), s));
  LOCUS_CUDA(cuda::synchronize(s));
  if (fault.exact == kLate)
    throw DeviceError(ops_[first] ? ops_[first] : "a kernel", ": device ", fault.value,
                      " of the group did not come within ", fault.limit, " s (", context,
                      ", found asynchronously); every context of a group takes part in its "
                      "collectives, in one order");
  throw IndexError(ops_[first] ? ops_[first] : "a kernel", ": index ",
                   fault.exact ? std::to_string(fault.value) : "that is no whole number",
                   " is out of range for axis of length ", fault.limit, " (", context,
                   ", found asynchronously)");
}

}  // namespace locus::cuda
