// Graphs: the calls of a replay as one launch. Independent calls run in parallel.
//
// Each branch is captured on a separate stream, which the graph keeps. The kernels of a branch
// share that stream's counters, so they run one after another.
#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include <locus/core/error.h>
#include <locus/core/replay/replay.h>
#include <locus/devices/cuda/device.h>
#include <locus/devices/cuda/exit.h>

namespace locus::cuda {
namespace {

constexpr size_t kMostBranches = 4;
// On an H200, a kernel starts 1 us after its predecessor in the branch, 3 us after one in another
// branch. A shorter branch hides less than it costs.
constexpr size_t kShortest = 4;

// Assigns calls to chains. A call continues a chain whose last call it waits for, or starts one.
std::vector<size_t> chains_of(std::span<const ReplayCall> calls) {
  std::vector<size_t> chain(calls.size());
  std::vector<int> last;
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::vector<int>& after = calls[i].after;
    size_t best = last.size();
    for (size_t c = 0; c < last.size(); ++c)
      if (std::find(after.begin(), after.end(), last[c]) != after.end() &&
          (best == last.size() || last[c] > last[best]))
        best = c;
    if (best == last.size()) last.push_back(0);
    last[best] = static_cast<int>(i);
    chain[i] = best;
  }
  return chain;
}

// Calls that wait for other devices get a separate branch, except the last, which nothing hides.
std::vector<bool> waits_beside(std::span<const ReplayCall> calls) {
  std::vector<bool> beside(calls.size());
  bool last = true;
  for (size_t i = calls.size(); i-- > 0;)
    if (calls[i].op && calls[i].op->needs_peers) beside[i] = !std::exchange(last, false);
  return beside;
}

// The branch of each call. The longest chains become branches. A call of another chain joins the
// branch of the call before it.
std::vector<size_t> branches_of(std::span<const ReplayCall> calls, size_t& count) {
  const std::vector<size_t> chain = chains_of(calls);
  std::vector<size_t> length(calls.size()), order(calls.size()), branch(calls.size());
  for (const size_t c : chain) ++length[c];
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return length[a] > length[b]; });
  count = 1;
  while (count < kMostBranches && count < order.size() && length[order[count]] >= kShortest)
    ++count;
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto at =
        std::find(order.begin(), order.begin() + static_cast<ptrdiff_t>(count), chain[i]);
    const auto found = static_cast<size_t>(at - order.begin());
    branch[i] = found < count ? found : i > 0 ? branch[i - 1] : 0;
  }
  const std::vector<bool> beside = waits_beside(calls);
  if (std::ranges::find(beside, true) == beside.end()) return branch;
  for (size_t i = 0; i < calls.size(); ++i)
    if (beside[i]) branch[i] = count;
  ++count;
  return branch;
}

}  // namespace

// Streams for captures, given back by the destructor.
class CudaDevice::Branches : NonCopyable {
 public:
  // Delegates, so that the destructor runs if a stream cannot be opened.
  Branches(CudaDevice& d, size_t n) : Branches(d) {
    const Guard guard(d.index());
    for (size_t i = 0; i < n; ++i) streams_.push_back(&d.reopen(d.captured_));
  }
  ~Branches() {
    for (CudaStream* s : streams_) device_.captured_.put(s);
  }

  CudaStream& operator[](size_t i) const { return *streams_[i]; }
  size_t size() const { return streams_.size(); }

 private:
  explicit Branches(CudaDevice& d) : device_(d) {}

  CudaDevice& device_;
  std::vector<CudaStream*> streams_;
};

class CudaDevice::GraphWork final : public RecordedWork {
 public:
  GraphWork(CudaDevice& d, Replay& replay, std::span<ReplayCall> calls)
      : device_(d), branch_of_(branches_of(calls, count_)), branches_(d, count_) {
    for (size_t i = 0; i < calls.size(); ++i) calls[i].branch = static_cast<int>(branch_of_[i]);
    const Guard guard(d.index());
    try {
      begin();
      capture(replay, calls);
    } catch (...) {
      static_cast<void>(end());
      destroy();
      throw;
    }
    cudaError_t error = end();
    if (error == cudaSuccess) error = cudaGraphInstantiate(&executable_, graph_, 0);
    if (error == cudaSuccess) return;
    static_cast<void>(cudaGetLastError());
    destroy();
    const std::string text =
        to_string(d.context_) + ": the graph cannot be made: " + cudaGetErrorString(error);
    if (error == cudaErrorMemoryAllocation) throw OutOfMemory(text);
    throw CaptureError(text);
  }
  ~GraphWork() override { destroy(); }

  void replay(StreamView s) override {
    const Guard guard(device_.index());
    LOCUS_CUDA(cudaGraphLaunch(executable_, find_stream(s).native()));
  }

 private:
  void begin() {
    CudaStream& root = branches_[0];
    for (size_t b = 0; b < count_; ++b) {
      CudaStream& s = branches_[b];
      device_.wait_for(s);  // a new stream clears its counters
      const MutexLock lock(s.mutex);
      s.capturing = true;
    }
    // Relaxed: the pool may take memory from the driver meanwhile, and libraries load kernels.
    LOCUS_CUDA(cudaStreamBeginCapture(root.native(), cudaStreamCaptureModeRelaxed));
    for (size_t b = 1; b < count_; ++b) order(branches_[b].view, record(root.view));
  }

  // A call records an event if a call of another branch waits for it.
  void capture(Replay& replay, std::span<ReplayCall> calls) {
    std::vector<EventView> done(calls.size());
    std::vector<bool> awaited(calls.size());
    for (size_t i = 0; i < calls.size(); ++i)
      for (const int before : calls[i].after)
        if (branch_of_[static_cast<size_t>(before)] != branch_of_[i])
          awaited[static_cast<size_t>(before)] = true;
    for (size_t i = 0; i < calls.size(); ++i) {
      const StreamView s = branches_[branch_of_[i]].view;
      for (const int before : calls[i].after)
        if (branch_of_[static_cast<size_t>(before)] != branch_of_[i])
          order(s, done[static_cast<size_t>(before)]);
      replay.run(calls[i], s, false);
      if (awaited[i]) done[i] = record(s);
    }
    for (size_t b = 1; b < count_; ++b) order(branches_[0].view, record(branches_[b].view));
  }

  cudaError_t end() {
    const cudaError_t error = cudaStreamEndCapture(branches_[0].native(), &graph_);
    static_cast<void>(cudaGetLastError());
    for (size_t b = 0; b < count_; ++b) branches_[b].capturing = false;
    for (const EventView& e : events_) device_.release(e);
    events_.clear();
    return error;
  }
  // Events are released when the capture ends.
  EventView record(StreamView s) { return events_.emplace_back(device_.record(s)); }
  void order(StreamView later, EventView earlier) { device_.wait(later, earlier); }
  void destroy() noexcept {
    release_on(device_.index(), [&] {
      if (executable_) static_cast<void>(cudaGraphExecDestroy(executable_));
      if (graph_) static_cast<void>(cudaGraphDestroy(graph_));
    });
    executable_ = nullptr;
    graph_ = nullptr;
  }

  CudaDevice& device_;
  size_t count_ = 0;
  const std::vector<size_t> branch_of_;
  const Branches branches_;
  std::vector<EventView> events_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

std::unique_ptr<RecordedWork> CudaDevice::make_graph(Replay& replay, std::span<ReplayCall> calls) {
  if (calls.empty()) return nullptr;
  return std::make_unique<GraphWork>(*this, replay, calls);
}

}  // namespace locus::cuda
