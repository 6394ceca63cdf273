// The gradient of a compiled function that is called under autograd::Record: recorded with it, as a
// plan of its own that reads what the call left, and replayed by backward(). Internal to
// compile.cc.
//
// The function's graph is walked once, while it is recorded, and dropped. What the program sees is
// a graph of one node for the whole call, from its inputs and leaves to its results.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <locus/core/compile_results.h>
#include <locus/core/recording.h>
#include <locus/core/tape.h>

namespace locus::compiled {

// From one tensor to the other each; those of one context that are row-major in one launch.
void copy_all(const Tensors& from, const Tensors& to);

// An input of the function, in a graph that ends there.
Tensor as_leaf(const Tensor& x);

class Gradient : NonCopyable {
 public:
  // Walks the graph of `out`, which `forward` records the making of from `in`, the as_leaf()s
  // among which need a gradient. `recording`: inside of `forward`, for this. `turn`: to replay.
  Gradient(capture::Recording& forward, capture::Recording& recording, const Tensors& in,
           const Tensors& out, Mutex& turn);
  // The graph is gone. `made`: what the call left where the plan reads it.
  void finish(capture::Recording& recording, const Results& made, const Tensors& buffers);

  // Puts `out`, the results of a call with `in`, in a graph, which holds `pending` until backward()
  // frees it: the call's memory has to stay as it is. `moves`: of the version of the call's plan.
  void link(const Tensors& in, Tensors& out, std::shared_ptr<Storage> pending,
            std::vector<Plan::Move> moves, Caller from);

  Tensors replay(const Saved& saved, std::span<const Tensor> incoming);
  Keep keep() const { return keep_; }
  bool empty() const { return heads_.empty() || operands_.empty(); }  // nothing to do
  Plan& plan() { return *plan_; }

 private:
  void find_others(const capture::Recording& forward, const Tensors& in, const Tensors& out);
  size_t version_for(bool held);

  // What has a gradient: an input of the function, else a leaf.
  struct Operand {
    size_t input;
    Tensor leaf;
    const Storage* memory;
    uint32_t heads = 0;  // that depend on it, as Node::Input::results
  };
  // What may be read besides, and has no gradient: an input, a result, else what it is.
  struct Other {
    int input, result;
    Tensor outside;
    const Storage* memory;
  };
  struct Head {
    size_t result;
    const Storage* memory;
  };

  std::vector<Head> heads_;  // the results that have a graph
  std::vector<Operand> operands_;
  std::vector<Other> others_;  // the plan reads
  Mutex& turn_;
  Tensors incoming_;  // gradients of the heads
  Results results_;   // one an operand
  std::unique_ptr<Plan> plan_;
  Keep keep_ = keep_input(0);
  // Of the call whose backward() is to come.
  std::vector<Plan::Move> moves_;
  Caller from_;
  std::map<std::pair<bool, bool>, size_t> versions_;  // moves_ or not, results elsewhere or not
};

}  // namespace locus::compiled
