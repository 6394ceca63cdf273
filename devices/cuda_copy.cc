// Copies: host and device, within a device, between devices.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <locus/core/error.h>
#include <locus/devices/cuda_device.h>

namespace locus::cuda {
namespace {

// Larger pageable uploads go through the driver, which overlaps its own staging; the host then
// waits for the end. Smaller ones return as soon as the bytes are in page-locked slots.
constexpr size_t kStagedUpload = Staging::kSlots * Staging::kSlotBytes / 2;
constexpr size_t kProbeBytes = size_t{256} << 10;
constexpr int kMaxDevices = 64;

// Memory for the check of a direct path.
struct Probe {
  explicit Probe(int device) {
    const Guard guard(device);
    LOCUS_CUDA(cudaMalloc(&data, kProbeBytes));
  }
  ~Probe() { static_cast<void>(cudaFree(data)); }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;
  void* data = nullptr;
};

bool enable_access(int from, int to) {
  const Guard guard(from);
  int can = 0;
  LOCUS_CUDA(cudaDeviceCanAccessPeer(&can, from, to));
  if (!can) return false;
  const cudaError_t error = cudaDeviceEnablePeerAccess(to, 0);
  static_cast<void>(cudaGetLastError());
  return error == cudaSuccess || error == cudaErrorPeerAccessAlreadyEnabled;
}

}  // namespace

void CudaDevice::copy(void* dst, Context to, const void* src, Context from, size_t bytes,
                      StreamView view) {
  if (bytes == 0) return;
  const Guard guard(index());
  CudaStream& s = find_stream(view);
  const cudaStream_t native = s.native();
  if (to.type == DeviceType::gpu && from.type == DeviceType::gpu) {
    if (!(to == from)) return copy_peer(dst, to, src, from, bytes, s);
    LOCUS_CUDA(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, native));
  } else if (from.type == DeviceType::cpu_pinned) {
    LOCUS_CUDA(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyHostToDevice, native));
  } else if (to.type == DeviceType::cpu_pinned) {
    LOCUS_CUDA(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost, native));
  } else if (from.type == DeviceType::cpu) {
    upload(dst, src, bytes, native);
  } else if (to.type == DeviceType::cpu) {
    LOCUS_CUDA(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost, native));
    wait_for(s);
    faults_.check(context_, lanes_[0]->native());
  } else {
    throw DeviceError("copy: " + to_string(from) + " to " + to_string(to) +
                      " has no direct path; copy to cpu(0) first");
  }
}

char* CudaDevice::slot(int& which) {
  const Guard guard(index());
  if (!staging_.memory) {
    for (cudaEvent_t& e : staging_.free)
      if (!e) LOCUS_CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    LOCUS_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&staging_.memory),
                             Staging::kSlots * Staging::kSlotBytes, cudaHostAllocPortable));
  }
  which = staging_.next;
  staging_.next = (which + 1) % Staging::kSlots;
  LOCUS_CUDA(cudaEventSynchronize(staging_.free[which]));
  return staging_.memory + static_cast<size_t>(which) * Staging::kSlotBytes;
}

void CudaDevice::upload(void* dst, const void* src, size_t bytes, cudaStream_t s) {
  if (bytes > kStagedUpload) {
    LOCUS_CUDA(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyHostToDevice, s));
    LOCUS_CUDA(cudaStreamSynchronize(s));
    return;
  }
  std::lock_guard lock(staging_.mutex);
  for (size_t at = 0; at < bytes; at += Staging::kSlotBytes) {
    const size_t n = std::min(bytes - at, Staging::kSlotBytes);
    int which;
    char* memory = slot(which);
    std::memcpy(memory, static_cast<const char*>(src) + at, n);
    LOCUS_CUDA(cudaMemcpyAsync(static_cast<char*>(dst) + at, memory, n, cudaMemcpyHostToDevice, s));
    LOCUS_CUDA(cudaEventRecord(staging_.free[which], s));
  }
}

void CudaDevice::copy_peer(void* dst, Context to, const void* src, Context from, size_t bytes,
                           CudaStream& s) {
  if (direct(static_cast<CudaDevice&>(device(from)), static_cast<CudaDevice&>(device(to)))) {
    LOCUS_CUDA(cudaMemcpyPeerAsync(dst, to.index, src, from.index, bytes, s.native()));
  } else {
    copy_staged(dst, to, src, from, bytes, s);
  }
}

