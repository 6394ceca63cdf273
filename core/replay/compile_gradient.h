// The gradient of a compiled function that is called under autograd::Record. It is recorded with
// the function, as a second replay that reads the call's memory. backward() replays it. Internal to
// compile.cc.
//
// The function's graph is walked once, during recording, and freed. The program sees one node per
// call, from its inputs and leaves to its results.
#pragma once

#include <memory>
#include <vector>

#include <locus/core/replay/recording.h>
#include <locus/core/tape/tape.h>

namespace locus::compiled {

class Gradient : NonCopyable {
 public:
  // Records the gradient of `out`, which `forward` computes from `in`, into the innermost
  // recording. Inputs that need a gradient are leaves. `mutex`: held by replays.
  Gradient(const capture::Recording& forward, const Tensors& in, const Tensors& out, Mutex& mutex);
  // Call it when the function's graph is freed. `recording`: the inner one.
  void finish(const capture::Recording& forward, capture::Recording& recording);

  // Puts `out`, the results of a call with `in`, in a graph. The graph holds `owner`, and thus the
  // call's memory, until backward() frees it.
  void link(const Tensors& in, const Tensors& out, const AttrsOwner& owner, Caller from);

  Tensors replay(const Saved& saved, std::span<const Tensor> incoming);
  Keep keep() const { return keep_; }
  bool empty() const { return heads_.empty() || operands_.empty(); }  // nothing to do
  Replay& replay() { return *replay_; }

 private:
  // An input of the function, or a leaf.
  struct Operand {
    size_t input;
    Tensor leaf;
    uint32_t heads = 0;  // bits: heads that depend on it, as Node::Input::results
  };

  std::vector<size_t> heads_;  // indices of the results in a graph
  std::vector<Operand> operands_;
  Tensors others_;  // captured tensors without a gradient that the replay reads
  Mutex& mutex_;
  Tensors incoming_, results_;  // gradients of heads, and of operands
  std::unique_ptr<Replay> replay_;
  Keep keep_ = Keep::none;
  Caller from_;
};

}  // namespace locus::compiled
