// One backward pass: what it notes about the graph that it goes through. Internal to core.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <locus/core/autograd.h>
#include <locus/core/tape.h>

namespace locus {

// Numbers of objects, by their addresses.
class Numbers {
 public:
  // -1: it has none yet. Valid until the next call.
  int& of(const void* object) {
    if (2 * used_ >= slots_.size()) grow();
    Slot& slot = find(object);
    if (!slot.object) {
      slot.object = object;
      ++used_;
    }
    return slot.number;
  }

 private:
  struct Slot {
    const void* object = nullptr;
    int number = -1;
  };
  Slot& find(const void* object) {
    const size_t mask = slots_.size() - 1;
    size_t at = (reinterpret_cast<uintptr_t>(object) * 0x9e3779b97f4a7c15u) >> 32;
    while (slots_[at & mask].object && slots_[at & mask].object != object) ++at;
    return slots_[at & mask];
  }
  void grow() {
    const std::vector<Slot> old =
        std::exchange(slots_, std::vector<Slot>(std::max<size_t>(64, 2 * slots_.size())));
    for (const Slot& slot : old)
      if (slot.object) find(slot.object) = slot;
  }

  std::vector<Slot> slots_;  // a power of two, half of them free
  size_t used_ = 0;
};

// One reverse walk: what is reachable from the heads, what of it is needed, then the gradients. All
// that it notes about the graph is its own, so passes in several threads may share tensors.
class Pass {
 public:
  // `who`: for errors. Without variables: for the leaves.
  Pass(const char* who, const Tensors& heads, const Tensors* variables,
       const autograd::GradOptions& o)
      : who_(who),
        retain_(o.retain_graph || o.create_graph),
        create_(o.create_graph),
        all_(!variables) {
    prepare(heads, variables, o.head_gradients);
  }

  void run();
  // Those that did not get their sums while it ran.
  void write_leaves();
  // What arrived at a variable; undefined when it is not reachable.
  Tensor captured(const Tensor& variable, bool materialize);

 private:
  // A result or a leaf.
  struct Target {
    int step = -1;         // of a result: the call that made it
    int edges = 0;         // that lead here
    bool wanted = false;   // grad() asked for it
    bool direct = false;   // all of the gradient comes along one edge and may be made in place
    bool ones = false;     // that is all of it, and not made yet
    bool early = false;    // of a leaf: it is handed its sum before the pass ends
    Tensor incoming = {};  // the sum so far
  };
  // A call: one of its results, which holds it, the first of its targets and of its inputs.
  struct Step {
    std::shared_ptr<GraphState> state;
    size_t targets;
    size_t inputs = 0;
    bool reached = false, needed = false;
  };
  struct Leaf {
    std::shared_ptr<GraphState> state;
    int target;
  };

  // In backward_pass.cc.
  void prepare(const Tensors& heads, const Tensors* variables, const Tensors& gradients);
  void find_early();
  Tensor head_gradient(const Tensor& head, const Tensor& g) const;
  int target_of(const std::shared_ptr<GraphState>& state);
  int reach(const std::shared_ptr<GraphState>& state);
  bool needed(int t) const;
  static bool calls_hook(const GraphState& leaf);
  bool direct(const Leaf& leaf, const Tensors& head_gradients) const;

  void make_ones(int t);
  void arrive(int t, const Tensor& gradient);
  bool is_head(const Step& s) const;
  Tensors differentiate(const Step& s, bool head);
  void step(const Step& s);
  void hand_over(const Leaf& leaf);

  const char* const who_;
  const bool retain_, create_, all_;
  Numbers numbers_;  // of nodes and leaves: the first of their targets
  std::vector<Target> targets_;
  std::vector<Step> steps_;
  std::vector<PassInput> inputs_;
  std::vector<int> results_;                    // all that are reached
  std::vector<std::pair<uint64_t, int>> walk_;  // steps that are reached, the last recorded first
  std::vector<Leaf> leaves_;                    // that are reached
  std::vector<std::pair<size_t, Leaf>> early_;
  Tensors dout_, kept_;  // of the call whose gradient is made
};

// Filled with a number.
Tensor filled(Context c, const Meta& m, double value);

}  // namespace locus