// Down on a stream of the source, up on a stream of the destination, one of the two being s.
void CudaDevice::copy_staged(void* dst, Context to, const void* src, Context from, size_t bytes,
                             CudaStream& s) {
  auto& source = static_cast<CudaDevice&>(device(from));
  auto& target = static_cast<CudaDevice&>(device(to));
  CudaStream& down = &source == this ? s : *source.lanes_[static_cast<int>(Lane::peer)];
  CudaStream& up = &target == this ? s : *target.lanes_[static_cast<int>(Lane::peer)];
  // `after` waits for the work of `before` so far.
  const auto order = [](CudaStream& before, CudaStream& after) {
    if (&before == &after) return;
    const EventView e = before.device->record(before.view);
    const cudaError_t error =
        cudaStreamWaitEvent(after.native(), static_cast<cudaEvent_t>(e.native), 0);
    before.device->release(e);
    LOCUS_CUDA(error);
  };
  order(s, down);
  order(s, up);
  {
    // The slots are the target's: their events are recorded on its stream.
    std::lock_guard lock(target.staging_.mutex);
    for (size_t at = 0; at < bytes; at += Staging::kSlotBytes) {
      const size_t n = std::min(bytes - at, Staging::kSlotBytes);
      int which;
      char* memory = target.slot(which);
      {
        const Guard guard(source.index());
        LOCUS_CUDA(cudaMemcpyAsync(memory, static_cast<const char*>(src) + at, n,
                                   cudaMemcpyDeviceToHost, down.native()));
      }
      order(down, up);
      const Guard guard(target.index());
      LOCUS_CUDA(cudaMemcpyAsync(static_cast<char*>(dst) + at, memory, n, cudaMemcpyHostToDevice,
                                 up.native()));
      LOCUS_CUDA(cudaEventRecord(target.staging_.free[which], up.native()));
    }
  }
  order(down, s);
  order(up, s);
}

bool CudaDevice::direct(CudaDevice& source, CudaDevice& target) {
  enum class Path : uint8_t { unknown, direct, staged };
  static std::atomic<Path> paths[kMaxDevices][kMaxDevices];
  static std::mutex mutex;
  std::atomic<Path>& path = paths[source.index()][target.index()];
  if (path.load(std::memory_order_acquire) == Path::unknown) {
    std::lock_guard lock(mutex);
    if (path.load(std::memory_order_acquire) == Path::unknown) {
      const bool works = try_direct(source, target);
      if (!works)
        std::fprintf(stderr, "locus: gpu(%d) cannot copy to gpu(%d) directly; through the host\n",
                     source.index(), target.index());
      path.store(works ? Path::direct : Path::staged, std::memory_order_release);
    }
  }
  return path.load(std::memory_order_acquire) == Path::direct;
}

// Some machines offer peer access and then deliver other bytes (an IOMMU in the way), so one copy
// is compared before the path is used. Both ends need access: either may issue copies.
bool CudaDevice::try_direct(CudaDevice& source, CudaDevice& target) {
  const bool out = enable_access(source.index(), target.index());
  const bool in = enable_access(target.index(), source.index());
  if (!out || !in) return false;
  const Probe from(source.index()), to(target.index());
  std::vector<unsigned char> pattern(kProbeBytes), seen(kProbeBytes);
  for (size_t i = 0; i < kProbeBytes; ++i)
    pattern[i] = static_cast<unsigned char>(i * 131 + i / 251 + 1);
  const auto lane = [](CudaDevice& d) { return d.lanes_[static_cast<int>(Lane::peer)]->native(); };
  const auto move = [&](CudaDevice& d, void* p, const void* q, cudaMemcpyKind kind) {
    const Guard guard(d.index());
    LOCUS_CUDA(cudaMemcpyAsync(p, q, kProbeBytes, kind, lane(d)));
    LOCUS_CUDA(cudaStreamSynchronize(lane(d)));
  };
  move(source, from.data, pattern.data(), cudaMemcpyHostToDevice);
  for (CudaDevice* issuer : {&source, &target}) {
    std::fill(seen.begin(), seen.end(), static_cast<unsigned char>(0));
    move(target, to.data, seen.data(), cudaMemcpyHostToDevice);
    const Guard guard(issuer->index());
    LOCUS_CUDA(cudaMemcpyPeerAsync(to.data, target.index(), from.data, source.index(), kProbeBytes,
                                   lane(*issuer)));
    LOCUS_CUDA(cudaStreamSynchronize(lane(*issuer)));
    move(target, seen.data(), to.data, cudaMemcpyDeviceToHost);
    if (seen != pattern) return false;
  }
  return true;
}

}  // namespace locus::cuda
