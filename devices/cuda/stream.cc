// Events, waits, and the asynchronous errors that waits throw.
#include <optional>
#include <string>

#include <locus/core/error.h>
#include <locus/devices/cuda/device.h>

namespace locus::cuda {
namespace {

cudaEvent_t native(EventView e) { return static_cast<cudaEvent_t>(e.native); }

}  // namespace

// A timed event costs several times an untimed one.
EventView CudaDevice::record(StreamView s, bool timed) {
  check_process();
  CudaStream& stream = find_stream(s);
  cudaEvent_t event = (timed ? timed_events_ : events_).take();
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

// Recording an event again does not affect streams that wait for its earlier record, so it can be
// reused at once.
void CudaDevice::release(EventView e) noexcept {
  (e.timed ? timed_events_ : events_).put(native(e));
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
  check_process();
  LOCUS_CUDA(cuda::wait(find_stream(waiter).native(), native(e)));
}

void CudaDevice::wait_host(EventView e) {
  check_process();
  LOCUS_CUDA(cudaEventSynchronize(native(e)));
}

double CudaDevice::elapsed_ms(EventView from, EventView to) {
  float ms = 0;
  LOCUS_CUDA(cudaEventElapsedTime(&ms, native(from), native(to)));
  return ms;
}

void CudaDevice::wait_for(CudaStream& s) {
  std::optional<MutexLock> lock;  // no capture begins during the wait
  if (s.for_captures) lock.emplace(s.mutex);
  const cudaError_t error = s.capturing ? cudaSuccess : cuda::synchronize(s.native());
  if (error == cudaSuccess) [[likely]]
    return;
  static_cast<void>(cudaGetLastError());
  const char* op = s.op.load(std::memory_order_relaxed);
  throw DeviceError(op ? op : "a copy", " on ", context_,
                    ", or an op before it: ", cudaGetErrorString(error),
                    " (found asynchronously; CUDA_LAUNCH_BLOCKING=1 finds it at the op itself)");
}

void CudaDevice::synchronize(StreamView s) {
  check_process();
  if (s.id != 0) {
    wait_for(find_stream(s));
  } else {
    std::vector<CudaStream*> all;
    {
      const MutexLock lock(streams_mutex_);
      all = streams_;
    }
    FirstFailure failure;
    for (CudaStream* stream : all) failure.run([&] { wait_for(*stream); });
    failure.rethrow();
  }
  check_faults();
}

void CudaDevice::check_faults() {
  faults_.check(context_, lanes_[static_cast<int>(Lane::to_host)]->native());
}

}  // namespace locus::cuda
