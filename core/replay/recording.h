// A recording in progress, used only by the thread that makes it. Internal to core.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <locus/core/base/recording_hooks.h>
#include <locus/core/replay/replay.h>
#include <locus/core/replay/traced_calls.h>
#include <locus/core/tape/tape.h>

namespace locus::capture {

// A leaf, and its state when it was used.
struct Leaf {
  Tensor tensor;
  std::shared_ptr<GraphState> state;
};
// Whether a leaf's gradient was new or summed.
struct Freshness {
  std::shared_ptr<GraphState> leaf;
  GraphState::Fresh fresh;
};

struct Recording : NonCopyable {
  // Records one context without running the calls.
  explicit Recording(Context c);
  // Notes the calls of one context in `traced`, without running them (traced_calls.h).
  Recording(Context c, std::unique_ptr<Traced> calls);
  // Records all contexts and runs the calls. `from`: for errors.
  explicit Recording(Caller from);
  // Records the calls after `before`, into a replay of their own.
  explicit Recording(const Recording* before);
  ~Recording();  // without end(): drops the recording

  void end();
  void leave();              // the thread's calls are not recorded any more
  std::string text() const;  // "gpu(0) is being captured"

  const std::optional<Context> only;
  const std::unique_ptr<Traced> traced;  // null unless traced
  const Caller from;
  bool graph = false;  // under autograd::Record: results will be in a graph
  std::unique_ptr<Replay> replay = std::make_unique<Replay>();
  const uint64_t first_node = 0;  // nodes made since have this order or a greater one
  // If generations, leaves or the answers in `freshness` change, another recording is needed.
  std::vector<std::shared_ptr<const uint64_t>> generations;
  std::vector<Leaf> leaves;
  std::vector<Freshness> freshness;                  // before the gradient was written
  std::vector<std::shared_ptr<GraphState>> written;  // leaves with written gradients
  std::vector<std::shared_ptr<GraphState>> zeroed;   // by zero_grad()
  std::vector<std::shared_ptr<GraphState>> added;    // written by adding: must not be sums

  // If calls do not run: until end(), new memory is at home on `stream`, for which nobody can wait.
  StreamView stream, current;
  Timeline* line = nullptr;
  std::vector<std::weak_ptr<Storage>> made;

  Recording* outer = nullptr;

 private:
  void release_stream();
};

// This thread's innermost recording of c, or of any context; may be null. A trace hides what is
// around it.
Recording* recording_on(std::optional<Context> c);

}  // namespace locus::capture
