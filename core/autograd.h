// Automatic differentiation by recording. In a Record scope, each op on a tensor that needs a
// gradient records a node. backward() walks the nodes in reverse. Scopes are thread-local, nest,
// and restore the mode on exit. Results own their graph.
//
//   Tensor w = array({1.f, 2.f}), loss;
//   w.attach_grad();
//   { autograd::Record record;  loss = (w * w).sum(); }
//   const Tensor g = autograd::grad(loss, {w}, {.retain_graph = true})[0];  // 2 w, a new tensor
//   loss.backward();                                                        // w.grad() is 2 w
#pragma once

#include <functional>

#include <locus/core/tensor.h>

namespace locus {

struct BackwardOptions {
  Tensor head_gradient = {};  // the head's shape and context; undefined: ones
  bool retain_graph = false;
};

namespace autograd {

bool is_recording();
bool is_training();  // read by Dropout and BatchNorm

class [[nodiscard]] Mode : NonCopyable {
 public:
  ~Mode();

 protected:
  Mode(int recording, int training);  // 0 or 1; -1: leave as it is

 private:
  bool recording_, training_;
};
// Records, by default in training mode.
class [[nodiscard]] Record : public Mode {
 public:
  explicit Record(bool train_mode = true) : Mode(1, train_mode) {}
};
class [[nodiscard]] Pause : public Mode {
 public:
  explicit Pause(bool train_mode = false) : Mode(0, train_mode) {}
};
class [[nodiscard]] TrainMode : public Mode {
 public:
  TrainMode() : Mode(-1, 1) {}
};
class [[nodiscard]] PredictMode : public Mode {
 public:
  PredictMode() : Mode(-1, 0) {}
};

struct HeadOptions {
  Tensors head_gradients = {};  // empty: ones for each head
  bool retain_graph = false;
};
// Differentiates the sum of several heads. Each leaf's gradient is written once.
void backward(const Tensors& heads, const HeadOptions& = {}, Caller = Caller::here());

struct GradOptions {
  Tensors head_gradients = {};  // empty: ones for each head
  bool retain_graph = false;    // create_graph implies it
  bool create_graph = false;    // records the pass: the gradients are in a graph
  // If the heads do not reach a variable, return an undefined Tensor; or zeros.
  bool allow_unused = false;
  bool materialize_grads = false;
};
// Returns the gradients of the sum of `heads` with respect to `variables`, without changing .grad.
// Each gradient is row-major in new memory. A variable that the heads do not reach is an Error,
// unless an option allows it.
Tensors grad(const Tensor& head, const Tensors& variables, const GradOptions& = {},
             Caller = Caller::here());
Tensors grad(const Tensors& heads, const Tensors& variables, const GradOptions& = {},
             Caller = Caller::here());

// State of x's gradient, for optimizers. Fresh: backward() has written the gradient since
// mark_used(). Summed: the gradient is fresh, and marked as summed over replicas.
bool fresh_grad(const Tensor& x);
bool summed_grad(const Tensor& x);
void mark_used(const Tensor& x);
void mark_summed(const Tensor& x);

// For core and nn (a Trainer with overlap). backward() calls `before`, if given, before it writes
// the gradient of leaf x, and `written` right after, both on its own thread. If `before` throws,
// the gradient is unchanged. Compiled functions call no hooks. A leaf has one pair; null `written`
// removes the pair.
void set_grad_hook(const Tensor& x, std::function<void()> written,
                   std::function<void()> before = {});

// --- Details ---
//   - A graph may cross contexts. Each gradient is on the context of its tensor.
//   - A pass computes only gradients on paths to a leaf or, for grad(), to a variable.
//   - A pass frees the graph. A second pass throws Error, unless the first pass had retain_graph.
//   - If the heads reach a leaf or variable but nothing contributes, as through an index, the
//     gradient is 0. With create_graph that 0 is in the variable's graph, too: differentiating
//     3 * x twice gives 0.
//   - Threads may differentiate at the same time, also through shared tensors. Two passes over one
//     graph both need retain_graph. backward() writes x.grad() of every leaf x that it reaches, and
//     only one thread at a time may write the gradient of a leaf.
//   - Only grad() has create_graph: if x.grad() held a graph that leads to x, x would never be
//     freed.

}  // namespace autograd
}  // namespace locus
