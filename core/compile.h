// Compiled records a function of tensors at its first call and replays it at later calls. A replay
// skips inference and dispatch, and allocates only results. On NVIDIA GPUs a replay launches CUDA
// graphs, whose branches run in parallel. Results have the same bits as uncompiled; Details has the
// exceptions. The Compiled owns its recordings. Under autograd::Record, the graph of a result also
// owns the recording that the call used. Any thread may call a Compiled; concurrent calls run one
// by one.
//
//   Compiled f([w](const Tensors& in) { return Tensors{relu(dot(in[0], w))}; });
//   Tensor y = f({x})[0];   // runs the function and records it
//   y = f({x})[0];          // replays
//
// nn::TrainStep (nn/train_step.h) compiles a training step.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <locus/core/tensor.h>

namespace locus {

struct CompileOptions {
  size_t keys = 16;  // at least 1; recordings of the most recently used keys (see Details) are kept
};

// One recorded call: a kernel launch of an op, or a copy.
struct CompiledCall {
  std::string op;               // "copyto" for a copy to or from a GPU
  Context context;              // enqueues the call
  Context from, to;             // ends of a "copyto"; otherwise both are `context`
  std::string operands;         // "f32(64,784) f32(3,)x2 > f32(64,256)", or "gpu(0) to gpu(1)"
  size_t bytes = 0;             // read and written
  std::vector<int> after = {};  // indices of the calls that this call waits for
  // Calls of a context are enqueued in segments. A segment starts when all calls that it waits for
  // have ended. Calls of a branch run in order; branches run in parallel.
  int segment = 0, branch = 0;
  bool graph = false;  // whether the segment is one CUDA graph
  double us = 0;  // shortest of a few runs; kernels of one collective are run and timed together
};

// A call copies its inputs to buffers, runs or replays the function on the buffers, and copies the
// results to new memory. Inputs that the function writes are copied back. Each replay reads anew:
// random keys, learning rates, update counts and the contents of captured tensors. Other host-side
// values are frozen: numbers, branches, which tensors were captured. To carry state to the next
// call, write in place: s += y. After s = s + y, replays still read the first s.
class Compiled {
 public:
  using Function = std::function<Tensors(const Tensors&)>;

  explicit Compiled(Function f, const CompileOptions& options = {});
  Compiled(Compiled&&) noexcept;
  Compiled& operator=(Compiled&&) noexcept;
  ~Compiled();  // frees the recordings that no graph owns, after their replays have ended

  // Runs and records the function, or replays a recording.
  Tensors operator()(const Tensors& in, Caller from = Caller::here());

  // The calls of the recording used last, in the order of enqueuing; then the gradient's calls.
  // calls() and describe() run each call to measure it, then restore all memory. Error if nothing
  // is recorded.
  std::vector<CompiledCall> calls();
  std::string describe();   // as a table
  std::string dot() const;  // for Graphviz, without times or the gradient

  size_t recorded() const;  // how often the function was recorded so far
  void clear();             // drops all recordings

 private:
  struct State;
  class StateLock;
  State& state(const char* what) const;
  std::unique_ptr<State> state_;
};

// --- Details ---

// A recording serves calls with the same key:
//   - each input's shape, strides, dtype and context, and whether it needs a gradient;
//   - outside autograd::Record, for an input that is a leaf (attach_grad()): which leaf;
//   - whether the call is in training mode, under autograd::Record or in a recomputation
//     (recompute.h);
//   - the dtype of amp, current_context() and the precision of matrix products;
//   - the state of gradients that the function asks for, as Trainer::step does: fresh or not,
//     summed over replicas or not (autograd.h).
// The function is recorded again after a change of:
//   - the replicas, grad_req or a multiplier of a parameter that the function used;
//   - the tensor that holds a leaf's gradient;
//   - an optimizer that the function used, by assignment.

// Inputs and results:
//   - On each context, one launch copies all dense inputs in, and one copies all dense results out.
//   - A result that is an input, a gradient, a captured tensor, or a view of one, is copied.
//   - A call throws ValueError if the function writes an input that has gaps or a negative stride,
//     shares memory with another input, or is captured as well. The first call throws after the
//     function has run, copies no input back and keeps no recording. A replay throws before it
//     starts.
//   - array({1.0}) in the function gives the recorded numbers at each call. What the host writes
//     through data_ptr() is not recorded. If an op reads memory of the recording that no recorded
//     op has written, the op throws CaptureError.
//   - Collectives of over 64 MiB may add in another order than uncompiled (ops/collective.h).
//   - A tensor that the function stores elsewhere has the values of the last replay.
//   - A gradient that the function writes keeps its memory after the recording.
//   - If the function calls attach_grad() on an input, the caller's tensor gets no gradient.

// Under autograd::Record a call is one node, and the node's gradient is recorded, too:
//   - backward() through one result frees the graph of all results, unless retain_graph is set. A
//     later backward() through another result then throws Error; differentiate both together.
//   - In backward(), a result that no head depends on has gradient 0. If a derivative of this
//     result is infinite, backward() gives NaN.
//   - A recording is in use until backward() frees the graph of the call, or until the results are
//     destroyed. Another call with the same key then uses another recording. If all recordings of
//     the key are in use, the function is recorded once more. A key keeps all its recordings.
//   - The gradient reads inputs and results as they were in the call. If a captured tensor that the
//     gradient reads was written after the call, backward() throws Error.
//   - A gradient with terms inside and outside of the function may be summed in another order.

// Errors under autograd::Record:
//   - Error for a gradient with create_graph through the call.
//   - CaptureError at the first call, if the function calls backward() itself or captures a result
//     of ops that were recorded outside.
//   - The first call also throws what backward() would throw for the uncompiled function.

// Errors:
//   - CaptureError at the first call for operations that cannot be replayed: host reads, waits,
//     file reads, copies between a GPU and pageable memory, ops marked no_capture, parallel(), and
//     backward() through a graph from outside. Call the uncompiled function instead.
//   - After an error at the first call, what the function did before the error stays. No recording
//     is kept, so the next call runs the function again.
//   - If a replay fails, for example by a bad index, a part of its writes stays. Its random numbers
//     count as drawn, and its updates as made. Values that a replay reads anew are not checked: a
//     learning rate of NaN is used. Later calls replay again. If the recording has kernels that
//     wait for other GPUs, and a launch failed, later replays throw DeviceError.
//   - If there is no memory for a replay's results, the call throws OutOfMemory before anything is
//     written or drawn. The recording stays valid.
//   - Error if a Compiled is called, cleared or described during its own call: on the thread of the
//     call, or on a thread of parallel() (parallel.h) that the call waits for. An example is a
//     parameter's initializer that calls the Compiled. clear(), calls(), describe() and dot() throw
//     CaptureError while their thread records.
//   - Error if the function is empty, or if the Compiled was moved from. ValueError if keys is 0.
//     EmptyTensor for an empty input or result.
// With LOCUS_CHECK=nan (nan_check.h) the function runs uncompiled. Inside another recording, the
// function becomes part of the outer recording.

}  // namespace locus
