// Graphs: the calls of a plan as one launch, independent ones side by side.
//
// Each branch is captured on a stream of its own, which stays with the graph: its kernels share
// that stream's counters and its library workspaces, so those of one branch run one after the
// other.
#include <algorithm>
#include <string>

#include <locus/core/error.h>
#include <locus/core/plan.h>
#include <locus/devices/cuda_device.h>

namespace locus::cuda {
namespace {

constexpr size_t kMostBranches = 4;

// Which branch each call is in: behind a call that it waits for when that is its branch's last,
// else in a new one, else in the one that was left alone longest.
std::vector<size_t> branches_of(std::span<const PlanCall> calls, size_t& count) {
  std::vector<size_t> branch(calls.size());
  std::vector<int> last;  // call of each branch
  for (size_t i = 0; i < calls.size(); ++i) {
    size_t best = last.size();
    for (size_t b = 0; b < last.size(); ++b) {
      const std::vector<int>& after = calls[i].after;
      if (std::find(after.begin(), after.end(), last[b]) == after.end()) continue;
      if (best == last.size() || last[b] > last[best]) best = b;
    }
    if (best == last.size() && last.size() == kMostBranches)
      best = static_cast<size_t>(std::min_element(last.begin(), last.end()) - last.begin());
    if (best == last.size()) last.push_back(0);
    last[best] = static_cast<int>(i);
    branch[i] = best;
  }
  count = last.size();
  return branch;
}

}  // namespace

// Streams that capture, until they are given back.
class CudaDevice::Branches : NonCopyable {
 public:
  Branches(CudaDevice& d, size_t n) : device_(d) {
    for (size_t i = 0; i < n; ++i) {
      CudaStream& s = d.reopen(d.captured_);
      streams_.push_back(&s);
      const MutexLock lock(s.mutex);
      s.slots.fill(s);
    }
  }
  ~Branches() {
    for (CudaStream* s : streams_) device_.captured_.put(s);
  }

  CudaStream& operator[](size_t i) const { return *streams_[i]; }
  size_t size() const { return streams_.size(); }

 private:
  CudaDevice& device_;
  std::vector<CudaStream*> streams_;
};

class CudaDevice::Work final : public RecordedWork {
 public:
  Work(CudaDevice& d, Plan& plan, std::span<PlanCall> calls)
      : device_(d), branch_of_(branches_of(calls, count_)), branches_(d, count_) {
    const Guard guard(d.index());
    begin();
    try {
      capture(plan, calls);
    } catch (...) {
      static_cast<void>(end());
      destroy();
      throw;
    }
    cudaError_t error = end();
    if (error == cudaSuccess) error = cudaGraphInstantiate(&executable_, graph_, 0);
    if (error == cudaSuccess) error = cudaGraphUpload(executable_, branches_[0].native());
    if (error == cudaSuccess) return;
    static_cast<void>(cudaGetLastError());
    destroy();
    const std::string text =
        to_string(d.context_) + ": the graph cannot be made: " + cudaGetErrorString(error);
    if (error == cudaErrorMemoryAllocation) throw OutOfMemory(text);
    throw CaptureError(text);
  }
  ~Work() override { destroy(); }

  void replay(StreamView s) override {
    const Guard guard(device_.index());
    LOCUS_CUDA(cudaGraphLaunch(executable_, find_stream(s).native()));
  }

 private:
  void begin() {
    CudaStream& root = branches_[0];
    for (size_t b = 0; b < count_; ++b) {
      CudaStream& s = branches_[b];
      device_.wait_for(s);  // a new one clears its counters
      const MutexLock lock(s.mutex);
      s.capturing = true;
    }
    // Relaxed: the pool may take memory from the driver meanwhile, and libraries load kernels.
    LOCUS_CUDA(cudaStreamBeginCapture(root.native(), cudaStreamCaptureModeRelaxed));
    const EventView start = device_.record(root.view);
    for (size_t b = 1; b < count_; ++b) device_.wait(branches_[b].view, start);
    device_.release(start);
  }

  // Calls that others of another branch wait for leave an event.
  void capture(Plan& plan, std::span<PlanCall> calls) {
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
          device_.wait(s, done[static_cast<size_t>(before)]);
      plan.run(calls[i], s, false);
      if (awaited[i]) done[i] = device_.record(s);
    }
    for (size_t b = 1; b < count_; ++b) {
      const EventView end = device_.record(branches_[b].view);
      device_.wait(branches_[0].view, end);
      device_.release(end);
    }
    for (const EventView& e : done)
      if (e.native) device_.release(e);
  }

  cudaError_t end() {
    const cudaError_t error = cudaStreamEndCapture(branches_[0].native(), &graph_);
    static_cast<void>(cudaGetLastError());
    for (size_t b = 0; b < count_; ++b) branches_[b].capturing = false;
    return error;
  }
  void destroy() {
    const Guard guard(device_.index());
    if (executable_) static_cast<void>(cudaGraphExecDestroy(executable_));
    if (graph_) static_cast<void>(cudaGraphDestroy(graph_));
    executable_ = nullptr;
    graph_ = nullptr;
  }

  CudaDevice& device_;
  size_t count_ = 0;
  const std::vector<size_t> branch_of_;
  const Branches branches_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

std::unique_ptr<RecordedWork> CudaDevice::make_graph(Plan& plan, std::span<PlanCall> calls) {
  if (calls.empty()) return nullptr;
  return std::make_unique<Work>(*this, plan, calls);
}

}  // namespace locus::cuda
