// A recording under way, in the thread that makes it. Internal to core.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <locus/core/base/recording_hooks.h>
#include <locus/core/replay/replay.h>
#include <locus/core/tape/tape.h>

namespace locus::capture {

// A leaf of a graph, and what attach_grad had given it.
struct Leaf {
  Tensor tensor;
  std::shared_ptr<GraphState> state;
};
// A leaf, and whether its gradient was new, and summed.
struct Freshness {
  std::shared_ptr<GraphState> leaf;
  GraphState::Fresh fresh;
};

struct Recording : NonCopyable {
  // Of one context: kept and not run.
  explicit Recording(Context c);
  // Of all contexts, while it runs; `from`: who asked, for errors.
  explicit Recording(Caller from);
  // Inside of `before`, of what comes after it and is replayed apart.
  explicit Recording(const Recording* before);
  ~Recording();  // unless it ended, nothing is left of it

  void end();
  std::string text() const;  // "gpu(0) is being captured"

  const std::optional<Context> only;
  const Caller from;
  bool graph = false;  // under autograd::Record: results are put in a graph
  std::unique_ptr<Replay> replay = std::make_unique<Replay>();
  const uint64_t first_node = 0;  // nodes of tapes made meanwhile come after it
  // What was used, or asked, and makes another recording necessary when it changes.
  std::vector<std::shared_ptr<const uint64_t>> generations;
  std::vector<Leaf> leaves;
  std::vector<Freshness> asked;                      // before the gradient was written
  std::vector<std::shared_ptr<GraphState>> written;  // leaves' gradients
  std::vector<std::shared_ptr<GraphState>> zeroed;   // those by zero_grad() first
  std::vector<std::shared_ptr<GraphState>> added;    // those that had to be no sums then

  // Of one that does not run: memory is at home on a stream of its own, on which nobody can wait,
  // until it ends.
  StreamView stream, current;
  Timeline* line = nullptr;
  std::vector<std::weak_ptr<Storage>> made;

  Recording* outer = nullptr;

 private:
  void leave();
};

// The innermost one of this thread that records c, or of any context; null: there is none.
Recording* recording_on(std::optional<Context> c);

}  // namespace locus::capture
