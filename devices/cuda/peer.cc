// Copies between devices: direct if a test of the link succeeds, else through the host.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <locus/core/base/environment.h>
#include <locus/core/error.h>
#include <locus/devices/cuda/device.h>

namespace locus::cuda {
namespace {

constexpr size_t kProbeBytes = size_t{256} << 10;

// Memory for the check of a direct path.
struct Probe : NonCopyable {
  explicit Probe(CudaDevice& d) : data(d.allocate_raw(kProbeBytes)) {}
  ~Probe() { static_cast<void>(free_memory(data)); }
  void* data;
};

enum class Path : uint8_t { unknown, direct, staged };
struct Links {
  Mutex mutex;  // held to check a path
  std::atomic<Path> paths[kMaxDevices][kMaxDevices] = {};
  bool access[kMaxDevices][kMaxDevices] LOCUS_GUARDED_BY(mutex) = {};  // was enabled
};
constinit Links links;

// CUDA cannot be asked whether access is enabled, and enabling it twice is an error. The caller
// holds links.mutex.
bool enable_access(int from, int to) LOCUS_THREAD_SAFETY(no_thread_safety_analysis) {
  if (links.access[from][to]) return true;
  const Guard guard(from);
  int can = 0;
  LOCUS_CUDA(cudaDeviceCanAccessPeer(&can, from, to));
  if (!can) return false;
  const cudaError_t error = cudaDeviceEnablePeerAccess(to, 0);
  static_cast<void>(cudaGetLastError());
  // Another part of the program may have enabled it.
  links.access[from][to] = error == cudaSuccess || error == cudaErrorPeerAccessAlreadyEnabled;
  return links.access[from][to];
}

}  // namespace

void CudaDevice::copy_peer(void* dst, Context to, const void* src, Context from, size_t bytes,
                           CudaStream& s) {
  if (direct(static_cast<CudaDevice&>(device(from)), static_cast<CudaDevice&>(device(to))))
    LOCUS_CUDA(copy_across(dst, src, bytes, s.native()));
  else
    copy_staged(dst, to, src, from, bytes, s);
}

// Copies down on a stream of the source and up on a stream of the target. s is one of them.
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
    const cudaError_t error = cuda::wait(after.native(), static_cast<cudaEvent_t>(e.native));
    before.device->release(e);
    if (error != cudaSuccess) failed(error, "cuStreamWaitEvent", __FILE__, __LINE__);
  };
  order(s, down);
  order(s, up);
  {
    // The slots are the target's: their events are recorded on its stream.
    const MutexLock lock(target.up_.mutex);
    for (size_t at = 0; at < bytes; at += Ring::kSlotBytes) {
      const size_t n = std::min(bytes - at, Ring::kSlotBytes);
      Ring::Slot& slot = target.up_.take();
      LOCUS_CUDA(copy_down(slot.memory, static_cast<const char*>(src) + at, n, down.native()));
      order(down, up);
      LOCUS_CUDA(copy_up(static_cast<char*>(dst) + at, slot.memory, n, up.native()));
      LOCUS_CUDA(cuda::record(slot.free, up.native()));
    }
  }
  order(down, s);
  order(up, s);
}

bool CudaDevice::direct(CudaDevice& source, CudaDevice& target) {
  std::atomic<Path>& path = links.paths[source.index()][target.index()];
  if (path.load(std::memory_order_acquire) == Path::unknown) {
    const MutexLock lock(links.mutex);
    if (path.load(std::memory_order_acquire) == Path::unknown) {
      const char* why_not = try_direct(source, target);
      if (why_not)
        std::fprintf(stderr, "locus: copies from gpu(%d) to gpu(%d) go through the host: %s\n",
                     source.index(), target.index(), why_not);
      path.store(why_not ? Path::staged : Path::direct, std::memory_order_release);
    }
  }
  return path.load(std::memory_order_acquire) == Path::direct;
}

// Some machines offer peer access but deliver wrong bytes (an IOMMU in the way), so test copies are
// compared first. Both ends need access, because either may issue copies. Returns why the path
// cannot be used, or nullptr.
const char* CudaDevice::try_direct(CudaDevice& source, CudaDevice& target) {
  if (environment_choice("LOCUS_P2P", {"on", "off"}).value_or(0) == 1) return "LOCUS_P2P=off";
  const bool out = enable_access(source.index(), target.index());
  const bool in = enable_access(target.index(), source.index());
  if (!out || !in) return "the driver offers no access between them";
  const Probe from(source), to(target);
  std::vector<unsigned char> pattern(kProbeBytes), seen(kProbeBytes);
  for (size_t i = 0; i < kProbeBytes; ++i)
    pattern[i] = static_cast<unsigned char>(i * 131 + i / 251 + 1);
  const auto lane = [](CudaDevice& d) { return d.lanes_[static_cast<int>(Lane::peer)]->native(); };
  const auto move = [&](CudaDevice& d, void* p, const void* q, cudaMemcpyKind kind) {
    LOCUS_CUDA(kind == cudaMemcpyHostToDevice ? copy_up(p, q, kProbeBytes, lane(d))
                                              : copy_down(p, q, kProbeBytes, lane(d)));
    LOCUS_CUDA(cuda::synchronize(lane(d)));
  };
  move(source, from.data, pattern.data(), cudaMemcpyHostToDevice);
  for (CudaDevice* issuer : {&source, &target}) {
    std::fill(seen.begin(), seen.end(), static_cast<unsigned char>(0));
    move(target, to.data, seen.data(), cudaMemcpyHostToDevice);
    LOCUS_CUDA(copy_across(to.data, from.data, kProbeBytes, lane(*issuer)));
    LOCUS_CUDA(cuda::synchronize(lane(*issuer)));
    move(target, seen.data(), to.data, cudaMemcpyDeviceToHost);
    if (test_faults().corrupt_links) seen.back() ^= 1;
    if (seen != pattern) return "a direct copy delivered other bytes (is an IOMMU in the way?)";
  }
  return nullptr;
}

void forget_links() {
  const MutexLock lock(links.mutex);
  for (auto& row : links.paths)
    for (std::atomic<Path>& path : row) path.store(Path::unknown, std::memory_order_release);
}

}  // namespace locus::cuda
