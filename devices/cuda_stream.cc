// Events, waiting, and the errors that surface there.
#include <algorithm>
#include <atomic>
#include <exception>
#include <string>

#include <locus/core/error.h>
#include <locus/devices/cuda_device.h>
#include <locus/devices/cuda_driver.h>

namespace locus::cuda {
namespace {

cudaEvent_t native(EventView e) { return static_cast<cudaEvent_t>(e.native); }

}  // namespace

// An event with a time costs several times one without.
EventView CudaDevice::record(StreamView s, bool timed) {
  CudaStream& stream = find_stream(s);
  std::vector<cudaEvent_t>& unused = timed ? timed_events_ : events_;
  cudaEvent_t event = nullptr;
  {
    std::lock_guard lock(events_mutex_);
    if (!unused.empty()) {
      event = unused.back();
      unused.pop_back();
    }
  }
  if (!event) {
    const Guard guard(index());
    LOCUS_CUDA(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming));
  }
  const EventView view{context_, event, timed};
  try {
    LOCUS_CUDA(cuda::record(event, stream.native()));
  } catch (...) {
    release(view);
    throw;
  }
  return view;
}

// Recording an event again does not disturb the streams that wait for its earlier record, so it can
// be reused at once.
void CudaDevice::release(EventView e) noexcept {
  std::lock_guard lock(events_mutex_);
  (e.timed ? timed_events_ : events_).push_back(native(e));
}

bool CudaDevice::done(EventView e) {
  const cudaError_t state = cudaEventQuery(native(e));
  if (state == cudaSuccess) return true;
  if (state != cudaErrorNotReady) failed(state, "cudaEventQuery", __FILE__, __LINE__);
  static_cast<void>(cudaGetLastError());
  return false;
}

void CudaDevice::wait(StreamView waiter, EventView e) {
  if (e.context.type != DeviceType::gpu) return device(e.context).wait_host(e);
  LOCUS_CUDA(cuda::wait(find_stream(waiter).native(), native(e)));
}

void CudaDevice::wait_host(EventView e) { LOCUS_CUDA(cudaEventSynchronize(native(e))); }

double CudaDevice::elapsed_ms(EventView from, EventView to) {
  float ms = 0;
  LOCUS_CUDA(cudaEventElapsedTime(&ms, native(from), native(to)));
  return ms;
}

void CudaDevice::wait_for(CudaStream& s) {
  const cudaError_t error = cuda::synchronize(s.native());
  if (error == cudaSuccess) [[likely]]
    return;
  static_cast<void>(cudaGetLastError());
  const char* op = s.op.load(std::memory_order_relaxed);
  throw DeviceError(std::string(op ? op : "a copy") + " on " + to_string(context_) +
                    ", or an op before it: " + cudaGetErrorString(error) +
                    " (found asynchronously; CUDA_LAUNCH_BLOCKING=1 finds it at the op itself)");
}

void CudaDevice::synchronize(StreamView s) {
  if (s.id != 0) {
    wait_for(find_stream(s));
  } else {
    std::vector<CudaStream*> all;
    {
      std::lock_guard lock(streams_mutex_);
      all = streams_;
    }
    std::exception_ptr failure;
    for (CudaStream* stream : all) {
      try {
        wait_for(*stream);
      } catch (const DeviceError&) {
        if (!failure) failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
  }
  check_faults();
}

void CudaDevice::check_faults() {
  faults_.check(context_, lanes_[static_cast<int>(Lane::to_host)]->native());
}

void Faults::open() {
  LOCUS_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&words_), kWords * sizeof(Fault),
                           cudaHostAllocMapped | cudaHostAllocPortable));
  LOCUS_CUDA(cudaMalloc(reinterpret_cast<void**>(&taken_), kWords * sizeof(int)));
  LOCUS_CUDA(cudaMemset(taken_, 0, kWords * sizeof(int)));
  LOCUS_CUDA(cudaStreamSynchronize(nullptr));  // the streams to come do not wait for it
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
    std::lock_guard lock(mutex_);
    const int now = size_.load(std::memory_order_relaxed);
    i = find(n, now);
    if (i < 0) {
      LOCUS_CHECK(now < kWords, "more than " + std::to_string(kWords) + " ops report faults");
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
  std::lock_guard lock(mutex_);
  const Fault fault = words_[first];
  if (fault.raised != 1) return;  // another thread throws it
  for (int i = 0; i < n; ++i) {
    std::atomic_ref raised(words_[i].raised);
    if (raised.load(std::memory_order_acquire) == 1) raised.store(0, std::memory_order_release);
  }
  const Guard guard(context.index);
  LOCUS_CUDA(cudaMemsetAsync(taken_, 0, kWords * sizeof(int), s));
  LOCUS_CUDA(cuda::synchronize(s));
  throw IndexError(std::string(ops_[first] ? ops_[first] : "a kernel") + ": index " +
                   std::to_string(fault.value) + " is out of range for axis of length " +
                   std::to_string(fault.limit) + " (" + to_string(context) +
                   ", found asynchronously)");
}

Fault* fault(const Call& call) {
  CudaStream& s = find_stream(call.stream);
  return s.device->faults().word(s.op.load(std::memory_order_relaxed));
}

}  // namespace locus::cuda
