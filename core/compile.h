// A function of tensors that runs and is recorded when it is first called, and is replayed from
// then on: as one CUDA graph a GPU, with independent work side by side; elsewhere the same kernels
// one after the other, without inference, dispatch or allocation. The numbers are the same bit by
// bit.
//
//   Compiled f([w](const Tensors& in) { return Tensors{relu(dot(in[0], w))}; });
//   Tensor y = f({x})[0];   // runs
//   y = f({x})[0];          // replays
//
// What it is recorded for: shape, strides, dtype and context of each input, the mode (training or
// not, under autograd::Record or not), current_context() and the products' precision; also which
// gradients are new, or summed, where it asks, as Trainer::step does. Another of these is recorded
// by itself; CompileOptions::keys of them are kept, those used last. When a parameter
// (nn/parameter.h) that it used has new replicas, another grad_req or another multiplier, or a leaf
// another gradient, it is recorded anew. Random numbers and learning rates are those of the time.
// All else that the host computes is frozen as it was: numbers, branches, tensors that the function
// captured, which are kept alive and whose contents may change. So what a call leaves for the next
// one it writes in place, s += y or set_data(): where s = s + y, replays read the s of the
// recording. A list that the function appends to grows when it is recorded. nn::TrainStep is this
// for a step of training.
//
// The first call with a key reads its inputs where they lie. As long as the same tensors come
// again, whatever is in them, nothing is copied; when others come it is recorded once more, with
// memory for inputs of its own, and from then on inputs are copied there, and what the function
// writes of them back (one in a view with gaps or with a gradient, or one that is written and is
// also used otherwise, is recorded for each memory instead).
//
// Results are like those of any op. While the program still holds those of an earlier call, they
// are copied to memory of their own (a view with gaps without these), else they are lent. Gradients
// that the function writes stay where they are from then on. A tensor that the function puts
// elsewhere has the last replay's values; a result that it also keeps there is copied each time.
// One that is an input, or a view of one, is that of the call.
//
// Under autograd::Record the results are in the graph, as one node for the whole call, whose
// gradient is recorded too and replayed by backward(), which leaves leaves' gradients where it
// found them, and those of leaves that it does not get to as they are. backward() through one
// result frees the graph of all; the others count with gradient 0, which is NaN where a derivative
// is infinite. A call whose backward() is to come keeps its memory: another one meanwhile has a
// recording of its own. Gradients are those of the function as it runs; where what has a gradient
// is also used outside of it, or is given twice, their sum may be rounded in another order. Error
// for create_graph through the call, CaptureError at the first call where the function itself calls
// backward() or uses what was recorded outside of it, and then already what backward() refuses of
// the function, such as a tensor written in place after it was read.
//
// Errors. CaptureError at the first call for what a replay could not repeat: a host that reads or
// waits, pageable memory that is sent, an op that says so; its work has run by then, nothing is
// kept, and the function still works uncompiled. OutOfMemory: likewise. Inside another recording
// the function is part of that. Error when what prepares the call, such as a parameter's
// initializer, makes the same one. A replay that fails, as on a bad index, leaves what it writes in
// part, as the function would, and all its random numbers and updates count as taken; where memory
// is short it does not begin.
//
// Memory is the contexts' pools' (stats() counts it) and returns with the object, which first waits
// for its replays. Threads: any; their calls take turns.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <locus/core/tensor.h>

namespace locus {

struct CompileOptions {
  size_t keys = 16;  // recordings kept, at least 1
};

// What was recorded: a call of an op's kernel, or a copy.
struct CompiledCall {
  std::string op;               // "copyto": a copy
  Context context;              // that enqueues it
  Context from, to;             // a copy's ends; else both are `context`
  std::string operands;         // "f32(64,784) > f32(64,256)"; of a copy "gpu(0) to gpu(1)"
  size_t bytes = 0;             // read and written
  std::vector<int> after = {};  // the calls that it waits for, by number
  // Calls of one context are enqueued part by part; a part begins when those that it waits for have
  // ended. In it, calls of a branch run in order, branches side by side.
  int part = 0, branch = 0;
  bool graph = false;  // whether the part is one CUDA graph
  double us = 0;       // by itself, or with those that it meets: the least of a few runs
};

class Compiled {
 public:
  using Function = std::function<Tensors(const Tensors&)>;

  explicit Compiled(Function f, const CompileOptions& options = {});
  Compiled(Compiled&&) noexcept;
  Compiled& operator=(Compiled&&) noexcept;
  ~Compiled();

  Tensors operator()(const Tensors& in, Caller from = Caller::here());

  // Of the recording used last: its calls in order, then those of its gradient, with the
  // microseconds of each by itself (they are run, and what the program sees then has its values
  // again); as a table; and, not measured and without the gradient, for Graphviz. Error while there
  // is none.
  std::vector<CompiledCall> calls();
  std::string describe();
  std::string dot() const;

  size_t recorded() const;  // how often it was, so far
  void clear();             // forgets all recordings

 private:
  struct State;
  class Turn;
  State& state(const char* what) const;
  std::unique_ptr<State> state_;
};

}  // namespace locus
