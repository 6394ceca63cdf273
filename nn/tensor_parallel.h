// Dense layers that are cut over contexts: tensor parallelism (Shoeybi et al., Megatron-LM, 2019).
// Each context holds a part of the weight and computes with it. A layer takes and returns one
// tensor per context, in the contexts' order. Only collectives (ops/collective.h) move tensors: the
// pair below needs one all_reduce in each direction. Unusual cases: "Details" at the end.
//
//   nn::ColumnParallelDense up(2048, gpus(2), nn::relu);   // y_i = relu(x W_i^T + b_i), units cut
//   nn::RowParallelDense down(784, gpus(2));               // y = sum_i x_i W_i^T + b, inputs cut
//   nn::Sequential net;
//   net.add(up, down);
//   net.initialize(init::Xavier());
//   nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .1}));
//   { autograd::Record record;  l = loss_fn(net(broadcast(gpus(2), x))[0], y); }
//   l.backward();
//   trainer.step(n);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <locus/core/group.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/block.h>

namespace locus::nn {

struct ColumnParallelDenseOptions {
  bool use_bias = true;
  bool flatten = true;         // as in Dense
  bool gather_output = false;  // true: all_gather puts the whole result on every context
  int64_t in_units = 0;        // 0: taken from the first input
  std::optional<init::Initializer> weight_initializer = {};  // unset: the one given to initialize()
  std::optional<init::Initializer> bias_initializer = {};    // unset: zeros
  DType dtype = f32;
};
struct RowParallelDenseOptions {
  bool use_bias = true;
  // false: every context has the whole input and takes its part of it
  bool input_is_parallel = true;
  int64_t in_units = 0;  // of the whole weight; 0: taken from the first input
  std::optional<init::Initializer> weight_initializer = {};
  std::optional<init::Initializer> bias_initializer = {};
  DType dtype = f32;
};

// Base class of both layers.
class ParallelDense : public Block {
 public:
  bool spans_contexts() const override { return true; }
  std::string repr() const override;

 protected:
  ParallelDense(int64_t units, const Contexts& contexts, const Activation& activation, int axis,
                const auto& options);
  // Throws unless there is one input on each context, with equal shapes; but_last_axis: except the
  // last axis.
  void check(const Tensors& in, bool but_last_axis) const;
  void complete(int64_t in_units) const;
  Context context(size_t i) const { return group_[static_cast<int>(i)]; }

  const Group group_;
  const int64_t units_;
  const Activation activation_;
  std::vector<Parameter> weights_;
  std::vector<Parameter> biases_;  // one per context; a context without bias: not valid()
};

// A Dense whose units are cut. Input: equal tensors on all contexts. Result: (N, units_i) on
// context i, or (N, units) on every context with gather_output; without flatten (..., units).
class ColumnParallelDense : public ParallelDense {
 public:
  ColumnParallelDense(int64_t units, const Contexts& contexts, const Activation& activation = {},
                      const ColumnParallelDenseOptions& = {});
  using Block::forward;
  Tensors forward(const Tensors& in) override;

 private:
  const bool flatten_, gather_;
};

// A Dense whose inputs are cut. Input: (..., in_i) on context i, as a ColumnParallelDense returns
// them, or without input_is_parallel the whole (..., in) on every context. Result: (..., units) on
// every context. The bias lives on the first context and is added once, before the sum.
class RowParallelDense : public ParallelDense {
 public:
  RowParallelDense(int64_t units, const Contexts& contexts, const Activation& activation = {},
                   const RowParallelDenseOptions& = {});
  using Block::forward;
  Tensors forward(const Tensors& in) override;

 private:
  const bool parallel_;
};

// --- Details ---

// Parameters (nn/parameter.h)
//   - Each context has its part of the weight as a separate parameter, "weight.0", "weight.1", ...;
//     on one context "weight". A Trainer never sums parts.
//   - If a length does not divide by the number of contexts, the first parts are one longer.
//   - Initial values are the parts of the values that a Dense draws from the same seed.
//   - Parts stay on their contexts; the contexts given to initialize() do not matter.
//   - Files hold the whole weight and bias under Dense's names, "weight" and "bias". Files of a
//     Dense load on any number of contexts, and the reverse. A Trainer's states do, too.

// Gradients
//   - Equal results on n contexts are n tensors, each with its own gradient.
//   - Compute the loss from ONE of the equal results. A sum of the losses of all n has n times the
//     gradient.
//   - The gradient of one of equal inputs is only that context's term. The whole gradient is
//     the sum over contexts. The backward of broadcast(), or of the all_reduce of the layer before,
//     computes this sum.

// Errors
//   - the errors of Group for the contexts
//   - ShapeError for a column with fewer units, or a row with fewer inputs, than contexts, and for
//     inputs that do not fit each other or the weight
//   - DTypeError for an input of another dtype than the weight, outside an amp::Scope
//   - Error if the number of inputs is not the number of contexts
//   - ContextMismatch for an input on another context

}  // namespace locus::nn
