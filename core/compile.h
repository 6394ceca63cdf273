// Compiled: a function of tensors that is recorded at its first call and replayed from then on.
// A replay skips inference, dispatch and allocation; each GPU gets its work as CUDA graphs, in
// which independent calls run side by side. Numbers are the same bit by bit. The object owns its
// recordings and their memory. Any thread may call it; calls take turns.
//
//   Compiled f([w](const Tensors& in) { return Tensors{relu(dot(in[0], w))}; });
//   Tensor y = f({x})[0];   // runs, and is recorded
//   y = f({x})[0];          // replays
//
// nn::TrainStep (nn/train_step.h) compiles a step of training.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <locus/core/tensor.h>

namespace locus {

struct CompileOptions {
  size_t keys = 16;  // keys (see Details) whose recordings are kept, those used last; at least 1
};

// What was recorded: a call of an op's kernel, or a copy.
struct CompiledCall {
  std::string op;               // "copyto": a copy
  Context context;              // that enqueues it
  Context from, to;             // a copy's ends; else both are `context`
  std::string operands;         // "f32(64,784) > f32(64,256)"; of a copy "gpu(0) to gpu(1)"
  size_t bytes = 0;             // read and written
  std::vector<int> after = {};  // the calls that it waits for, by number
  // Calls of one context are enqueued segment by segment; a segment begins when those that it waits
  // for have ended. In it, calls of a branch run in order, branches side by side.
  int segment = 0, branch = 0;
  bool graph = false;  // whether the segment is one CUDA graph
  double us = 0;       // by itself, or with those that it meets: the least of a few runs
};

// Every call copies its inputs to buffers, replays, and copies the results to new memory: one
// batched copy per context each way. Inputs that the function writes are copied back. Random
// numbers, learning rates and the contents of captured tensors are those of each call. All other
// values of the host are frozen when the function is recorded: numbers, branches, and which tensors
// it captured. For the next call a function writes in place, s += y; after s = s + y replays would
// read the s of the recording.
class Compiled {
 public:
  using Function = std::function<Tensors(const Tensors&)>;

  explicit Compiled(Function f, const CompileOptions& options = {});
  Compiled(Compiled&&) noexcept;
  Compiled& operator=(Compiled&&) noexcept;
  ~Compiled();  // waits for the replays; the memory returns to the contexts' pools

  // Runs and records the function, or replays a recording. Results are in memory of their own.
  Tensors operator()(const Tensors& in, Caller from = Caller::here());

  // The calls of the recording used last, in order, and then those of its gradient. calls() and
  // describe() run each call by itself to measure it, and restore all memory afterwards. Error
  // while nothing is recorded.
  std::vector<CompiledCall> calls();
  std::string describe();   // as a table
  std::string dot() const;  // for Graphviz: not measured, without the gradient

  size_t recorded() const;  // how often the function was recorded so far
  void clear();             // forgets all recordings

 private:
  struct State;
  class Turn;
  State& state(const char* what) const;
  std::unique_ptr<State> state_;
};

// --- Details ---

// A recording serves calls with its key:
//   - each input's shape, strides, dtype and context, and whether it needs a gradient; outside of
//     autograd::Record also whose gradient that is;
//   - whether the call is in training mode, under autograd::Record or in a recomputation
//     (recompute.h), and the dtype of amp;
//   - current_context() and the precision of products;
//   - which gradients are new, or summed, where the function asks, as Trainer::step does.
// The function is recorded again when a parameter that it used has new replicas, another grad_req
// or another multiplier, or when a leaf has another gradient.

// Inputs and results:
//   - A result that is an input, a gradient, a captured tensor, or a view of one, is a copy.
//   - ValueError, at every call, for an input that the function writes and that has gaps or a
//     negative stride, shares memory with another input, or is captured as well. At the first call
//     the function has run by then, and no input is copied back.
//   - array() in the function gives the numbers of the recording at each call. Numbers that the
//     host writes through data_ptr() are not recorded: an op that reads memory which no op has
//     written throws CaptureError, and what the host writes later is lost.
//   - A tensor that the function keeps elsewhere has the values of the last replay.
//   - Gradients that the function writes keep their memory from then on. A gradient that the
//     function attaches to an input belongs to the buffer.

// Under autograd::Record the call is one node, whose gradient is recorded, too:
//   - backward() through one result frees the graph of all. Other results count with gradient 0,
//     which gives NaN where a derivative is infinite.
//   - A call keeps its recording until its backward(). Until then, another call with the same key
//     uses another recording.
//   - The gradient reads inputs and results as they were in the call. If a captured tensor that it
//     reads was written since, backward() throws Error.
//   - A gradient with terms inside and outside of the function may be rounded in another order.

// Errors under autograd::Record:
//   - Error for create_graph through the call.
//   - CaptureError at the first call, if the function calls backward() itself or uses a graph from
//     outside.
//   - At the first call also what backward() refuses in the function as it runs.

// Errors:
//   - CaptureError at the first call for what a replay cannot repeat: a host that reads or waits,
//     reads a file or sends pageable memory, an op that says so. It and OutOfMemory keep nothing;
//     the work has run by then. The function still works uncompiled.
//   - A replay that fails, as by a bad index, leaves part of its writes; its random numbers and
//     updates count as taken. A replay without memory for its results does not begin.
//   - Error when what prepares a call, such as a parameter's initializer, calls the object.
// With LOCUS_CHECK=nan (nan_check.h) the function runs uncompiled. Inside another recording it is a
// part of that one.

}  // namespace locus
