#include <locus/devices/cuda/device.h>
#include <locus/devices/cuda/exit.h>
#include <locus/devices/cuda/unlocked_stream.h>

#include <string>

#include <locus/core/base/id_table.h>
#include <locus/core/error.h>
#include <locus/devices/nccl/nccl.h>

namespace locus {
namespace cuda {
namespace {

constinit IdTable<CudaStream> streams;
constinit std::atomic<int> opened_first{-1};

[[noreturn]] void unknown_stream(StreamView s) {
  throw Error(s.context, ": stream ", s.id,
              " is not a CUDA stream of Locus; expected device(context).stream() or a Stream");
}

}  // namespace

void launch_failed(cudaError_t error, const char* name, Context context) {
  const std::string text = std::string(name) + ": the launch on " + to_string(context) +
                           " failed: " + cudaGetErrorString(error);
  if (error == cudaErrorMemoryAllocation) throw OutOfMemory(text);
  throw DeviceError(text);
}

int first_opened() { return opened_first.load(std::memory_order_relaxed); }

CudaStream& find_stream(StreamView s) {
  CudaStream* found = streams.find(s.id);
  if (!found) [[unlikely]]
    unknown_stream(s);
  return *found;
}

int multiprocessors(StreamView s) { return find_stream(s).device->multiprocessors(); }

void* library(StreamView s, Library library) { return find_stream(s).device->library(library); }

// Kernel functions call these while launch() holds the stream's mutex.
unsigned* counters(StreamView view, int n) {
  LOCUS_CHECK(n <= kMaxCounters, "at most ", kMaxCounters, " counters a launch");
  return find_stream(view).counters;
}

Fault* fault(const Call& call, ThrowParameter throw_parameter) {
  CudaStream& s = find_stream(call.stream);
  return s.device->faults().word(s.op.load(std::memory_order_relaxed), throw_parameter);
}

// Keeps the op's name, which other threads' launches replace.
UnlockedStream::UnlockedStream(StreamView s) LOCUS_THREAD_SAFETY(no_thread_safety_analysis)
    : stream_(find_stream(s)), op_(stream_.op.load(std::memory_order_relaxed)) {
  stream_.mutex.unlock();
}
UnlockedStream::~UnlockedStream() LOCUS_THREAD_SAFETY(no_thread_safety_analysis) {
  stream_.mutex.lock();
  stream_.op.store(op_, std::memory_order_relaxed);
}
void UnlockedStream::enqueue(const std::function<void()>& f) const {
  const MutexLock lock(stream_.mutex);
  stream_.op.store(op_, std::memory_order_relaxed);
  f();
}

CudaDevice::CudaDevice(Context context) : context_(context) {
  const Guard guard(index());
  cudaDeviceProp properties;
  LOCUS_CUDA(cudaGetDeviceProperties(&properties, index()));
  name_ = properties.name;
  multiprocessors_ = properties.multiProcessorCount;
  capability_ = 10 * properties.major + properties.minor;
  pool_ = make_pool(context);
  libraries_[static_cast<int>(Library::blas)] = make_blas();
  libraries_[static_cast<int>(Library::dnn)] = make_dnn();
  libraries_[static_cast<int>(Library::solver)] = make_solver();
  for (CudaStream*& lane : lanes_) lane = new_stream();
  faults_.open(lanes_[0]->native());
  int none = -1;
  opened_first.compare_exchange_strong(none, index());
  watch_exit();
}

CudaStream* CudaDevice::new_stream(bool for_captures) {
  cudaStream_t native;
  LOCUS_CUDA(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking));
  auto* s = new CudaStream;
  s->device = this;
  s->for_captures = for_captures;
  s->view = {context_, new_stream_id(), native};
  constexpr size_t kCounterBytes = kMaxCounters * sizeof(unsigned);
  s->counters = static_cast<unsigned*>(allocate_raw(kCounterBytes));
  LOCUS_CUDA(cudaMemsetAsync(s->counters, 0, kCounterBytes, native));
  LOCUS_CHECK(s->view.id < IdTable<CudaStream>::kCapacity,
              "gpu: too many streams; close those not needed");
  streams.find_or_enter(s->view.id, [&] { return s; });
  const MutexLock lock(streams_mutex_);
  streams_.push_back(s);
  return s;
}

CudaStream& CudaDevice::reopen(Spares<CudaStream*>& unused) {
  if (CudaStream* s = unused.take()) return *s;
  const Guard guard(index());
  return *new_stream(&unused == &captured_);
}

StreamView CudaDevice::open_stream() {
  check_process();
  CudaStream& s = reopen(closed_);
  pool_->revive(s.view);
  s.open = true;
  return s.view;
}

void CudaDevice::close_stream(StreamView s) noexcept {
  if (devices_unload || fork_count() > 0) return;
  CudaStream& stream = find_stream(s);
  // The error stays with the device; the next call that may throw reports it.
  static_cast<void>(cuda::synchronize(stream.native()));
  pool_->retire(s);
  stream.open = false;
  closed_.put(&stream);
}

CudaStream& CudaDevice::own_stream(StreamView s) {
  check_process();
  CudaStream& stream = find_stream(s);
  if (stream.device != this) [[unlikely]]
    throw DeviceError(context_, " was given a stream of ", stream.view.context,
                      "; use one of its own");
  if (!stream.open.load(std::memory_order_relaxed)) [[unlikely]]
    throw DeviceError("a closed stream of ", context_, " was used; open another: Stream(", context_,
                      ")");
  return stream;
}

void CudaDevice::launch(Kernel kernel, const Call& call, const char* name) {
  const Guard guard(index());
  CudaStream& s = own_stream(call.stream);
  const MutexLock lock(s.mutex);
  s.op.store(name, std::memory_order_relaxed);
  kernel(call);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) [[unlikely]]
    launch_failed(error, name, context_);
}

MemoryInfo CudaDevice::memory() {
  check_process();
  const Guard guard(index());
  MemoryInfo info;
  LOCUS_CUDA(cudaMemGetInfo(&info.free, &info.total));
  return info;
}

ContextInfo CudaDevice::info() { return {.name = name_, .emulated = false}; }

}  // namespace cuda

bool register_cuda() {
  static_cast<void>(fork_count());  // starts counting
  cuda::offer_nvtx();
  if (cuda::num_devices() == 0) return false;
  register_device(DeviceType::gpu,
                  {.name = "gpu",
                   .count = &cuda::num_devices,
                   .open = [](Context c) -> std::unique_ptr<Device> {
                     return std::make_unique<cuda::CudaDevice>(c);
                   },
                   .advice = "CUDA_VISIBLE_DEVICES decides which ones a program sees; "
                             "LOCUS_EMULATED_GPUS=N gives N emulated ones instead"});
  set_communicators(DeviceType::gpu, &cuda::make_group);
  set_rank_links(DeviceType::gpu, cuda::nccl_links());
  set_gpu_identity([](int index) {
    cudaDeviceProp properties;
    LOCUS_CUDA(cudaGetDeviceProperties(&properties, index));
    return std::string(properties.uuid.bytes, sizeof(properties.uuid.bytes));
  });
  cuda::offer_pinned_memory();
  return true;
}

}  // namespace locus
