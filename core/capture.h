// Capture records the work of one context, and Graph replays it. On a GPU a Graph is a CUDA graph.
//
//   Capture capture(gpu(0));
//   Tensor y = relu(dot(x, w));    // recorded, not run
//   Graph graph = capture.end();
//   graph.replay();                // computes y; each replay reads x anew
//
// A Capture records this thread's calls on the context's current stream. Operations that cannot be
// replayed throw CaptureError: host reads, waits, copies to or from other memory except
// non-blocking ones with cpu_pinned(), ops marked no_capture, and work on a context that is not
// captured.
//
// Threads: one thread uses a Capture. One thread at a time uses a Graph. Threads may capture at the
// same time.
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
  ~Graph();  // blocks until the replays are done; results stay valid

  Context context() const;
  void replay(Caller = Caller::here());  // enqueues and returns

 private:
  friend class Capture;
  Graph(Context c, std::unique_ptr<Replay> replay);
  void check() const;

  Context context_;
  std::unique_ptr<Replay> replay_;
};

class Capture : NonCopyable {
 public:
  // CaptureError for a host context, or if the thread records c already.
  explicit Capture(Context c);
  ~Capture();  // without end(): drops the recording

  // Throws, and drops the recording, if the device refuses the work: CaptureError or OutOfMemory.
  Graph end();

 private:
  std::unique_ptr<capture::Recording> recording_;
};

// For ops.
namespace capture {

// Device memory of the recording on c: `bytes` bytes, copied from what `fill` gives before each
// replay.
const void* slot(Context c, size_t bytes, std::function<void(void*)> fill);

}  // namespace capture

// The value of source(). If the thread captures c, each replay calls source() anew.
template <class T>
Live<T> live(Context c, auto source) {
  if (!capture::active()) [[likely]]
    return {source(), nullptr};
  if (!capture::find(c)) return {source(), nullptr};
  const auto fill = [source = std::move(source)](void* to) { *static_cast<T*>(to) = source(); };
  return {T{}, static_cast<const T*>(capture::slot(c, sizeof(T), fill))};
}

// --- Details ---

// Memory:
//   - Recorded work allocates from the graph's own memory, so addresses stay fixed. The memory is
//     the graph's alone until the graph is destroyed. stats() counts it.
//   - The graph keeps tensors from outside alive. Eager work on these tensors is ordered with a
//     replay as with one op that reads and writes what the graph does.
//   - Contents of results are undefined before the first replay.

// Host-side values are frozen at recording time: multipliers of an optimizer's parameters, the
// batch size, the mode (training or not) and, in a CUDA graph, the precision of matrix products.
// Values that ops take through live() are read anew at each replay: random keys and the numbers of
// updates, such as learning rates. So n replays draw
// the same random numbers as n eager runs.

}  // namespace locus
