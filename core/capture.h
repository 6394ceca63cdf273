// Capture records the work of one context, and Graph replays this work. On an NVIDIA GPU a Graph is
// a CUDA graph.
//
//   Capture capture(gpu(0));
//   Tensor y = relu(dot(x, w));    // recorded, not run
//   Graph graph = capture.end();
//   graph.replay();                // computes y; each replay reads x anew
//
// A Capture records this thread's calls on the context's current stream, and does not run them.
// Operations that cannot be replayed throw CaptureError (see Details), and the capture continues.
//
// Threads: one thread makes and ends a Capture. One thread at a time uses a Graph. Threads may
// capture at the same time, and other threads may use the GPU meanwhile.
#pragma once

#include <functional>
#include <memory>

#include <locus/core/base/recording_hooks.h>
#include <locus/core/context.h>

namespace locus {

class Graph {
 public:
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  ~Graph();  // blocks until its replays have ended; results stay valid

  Context context() const;
  // Enqueues the work and returns. CaptureError while this thread captures any context or records a
  // compiled function.
  void replay(Caller = Caller::here());

 private:
  friend class Capture;
  Graph(Context c, std::unique_ptr<Replay> replay);
  void check() const;

  Context context_;
  std::unique_ptr<Replay> replay_;
};

class Capture : NonCopyable {
 public:
  // CaptureError for a host context, if this thread captures c already, and in a function that is
  // being recorded (compile.h).
  explicit Capture(Context c);
  ~Capture();  // without end(): drops the recording

  // If the device cannot make the graph, end() throws and drops the recording. The error is a
  // CaptureError, OutOfMemory or DeviceError. A second call throws CaptureError. A call on another
  // thread throws CaptureError, and the capture continues.
  Graph end();

 private:
  std::unique_ptr<capture::Recording> recording_;
};

// For ops.
namespace capture {

// Returns device memory of this thread's recording on c. Before each replay, fill(to) writes
// `bytes` bytes on the host, and they are copied to this memory. At most 4096 bytes.
const void* slot(Context c, size_t bytes, std::function<void(void*)> fill);

}  // namespace capture

// The value of source(). If this thread records c, each replay calls source() anew.
template <class T>
Live<T> live(Context c, auto source) {
  if (!capture::active()) [[likely]]
    return {source(), nullptr};
  if (!capture::find(c)) return {source(), nullptr};
  const auto fill = [source = std::move(source)](void* to) { *static_cast<T*>(to) = source(); };
  return {T{}, static_cast<const T*>(capture::slot(c, sizeof(T), fill))};
}

// --- Details ---

// A thread may capture several contexts at the same time. Each Capture then records its own
// context's work. These operations throw CaptureError:
//   - host reads (item, to_vector, printing) and waits of this thread;
//   - copies from and to cpu(), and copies between devices, even if both are captured;
//   - copies from and to cpu_pinned() that block (blocking = true, the default). With
//     blocking = false they are recorded, and each replay reads the source anew;
//   - ops marked no_capture, and ops that read new memory that no recorded op has written;
//   - work on a context that is not captured, host contexts included, or on another stream than the
//     context's current stream when the capture began.

// Memory:
//   - Recorded work allocates from the graph's own memory, so addresses stay fixed. No other work
//     gets this memory until the graph is destroyed. memory_pool(c).stats() counts it as in use.
//   - When the graph is destroyed, results own their memory. The rest returns to the pool.
//   - The graph owns what it reads: tensors from outside and the state of optimizers. The program
//     may drop its own handles. Other threads may use these tensors during the capture.
//   - A replay is ordered with eager work like one op, on all streams. A replay waits for earlier
//     work on the tensors that it uses, and later work on these tensors waits for the replay.
//   - Until end(), another thread that uses a result gets CaptureError. Between end() and the first
//     replay, contents of results are undefined.

// Host-side values:
//   - Values that ops take through live() are read anew at each replay: random keys, learning rates
//     and update counts. So n replays draw the random numbers of n eager runs, and count n updates.
//   - Other values are frozen at recording time: multipliers of an optimizer's parameters, weight
//     decay, the batch size, the mode (training or not) and, in a CUDA graph, the precision of
//     matrix products.

}  // namespace locus
