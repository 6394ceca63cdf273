#include <locus/devices/cuda.h>

#include <array>
#include <string>

#include <locus/core/error.h>
#include <locus/devices/cuda_device.h>

namespace locus {
namespace cuda {
namespace {

// Streams by id: chunks that never move, so that look-ups need no lock.
constexpr uint32_t kChunkBits = 10, kChunk = 1u << kChunkBits, kChunks = 1u << 12;
struct StreamTable {
  using Chunk = std::array<std::atomic<CudaStream*>, kChunk>;
  std::mutex mutex;
  std::atomic<Chunk*> chunks[kChunks] = {};
};
StreamTable table;

void enter_stream(CudaStream& s) {
  const uint32_t id = s.view.id;
  LOCUS_CHECK(id < kChunk * kChunks, "gpu: too many streams; close those not needed");
  std::lock_guard lock(table.mutex);
  std::atomic<StreamTable::Chunk*>& chunk = table.chunks[id >> kChunkBits];
  if (!chunk) chunk = new StreamTable::Chunk{};
  (*chunk.load())[id & (kChunk - 1)] = &s;
}

[[noreturn]] void unknown_stream(StreamView s) {
  throw Error(to_string(s.context) + ": stream " + std::to_string(s.id) +
              " is not a CUDA stream of Locus; expected device(context).stream() or a Stream");
}

[[noreturn]] void launch_failed(cudaError_t error, const char* name, Context context) {
  const std::string text = std::string(name) + " on " + to_string(context) +
                           ": the launch failed: " + cudaGetErrorString(error);
  if (error == cudaErrorMemoryAllocation) throw OutOfMemory(text);
  throw DeviceError(text);
}

}  // namespace

int num_devices() {
  static const int n = [] {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      count = 0;
    }
    return count;
  }();
  return n;
}

CudaStream& find_stream(StreamView s) {
  if (s.id >= kChunk * kChunks) unknown_stream(s);
  const StreamTable::Chunk* chunk =
      table.chunks[s.id >> kChunkBits].load(std::memory_order_acquire);
  CudaStream* found =
      chunk ? (*chunk)[s.id & (kChunk - 1)].load(std::memory_order_acquire) : nullptr;
  if (!found) [[unlikely]]
    unknown_stream(s);
  return *found;
}

CudaDevice::CudaDevice(Context context) : context_(context) {
  const Guard guard(index());
  cudaDeviceProp properties;
  LOCUS_CUDA(cudaGetDeviceProperties(&properties, index()));
  name_ = properties.name;
  multiprocessors_ = properties.multiProcessorCount;
  for (CudaStream*& lane : lanes_) lane = new_stream();
  faults_.open();
  pool_ = make_pool(context);
}

CudaStream* CudaDevice::new_stream() {
  cudaStream_t native;
  LOCUS_CUDA(cudaStreamCreateWithFlags(&native, cudaStreamNonBlocking));
  auto* s = new CudaStream;
  s->device = this;
  s->view = {context_, new_stream_id(), native};
  enter_stream(*s);
  std::lock_guard lock(streams_mutex_);
  streams_.push_back(s);
  return s;
}

StreamView CudaDevice::open_stream() {
  {
    std::lock_guard lock(streams_mutex_);
    if (!closed_.empty()) {
      CudaStream* s = closed_.back();
      closed_.pop_back();
      s->open = true;
      return s->view;
    }
  }
  const Guard guard(index());
  return new_stream()->view;
}

void CudaDevice::close_stream(StreamView s) noexcept {
  CudaStream& stream = find_stream(s);
  // An error stays with the device: the next call that may throw reports it.
  static_cast<void>(cudaStreamSynchronize(stream.native()));
  std::lock_guard lock(streams_mutex_);
  stream.open = false;
  closed_.push_back(&stream);
}

CudaStream& CudaDevice::own_stream(StreamView s) {
  CudaStream& stream = find_stream(s);
  if (stream.device != this) [[unlikely]]
    throw DeviceError(to_string(context_) + " was given a stream of " +
                      to_string(stream.view.context) + "; use one of its own");
  if (!stream.open.load(std::memory_order_relaxed)) [[unlikely]]
    throw DeviceError("a closed stream of " + to_string(context_) +
                      " was used; open another: Stream(" + to_string(context_) + ")");
  return stream;
}

void CudaDevice::launch(Kernel kernel, const Call& call, const char* name) {
  const Guard guard(index());
  CudaStream& s = own_stream(call.stream);
  std::lock_guard lock(s.mutex);
  s.op.store(name, std::memory_order_relaxed);
  kernel(call);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) [[unlikely]]
    launch_failed(error, name, context_);
}

MemoryInfo CudaDevice::memory() {
  const Guard guard(index());
  MemoryInfo info;
  LOCUS_CUDA(cudaMemGetInfo(&info.free, &info.total));
  return info;
}

ContextInfo CudaDevice::info() { return {.name = name_, .emulated = false}; }

}  // namespace cuda

void register_cuda() {
  if (cuda::num_devices() == 0) return;
  register_device(DeviceType::gpu,
                  {.name = "gpu",
                   .count = &cuda::num_devices,
                   .open = [](Context c) -> std::unique_ptr<Device> {
                     return std::make_unique<cuda::CudaDevice>(c);
                   },
                   .advice = "CUDA_VISIBLE_DEVICES decides which ones a program sees; "
                             "LOCUS_EMULATED_GPUS=N gives N emulated ones instead"});
  cuda::offer_pinned_memory();
}

}  // namespace locus
