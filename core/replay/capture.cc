#include <locus/core/capture.h>

#include <utility>

#include <locus/core/error.h>
#include <locus/core/replay/recording.h>

namespace locus {

const void* capture::slot(Context c, size_t bytes, std::function<void(void*)> fill) {
  if (tracing())
    check("a value of each run", "random numbers and counts are drawn anew at each call");
  Recording& r = *recording_on(c);
  return r.replay->slot(c, bytes, std::move(fill), !r.only);
}

Capture::Capture(Context c) {
  if (is_host(c))
    throw CaptureError("Capture: ", c, " runs nothing asynchronously; expected a GPU");
  if (capture::find(c))
    throw CaptureError("Capture: ", capture::innermost->text(), " already; end that first");
  recording_ = std::make_unique<capture::Recording>(c);
}

Capture::~Capture() = default;

Graph Capture::end() {
  if (!recording_) throw CaptureError("Capture::end: this capture has ended; make another one");
  capture::Recording* own = capture::innermost;
  while (own && own != recording_.get()) own = own->outer;
  if (!own)
    throw CaptureError("Capture::end: the capture was begun by another thread; end it there");
  const auto recording = std::move(recording_);
  recording->end();
  return Graph(*recording->only, std::move(recording->replay));
}

Graph::Graph(Context c, std::unique_ptr<Replay> replay) : context_(c), replay_(std::move(replay)) {}
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

void Graph::check() const {
  if (!replay_) throw Error("Graph: it was moved from; use the Graph it was moved to");
}

Context Graph::context() const {
  check();
  return context_;
}

void Graph::replay(Caller from) {
  capture::check("Graph::replay", "a graph is not recorded in another one");
  check();
  replay_->replay(from);
}

}  // namespace locus
