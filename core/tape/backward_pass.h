// One backward pass, and its data about the graph. Internal to core.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <locus/core/autograd.h>
#include <locus/core/noncopyable.h>
#include <locus/core/tape/tape.h>

namespace locus {

// A map from objects' addresses to numbers.
class Numbers {
 public:
  void forget();  // empties the map
  // The object's number; -1: new. Valid until the next call.
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
    uint32_t round = 0;  // unless it is round_, the slot is free
    int number = -1;
  };
  Slot& find(const void* object) {
    const size_t mask = slots_.size() - 1;
    size_t at = (reinterpret_cast<uintptr_t>(object) * 0x9e3779b97f4a7c15u) >> 32;
    while (slots_[at & mask].round == round_ && slots_[at & mask].object != object) ++at;
    return slots_[at & mask];
  }
  void grow();

  std::vector<Slot> slots_;  // a power of two; a quarter are free
  size_t used_ = 0;
  uint32_t round_ = 1;
};

// A pass's data about the graph. A thread's next pass reuses the memory.
struct PassNotes {
  // A result or a leaf.
  struct Target {
    int step = -1;         // of a result: the call that made it
    int edges = 0;         // that lead here
    bool wanted = false;   // a variable of grad()
    bool direct = false;   // one edge brings the whole gradient, which may be made in place
    bool ones = false;     // the sum is all ones, and not allocated yet
    bool early = false;    // of a leaf: its gradient is written before the pass ends
    Tensor incoming = {};  // the sum so far
  };
  // A call: the state of a result, which owns the node; indices of its first target and input.
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

  Numbers numbers;  // of nodes and leaves: index of their first target
  std::vector<Target> targets;
  std::vector<Step> steps;
  std::vector<PassInput> inputs;
  std::vector<int> results;                    // reached targets
  std::vector<int> heads;                      // target of each head
  std::vector<std::pair<uint64_t, int>> walk;  // reached steps, the last recorded first
  std::vector<Leaf> leaves;                    // reached
  std::vector<std::pair<size_t, Leaf>> early;
  Tensors dout, kept;  // of the current call

  void clear();
};

// One reverse walk: finds what the heads reach and what is needed, then computes gradients. Its
// data about the graph is its own, so passes in several threads may share tensors.
class Pass : NonCopyable {
 public:
  // `who`: for errors. Without variables: computes leaves' gradients.
  Pass(const char* who, const Tensors& heads, const Tensors* variables,
       const autograd::GradOptions& o);
  ~Pass();

  void run();
  // Writes leaves' gradients that run() did not write.
  void write_leaves();
  // A variable's gradient. If not reached: zeros with `materialize`, else undefined.
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

Tensor filled(Context c, const Meta& m, double value);

}  // namespace locus
