// Dense layers that are cut over contexts: tensor parallelism (Shoeybi et al., Megatron-LM, 2019).
// Each context holds a part of the weight and computes with it. A layer takes and returns one
// tensor per context, in the contexts' order. broadcast(group, x) copies x to all contexts.
// Only collectives (ops/collective.h) move tensors: the pair below needs one all_reduce in each
// direction. Unusual cases: "Details" at the end.
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
  // Throws unless there is one input on each context and all have one shape. With but_last_axis,
  // the lengths of the last axis may differ.
  void check(const Tensors& in, bool but_last_axis) const;
  void complete(int64_t in_units) const;
  Context context(size_t i) const { return group_[static_cast<int>(i)]; }

  const Group group_;
  const int64_t units_;
  const Activation activation_;
  std::vector<Parameter> weights_;
  std::vector<Parameter> biases_;  // one per context; a context without bias: not valid()
};

// A Dense whose units are cut. Input: equal tensors on all contexts; their values are not compared.
// Result: (N, units_i) on context i, or (N, units) on every context with gather_output. Without
// flatten: (..., units_i) or (..., units).
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
//   - Each context has its part of the weight as a separate parameter, "weight.0", "weight.1", ...
//     A column's bias has parts, too, "bias.0", "bias.1", ... A row's bias is one parameter,
//     "bias". A layer on one context has "weight" and "bias". A Trainer never sums parts.
//   - If a length does not divide by the number of contexts, the first parts are one longer.
//   - Initial values are the parts of the values that a Dense draws from the same seed.
//   - Parts stay on their contexts. initialize() ignores the contexts that it is given. If
//     reset_ctx() would move a part, it throws Error and moves nothing in the whole network.
//   - Files hold the whole weight and bias under Dense's names, "weight" and "bias". Files saved
//     on any number of contexts, or by a Dense, load on any number of contexts and into a Dense.
//     The same holds for the states of a Trainer that has all parts (nn/trainer.h).
//   - To change the number of contexts, save the network and the Trainer's states, and load them
//     into a network and a Trainer made for the new contexts.

// Gradients
//   - Compute the loss from ONE of the equal results. backward() adds the gradients of all n
//     results, so the sum of n equal losses gives n times the gradient.
//   - If a layer takes equal inputs, the gradient of input i has only the term of context i's part.
//     The whole gradient is the sum over the contexts. If a collective made the inputs
//     (broadcast(), or a layer before), the backward of the collective computes the sum.
//   - If a row takes parts of the input (input_is_parallel), the gradient of input i is the whole
//     gradient of that part.

// Errors
//   - the errors of Group for the contexts, from the constructor
//   - ShapeError for a column with fewer units than contexts, from the constructor
//   - ShapeError for a row with fewer inputs than contexts: from the constructor if in_units is
//     given, else from the first call. A row's units are not cut and may be few.
//   - ShapeError for inputs that do not fit each other or the weight. A row's inputs are as wide as
//     its parts of the weight.
//   - DTypeError for an input of another dtype than the weight. Inside an amp::Scope, f16,
//     bf16 and f32 inputs are cast to the scope's dtype. In the scope, a layer with an f64 input
//     computes in f64.
//   - Error if the number of inputs is not the number of contexts
//   - ContextMismatch for an input on another context

}  // namespace locus::nn
