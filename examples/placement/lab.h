// One network, placed in every way: which layer on which context, and what a training step costs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <locus/locus.h>

namespace placement {

struct Model {
  int64_t batch = 256, inputs = 784, classes = 10;
  std::vector<int64_t> hidden = {512, 512, 512};
  int layers() const { return static_cast<int>(hidden.size()) + 1; }
  int64_t units(int layer) const {
    return layer + 1 == layers() ? classes : hidden[static_cast<size_t>(layer)];
  }
  int64_t width(int layer) const { return layer == 0 ? inputs : units(layer - 1); }
};

using Placement = std::vector<locus::Context>;  // one context a layer

// Placements in order of how often the data moves between layers, the fewest first, at most
// `limit`.
std::vector<Placement> placements(const std::vector<locus::Context>& contexts, int layers,
                                  size_t limit);
int changes(const Placement& p);           // how often the context changes from layer to layer
std::string text(const Placement& p);      // "gpu(0) x2 > cpu(0) x2", for tables
std::string in_words(const Placement& p);  // "layers 0-1 on gpu(0), layers 2-3 on cpu(0)"

enum class Kind : uint8_t { forward, backward, update, move };
struct Part {
  Kind kind;
  std::string name;            // "forward 0", "cpu(0) > gpu(0)"
  locus::Context from, where;  // a move's ends; where others run
  size_t bytes = 0;            // of a move
  double ms = 0;
};

struct Memory {
  locus::Context context;
  size_t bytes = 0;  // the most in use after any part of a step
};

struct Trial {
  Placement placement;
  double step_ms = 0;                 // the whole step, nothing waits in between; the median
  std::optional<double> compiled_ms;  // the same step replayed
  std::string not_compiled;           // or why it cannot be
  double spread_ms = 0;     // over the rounds: half of what is between the least and the most
  std::vector<Part> parts;  // a step in which each part waits for the one before; medians
  std::vector<Memory> memory;
  double loss = 0;  // of the first step: the same for all placements

  double move_ms() const;
  double compute_ms() const;
  size_t moved_bytes() const;
  int moves() const;
};

// Whether the rounds leave open which of the two is faster.
bool tied(const Trial& a, const Trial& b);

// Trains `steps` steps after a warm-up, and from the same start as many compiled ones, whose losses
// have to be the same bit by bit. The batch starts on cpu(0).
Trial measure(const Model& model, const Placement& placement,
              const std::vector<locus::Context>& contexts, int steps);

// What is recorded of a step: the batch is where the first layer is.
std::vector<locus::CompiledCall> recorded(const Model& model, const Placement& placement);

// The medians of several trials of one placement: rounds over all placements, so that whatever else
// the machine does for a while slows no single one.
Trial combine(const std::vector<Trial>& trials);

}  // namespace placement
