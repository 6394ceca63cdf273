// Records the work of one context and replays it: a CUDA graph, where the context is a GPU.
//
//   Capture capture(gpu(0));
//   Tensor y = relu(dot(x, w));    // recorded, not run
//   Graph graph = capture.end();
//   graph.replay();                // now y has its values; x's new ones at the next replay
//
// In between, what this thread calls on that context's current stream is recorded. Operations that
// cannot be replayed throw CaptureError: host reads, waits, copies from pageable memory, ops marked
// no_capture, and work on a context that the thread does not capture.
//
// Threads: a Capture belongs to one, a Graph to one at a time; several may capture at once.
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
  ~Graph();  // blocks until its replays are done; its results keep their memory

  Context context() const;
  void replay(Caller = Caller::here());  // enqueues, and does not wait

 private:
  friend class Capture;
  Graph(Context c, std::unique_ptr<Replay> replay);
  void check() const;

  Context context_;
  std::unique_ptr<Replay> replay_;
};

class Capture : NonCopyable {
 public:
  // CaptureError for a host context, or when the thread records c already.
  explicit Capture(Context c);
  ~Capture();  // without end(): nothing is left of it

  // CaptureError when the device refuses what was recorded; nothing is left of it then.
  Graph end();

 private:
  std::unique_ptr<capture::Recording> recording_;
};

// For ops.
namespace capture {

// Device memory that `fill` gives its `bytes` bytes before each replay of what is captured on c.
const void* slot(Context c, size_t bytes, std::function<void(void*)> fill);

}  // namespace capture

// What source() gives: now, or, where the thread captures c, anew at each replay.
template <class T>
Live<T> live(Context c, auto source) {
  if (!capture::active()) [[likely]]
    return {source(), nullptr};
  if (!capture::find(c)) return {source(), nullptr};
  const auto fill = [source = std::move(source)](void* to) { *static_cast<T*>(to) = source(); };
  return {T{}, static_cast<const T*>(capture::slot(c, sizeof(T), fill))};
}

// --- Details ---

// Memory: what is recorded allocates from memory that belongs to the graph alone until the graph is
// destroyed (stats() counts it), so that addresses stay. The graph keeps tensors from outside
// alive. Eager work on them waits for a replay, and a replay for eager work, as for one op that
// reads and writes them all. Contents of results are undefined before the first replay.

// Host-side values are frozen at recording time: multipliers of an optimizer's parameters, the
// batch size, the precision of products and the mode (training or not). Numbers that ops take
// through live() are read anew at each replay: random keys, and what an optimizer is told to ask
// for anew. So n replays draw what n eager runs would have drawn.

}  // namespace locus
