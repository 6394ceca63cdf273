// Internal to devices/cuda: one GPU, its streams, and the table that finds a stream by its id.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include <locus/core/base/mutex.h>
#include <locus/core/device.h>
#include <locus/core/program.h>
#include <locus/core/ranks/communicator.h>
#include <locus/devices/cuda.h>
#include <locus/devices/cuda/driver.h>
#include <locus/devices/cuda/faults.h>
#include <locus/devices/cuda/library.h>
#include <locus/devices/cuda/ring.h>
#include <locus/devices/host/fork.h>
#include <locus/devices/pool.h>
#include <locus/devices/pool/spares.h>

namespace locus::cuda {

class CudaDevice;
struct CudaStream;

int first_opened();  // the first device that was opened; -1: none yet

// A stream and its state. Never destroyed: open_stream() reuses a closed stream, and tensors
// allocated on the stream are still freed in its order.
//
// `mutex` is held in launch() while a kernel function runs, because the kernels of one launch share
// the counters. It is also held when a capture begins, and while the host waits for a stream made
// for captures: waiting for a stream during its capture would end the capture.
struct CudaStream {
  CudaDevice* device = nullptr;
  StreamView view;
  unsigned* counters = nullptr;          // kMaxCounters
  std::atomic<const char*> op{nullptr};  // the last op launched, for asynchronous errors
  std::atomic<bool> open{true}, capturing{false};
  bool for_captures = false;

  Mutex mutex;

  cudaStream_t native() const { return static_cast<cudaStream_t>(view.native); }
};

// Throws Error if this back end did not make the stream.
CudaStream& find_stream(StreamView s);

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(Context context);

  MemoryPool& allocator() override { return *pool_; }
  MemoryInfo memory() override;
  ContextInfo info() override;
  DeviceType kernels() const override { return DeviceType::gpu; }

  StreamView stream(Lane lane) override { return lanes_[static_cast<int>(lane)]->view; }
  StreamView open_stream() override;
  void close_stream(StreamView s) noexcept override;

  void launch(Kernel kernel, const Call& call, const char* name) override;
  void copy(void* dst, Context to, const void* src, Context from, size_t bytes,
            StreamView s) override;

  EventView record(StreamView s) override { return record(s, false); }
  EventView record_time(StreamView s) override { return record(s, true); }
  void release(EventView e) noexcept override;
  bool done(EventView e) override;
  void wait(StreamView waiter, EventView e) override;
  void wait_host(EventView e) override;
  double elapsed_ms(EventView from, EventView to) override;
  void synchronize(StreamView s) override;

  std::unique_ptr<RecordedWork> make_graph(Replay& replay, std::span<ReplayCall> calls) override;

  std::unique_ptr<KernelProgram> build(const ProgramSource& source) override;

  int index() const { return context_.index; }
  int multiprocessors() const { return multiprocessors_; }
  Faults& faults() { return faults_; }
  void* library(Library l) const { return libraries_[static_cast<int>(l)]; }

  // Device memory outside the pool. If there is none, the pool first releases its cached blocks.
  // Not for kernel functions.
  void* allocate_raw(size_t bytes);
  // Whether copies from source to target are direct; checked once.
  static bool direct(CudaDevice& source, CudaDevice& target);

 private:
  class GraphWork;
  class Branches;
  CudaStream* new_stream(bool for_captures = false);
  CudaStream& reopen(Spares<CudaStream*>& unused);  // takes an unused stream or makes one
  CudaStream& own_stream(StreamView s);             // DeviceError unless open and of this device
  void check_process() const {                      // throws DeviceError in a child of fork()
    if (fork_count() > 0) [[unlikely]]
      throw_used_before_fork(context_);
  }
  EventView record(StreamView s, bool timed);
  void wait_for(CudaStream& s);
  void check_faults();
  void download(void* dst, const void* src, size_t bytes, CudaStream& s);
  void copy_peer(void* dst, Context to, const void* src, Context from, size_t bytes, CudaStream& s);
  void copy_staged(void* dst, Context to, const void* src, Context from, size_t bytes,
                   CudaStream& s);
  static const char* try_direct(CudaDevice& source, CudaDevice& target);

  Context context_;
  std::string name_;
  int multiprocessors_ = 0, capability_ = 0;  // 90: compute capability 9.0
  std::unique_ptr<CachingPool> pool_;
  void* libraries_[kNumLibraries] = {};
  CudaStream* lanes_[kNumLanes] = {};
  Faults faults_;
  Ring up_{context_}, down_{context_};  // up_ also carries peer copies without a direct path
  SmallBuffers small_;

  Mutex streams_mutex_;
  std::vector<CudaStream*> streams_ LOCUS_GUARDED_BY(streams_mutex_);
  Spares<CudaStream*> closed_;    // for open_stream()
  Spares<CudaStream*> captured_;  // for captures; no tensors are allocated there
  Spares<cudaEvent_t> events_, timed_events_;
};

// Throws OutOfMemory or DeviceError for a launch that the host sees fail.
[[noreturn]] void launch_failed(cudaError_t error, const char* name, Context context);

// The next copy between two devices tests their link again.
void forget_links();

// The memory pool of one GPU.
std::unique_ptr<CachingPool> make_pool(Context context);
// The collectives of a group.
std::unique_ptr<Communicator> make_group(const Group& g);
// Gives cpu_pinned page-locked memory.
void offer_pinned_memory();
// Ranges are NVTX ranges from now on (core/observe/ranges.h), if CUDA came with NVTX's headers.
void offer_nvtx();

}  // namespace locus::cuda
