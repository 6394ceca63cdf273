// Collectives of a group of GPUs: barriers for Locus kernels, and NCCL.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include <locus/core/error.h>
#include <locus/core/ranks/communicator.h>
#include <locus/devices/cuda/check.h>
#include <locus/devices/cuda/device.h>
#include <locus/devices/cuda/exit.h>
#include <locus/devices/cuda/peer_words.h>
#include <locus/devices/nccl/nccl.h>

namespace locus::cuda {
namespace {

CudaDevice& cuda_device(Context c) { return static_cast<CudaDevice&>(device(c)); }

// Memory on each device of a group. Freed by the destructor unless keep() was called.
class GroupMemory : NonCopyable {
 public:
  explicit GroupMemory(const Group& group) : group_(group) {}
  ~GroupMemory() {
    for (const auto& [at, memory] : made_)
      release_on(group_[at].index, [p = memory] { static_cast<void>(cudaFree(p)); });
  }
  void* allocate(int at, size_t bytes) {
    CudaDevice& d = cuda_device(group_[at]);
    const Guard guard(d.index());
    return made_.emplace_back(at, d.allocate_raw(bytes)).second;
  }
  void keep() { made_.clear(); }

 private:
  const Group& group_;
  std::vector<std::pair<int, void*>> made_;
};

class CudaGroup final : public Communicator {
 public:
  explicit CudaGroup(const Group& group) : group_(group) {}

  std::shared_ptr<const PeerBarrier> barrier(std::span<const StreamView> streams,
                                             size_t inbox_bytes) override {
    const MutexLock lock(mutex_);
    if (!reach_each_other() || group_.size() > PeerWords::kMostDevices) return nullptr;
    if (streams.empty()) {
      if (spare_.empty()) spare_.push_back(make());
      PeerWords* const m = spare_.back();
      make_inboxes(*m, inbox_bytes);
      spare_.pop_back();
      return {m, [this](const PeerWords* done) { put_back(const_cast<PeerWords*>(done)); }};
    }
    auto known = std::ranges::find_if(of_streams_, [&](const auto& entry) {
      return std::ranges::equal(entry.first, streams, {}, {}, &StreamView::id);
    });
    if (known == of_streams_.end()) {
      std::vector<uint32_t> ids;
      for (const StreamView& s : streams) ids.push_back(s.id);
      known = of_streams_.insert(of_streams_.end(), {std::move(ids), nullptr});
    }
    if (!known->second || known->second->broken) known->second.reset(make());
    // The largest size at once, because kernels already enqueued keep these inboxes.
    if (inbox_bytes > 0) make_inboxes(*known->second, PeerWords::kMostInbox);
    return known->second;
  }

  bool all_reduce(std::span<const View> in, std::span<const View> out, ReduceOp op,
                  std::span<const StreamView> streams) override {
    {
      const MutexLock lock(mutex_);
      if (!reach_each_other()) return false;  // NCCL would use the same links
    }
    return nccl_all_reduce(group_, in, out, op, streams);
  }

 private:
  bool reach_each_other() LOCUS_REQUIRES(mutex_) {
    if (!checked_) {
      checked_ = true;
      reach_ = true;
      for (const Context a : group_)
        for (const Context b : group_)
          reach_ = reach_ && (a == b || CudaDevice::direct(cuda_device(a), cuda_device(b)));
    }
    return reach_;
  }
  PeerWords* make() LOCUS_REQUIRES(mutex_) {
    auto m = std::make_unique<PeerWords>();
    GroupMemory made(group_);
    for (int i = 0; i < group_.size(); ++i) {
      CudaDevice& d = cuda_device(group_[i]);
      constexpr size_t kBytes = PeerWords::kWords * sizeof(unsigned);
      const Guard guard(d.index());
      m->words[i] = static_cast<unsigned*>(made.allocate(i, kBytes));
      const auto lane = static_cast<cudaStream_t>(d.stream(Lane::peer).native);
      LOCUS_CUDA(cudaMemsetAsync(m->words[i], 0, kBytes, lane));
      LOCUS_CUDA(cuda::synchronize(lane));
    }
    made.keep();
    return m.release();
  }
  // No enqueued kernel may use the old inboxes.
  void make_inboxes(PeerWords& m, size_t bytes) LOCUS_REQUIRES(mutex_) {
    if (m.inbox_bytes >= bytes) return;
    bytes = std::bit_ceil(std::max(bytes, size_t{1} << 16));
    GroupMemory made(group_);
    std::byte* inbox[PeerWords::kMostDevices] = {};
    for (int i = 0; i < group_.size(); ++i)
      inbox[i] =
          static_cast<std::byte*>(made.allocate(i, 2 * static_cast<size_t>(group_.size()) * bytes));
    made.keep();
    std::ranges::copy(inbox, m.inbox);
    m.inbox_bytes = bytes;
  }
  void put_back(PeerWords* m) {
    const MutexLock lock(mutex_);
    if (!m->broken) spare_.push_back(m);
  }

  const Group group_;
  Mutex mutex_;
  bool checked_ LOCUS_GUARDED_BY(mutex_) = false, reach_ LOCUS_GUARDED_BY(mutex_) = false;
  std::vector<std::pair<std::vector<uint32_t>, std::shared_ptr<PeerWords>>> of_streams_
      LOCUS_GUARDED_BY(mutex_);
  std::vector<PeerWords*> spare_ LOCUS_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Communicator> make_group(const Group& g) {
  // A launch would wait for its kernel, which waits for the next launch.
  const char* const blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  if (blocking && std::string_view(blocking) == "1") return nullptr;
  return std::make_unique<CudaGroup>(g);
}

}  // namespace locus::cuda
