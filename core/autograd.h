// Automatic differentiation by recording. In a Record scope every op on a tensor that needs a
// gradient leaves a node, and backward() walks the nodes in reverse. The scopes are thread-local,
// nest, and restore the mode on exit. Results own the graph that they come from.
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
  Tensor head_gradient = {};  // undefined: ones; of the head's shape, on its context
  bool retain_graph = false;
};

namespace autograd {

bool is_recording();
bool is_training();  // what Dropout and its like ask

class [[nodiscard]] Mode : NonCopyable {
 public:
  ~Mode();

 protected:
  Mode(int recording, int training);  // 0 or 1; -1: leave as it is

 private:
  bool recording_, training_;
};
// Records and, unless told otherwise, trains.
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
// Several heads at once; each leaf's gradient is written once, the sum over the heads.
void backward(const Tensors& heads, const HeadOptions& = {}, Caller = Caller::here());

struct GradOptions {
  Tensors head_gradients = {};  // empty: ones for each head
  bool retain_graph = false;    // create_graph implies it
  bool create_graph = false;    // record the pass itself: the gradients are in a graph
  // For a variable that the heads do not reach: an undefined Tensor; or zeros.
  bool allow_unused = false;
  bool materialize_grads = false;
};
// The gradients of the sum of `heads` with respect to `variables`; .grad is not touched. Each is
// row-major in memory of its own, which nothing else has. A variable that the heads do not reach is
// an Error, unless the options say otherwise.
Tensors grad(const Tensor& head, const Tensors& variables, const GradOptions& = {},
             Caller = Caller::here());
Tensors grad(const Tensors& heads, const Tensors& variables, const GradOptions& = {},
             Caller = Caller::here());

// What an update takes: whether backward() has written x's gradient since it was marked as used,
// and whether what it wrote is marked as the sum over replicas. A gradient that is not fresh is
// none.
bool fresh_grad(const Tensor& x);
bool summed_grad(const Tensor& x);
void mark_used(const Tensor& x);
void mark_summed(const Tensor& x);

// For core and nn (a Trainer with overlap): calls `written` as soon as backward() has written the
// leaf x's gradient, on its thread, and `before`, where there is one, before anything of it is:
// what that throws leaves it as it is. Not in what a compiled function records. One pair a leaf;
// `written` null: none.
void set_grad_hook(const Tensor& x, std::function<void()> written,
                   std::function<void()> before = {});

// --- Details ---
//   - A graph may cross contexts: each gradient returns to the context of its tensor.
//   - Only what leads to a leaf, or for grad() to a variable, is computed.
//   - A pass frees the graph as it walks. A second pass over it throws Error, unless the first one
//     was given retain_graph.
//   - The gradient of a leaf or variable is 0 if the heads reach it and nothing contributes, as
//     through an index. With create_graph the gradient belongs to the graph of its variable even
//     then: differentiating 3 * x twice gives 0.
//   - Several threads may differentiate at once, also through common tensors. Two passes over one
//     graph need retain_graph in both. backward() writes x.grad() of every leaf x that it reaches:
//     only one thread at a time may write the gradient of one leaf.
//   - Only grad() has create_graph: a gradient that x.grad() keeps, and whose graph leads to x,
//     would keep x alive for ever.

}  // namespace autograd
}  // namespace locus
