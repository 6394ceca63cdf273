// Graphs: what a stream is given is recorded instead of run, and replayed with one call.
#include <string>

#include <locus/core/error.h>
#include <locus/devices/cuda_device.h>

namespace locus::cuda {

class CudaDevice::Work final : public RecordedWork {
 public:
  Work(CudaDevice& d, CudaStream& s) : device_(d), stream_(s) {
    const Guard guard(d.index());
    error_ = cudaStreamEndCapture(s.native(), &graph_);
    static_cast<void>(cudaGetLastError());
    s.capturing = false;
  }
  ~Work() override {
    wait();
    const Guard guard(device_.index());
    if (executable_) static_cast<void>(cudaGraphExecDestroy(executable_));
    if (graph_) static_cast<void>(cudaGraphDestroy(graph_));
    device_.pool_->retire(stream_.view);
    device_.captured_.put(&stream_);
  }

  void prepare() override {
    const Guard guard(device_.index());
    if (error_ == cudaSuccess) error_ = cudaGraphInstantiate(&executable_, graph_, 0);
    if (error_ == cudaSuccess) error_ = cudaGraphUpload(executable_, stream_.native());
    if (error_ == cudaSuccess) return;
    static_cast<void>(cudaGetLastError());
    const std::string text =
        to_string(device_.context_) + ": the graph cannot be made: " + cudaGetErrorString(error_);
    if (error_ == cudaErrorMemoryAllocation) throw OutOfMemory(text);
    throw CaptureError(text);
  }

  void wait() noexcept override { static_cast<void>(cuda::synchronize(stream_.native())); }
  void replay() override {
    const Guard guard(device_.index());
    LOCUS_CUDA(cudaGraphLaunch(executable_, stream_.native()));
  }

 private:
  CudaDevice& device_;
  CudaStream& stream_;
  cudaError_t error_ = cudaSuccess;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

StreamView CudaDevice::begin_capture() {
  CudaStream& s = reopen(captured_);
  const Guard guard(index());
  try {
    wait_for(s);  // a new one clears its counters
    pool_->hold(s.view);
    const MutexLock lock(s.mutex);
    s.slots.fill(s);
    // Relaxed: the pool may take memory from the driver meanwhile, and libraries load kernels. What
    // would end the capture is refused by core/capture.h.
    LOCUS_CUDA(cudaStreamBeginCapture(s.native(), cudaStreamCaptureModeRelaxed));
    s.capturing = true;
  } catch (...) {
    pool_->retire(s.view);
    captured_.put(&s);
    throw;
  }
  return s.view;
}

std::unique_ptr<RecordedWork> CudaDevice::end_capture(StreamView s) {
  return std::make_unique<Work>(*this, find_stream(s));
}

}  // namespace locus::cuda
