// Work of a context recorded once and replayed: a CUDA graph, where that is the device.
//
//   Capture capture(gpu(0));
//   Tensor y = relu(dot(x, w));    // recorded, not run
//   Graph graph = capture.end();
//   graph.replay();                // now y has its values; x's new ones at the next replay
//
// In between, what this thread calls on that context's current stream is recorded.
// All memory it takes is the graph's alone until the graph dies (stats() counts it), so that
// addresses stay. Tensors from outside are kept alive; a replay is ordered with eager work on them
// as one op that reads and writes them all would be. What a replay could not repeat throws
// CaptureError: a host that reads, waits or sends pageable memory, an op that says so
// (Op::no_capture), work on a context that the thread does not capture.
//
// What the host computes is frozen, but for the numbers that ops take through live(): random keys,
// and what an optimizer is told to ask for anew. So n replays draw what n eager runs would have
// drawn. Multipliers of an optimizer's parameters, the batch size, the products' precision and
// the mode (training or not) are frozen. Contents of results are undefined before the first replay.
//
// Threads: a Capture belongs to one, a Graph to one at a time; several may capture at once.
#pragma once

#include <functional>
#include <memory>

#include <locus/core/capture_check.h>
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
  Graph(Context c, std::unique_ptr<Plan> plan);
  void check() const;

  Context context_;
  std::unique_ptr<Plan> plan_;
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

}  // namespace locus
