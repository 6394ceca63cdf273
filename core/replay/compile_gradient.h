// The gradient of a compiled function that is called under autograd::Record: recorded with it, as a
// replay of its own that reads the memory of the call, and replayed by backward(). Internal to
// compile.cc.
//
// The function's graph is walked once, while it is recorded, and dropped. What the program sees is
// a graph of one node for the whole call, from its inputs and leaves to its results.
#pragma once

#include <memory>
#include <vector>

#include <locus/core/replay/recording.h>
#include <locus/core/tape/tape.h>

namespace locus::compiled {

class Gradient : NonCopyable {
 public:
  // Walks the graph of `out`, which `forward` records the making of from `in`, while a recording
  // inside of `forward` is under way. Inputs that need a gradient are leaves. `turn`: held by
  // replays.
  Gradient(const capture::Recording& forward, const Tensors& in, const Tensors& out, Mutex& turn);
  // Call it when the graph is gone. `recording`: the inner one.
  void finish(const capture::Recording& forward, capture::Recording& recording);

  // Puts `out`, the results of a call with `in`, in a graph, which holds `owner` until backward()
  // frees it: the call's memory has to stay as it is.
  void link(const Tensors& in, const Tensors& out, const AttrsOwner& owner, Caller from);

  Tensors replay(const Saved& saved, std::span<const Tensor> incoming);
  Keep keep() const { return keep_; }
  bool empty() const { return heads_.empty() || operands_.empty(); }  // nothing to do
  Replay& replay() { return *replay_; }

 private:
  // What has a gradient: an input of the function, else a leaf.
  struct Operand {
    size_t input;
    Tensor leaf;
    uint32_t heads = 0;  // that depend on it, as Node::Input::results
  };

  std::vector<size_t> heads_;  // numbers of the results that have a graph
  std::vector<Operand> operands_;
  Tensors others_;  // captured tensors without a gradient that the replay reads
  Mutex& turn_;
  Tensors incoming_, results_;  // gradients of the heads, and of the operands
  std::unique_ptr<Replay> replay_;
  Keep keep_ = Keep::none;
  Caller from_;
};

}  // namespace locus::compiled
