// One backward pass: what it notes about the graph that it goes through. Internal to core.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <locus/core/autograd.h>
#include <locus/core/noncopyable.h>
#include <locus/core/tape/tape.h>

namespace locus {

// Numbers of objects, by their addresses.
class Numbers {
 public:
  void forget();  // all of them
  // -1: it has none yet. Valid until the next call.
  int& of(const void* object) {
    if (4 * used_ >= 3 * slots_.size()) grow();
    Slot& slot = find(object);
    if (slot.round != round_) {
      slot = {object, round_, -1};
      ++used_;
    }
    return slot.number;
  }

 private:
  struct Slot {
    const void* object = nullptr;
    uint32_t round = 0;  // when it was put there: else the slot is free
    int number = -1;
  };
  Slot& find(const void* object) {
    const size_t mask = slots_.size() - 1;
    size_t at = (reinterpret_cast<uintptr_t>(object) * 0x9e3779b97f4a7c15u) >> 32;
    while (slots_[at & mask].round == round_ && slots_[at & mask].object != object) ++at;
    return slots_[at & mask];
  }
  void grow();

  std::vector<Slot> slots_;  // a power of two, a quarter of them free
  size_t used_ = 0;
  uint32_t round_ = 1;
};

// What a pass notes about the graph. A thread's next pass takes over the memory of its last one.
struct PassNotes {
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

  Numbers numbers;  // of nodes and leaves: the first of their targets
  std::vector<Target> targets;
  std::vector<Step> steps;
  std::vector<PassInput> inputs;
  std::vector<int> results;                    // all that are reached
  std::vector<int> heads;                      // one for each
  std::vector<std::pair<uint64_t, int>> walk;  // steps that are reached, the last recorded first
  std::vector<Leaf> leaves;                    // that are reached
  std::vector<std::pair<size_t, Leaf>> early;
  Tensors dout, kept;  // of the call whose gradient is made

  void clear();
};

// One reverse walk: what is reachable from the heads, what of it is needed, then the gradients. All
// that it notes about the graph is its own, so passes in several threads may share tensors.
class Pass : NonCopyable {
 public:
  // `who`: for errors. Without variables: for the leaves.
  Pass(const char* who, const Tensors& heads, const Tensors* variables,
       const autograd::GradOptions& o);
  ~Pass();

  void run();
  // Those that did not get their sums while it ran.
  void write_leaves();
  // What arrived at a variable; undefined when it is not reachable.
  Tensor captured(const Tensor& variable, bool materialize);

 private:
  using Target = PassNotes::Target;
  using Step = PassNotes::Step;
  using Leaf = PassNotes::Leaf;

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
  void arrive(int t, Tensor gradient);
  bool is_head(const Step& s) const;
  Tensors differentiate(const Step& s, bool head);
  void step(const Step& s);
  void hand_over(const Leaf& leaf);

  const char* const who_;
  const bool retain_, create_, all_;
  std::unique_ptr<PassNotes> notes_;
};

// Filled with a number.
Tensor filled(Context c, const Meta& m, double value);

}  // namespace locus
