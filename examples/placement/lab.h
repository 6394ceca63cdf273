// Measures training steps of one network in every placement of layers on contexts.
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

using Placement = std::vector<locus::Context>;  // one context per layer

// Placements with the fewest changes of context first, at most `limit`.
std::vector<Placement> placements(const std::vector<locus::Context>& contexts, int layers,
                                  size_t limit);
int changes(const Placement& p);           // how often the context changes between layers
std::string text(const Placement& p);      // "gpu(0) x2 > cpu(0) x2", for tables
std::string in_words(const Placement& p);  // "layers 0-1 on gpu(0), layers 2-3 on cpu(0)"

enum class Kind : uint8_t { forward, backward, update, move };
struct Part {
  Kind kind;
  std::string name;            // "forward 0", "cpu(0) > gpu(0)"
  locus::Context from, where;  // ends of a move; otherwise equal
  size_t bytes = 0;            // of a move
  double ms = 0;
};

struct Memory {
  locus::Context context;
  size_t bytes = 0;  // the most in use after any part of a step
};

struct Trial {
  Placement placement;
  double step_ms = 0;                 // median of whole steps
  std::optional<double> compiled_ms;  // the same step replayed
  std::string not_compiled;           // why it cannot be
  double spread_ms = 0;               // half the range over rounds
  std::vector<Part> parts;            // of a step that waits after each part; medians
  std::vector<Memory> memory;
  double loss = 0;  // of the first step: the same for all placements

  double move_ms() const;
  double compute_ms() const;
  size_t moved_bytes() const;
  int moves() const;
};

// Whether the difference in time is within the spreads.
bool tied(const Trial& a, const Trial& b);

// Trains `steps` steps after a warm-up, and as many compiled steps from the same start. Error if
// the last losses differ. The batch starts on cpu(0).
Trial measure(const Model& model, const Placement& placement,
              const std::vector<locus::Context>& contexts, int steps);

// The recorded calls of a step, whose batch is on the first layer's context.
std::vector<locus::CompiledCall> recorded(const Model& model, const Placement& placement);

// The medians of several trials of one placement.
Trial combine(const std::vector<Trial>& trials);

}  // namespace placement
