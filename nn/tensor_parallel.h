// Dense layers that are cut over contexts: tensor parallelism (Shoeybi et al., Megatron-LM, 2019).
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
//
// A layer takes and returns one tensor per context, in the contexts' order. Only collectives
// (ops/collective.h) move tensors: one all_reduce in each direction for such a pair.
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
  bool flatten = true;         // as Dense's
  bool gather_output = false;  // true: the whole result on every context, by all_gather
  int64_t in_units = 0;        // 0: taken from the first input
  std::optional<init::Initializer> weight_initializer = {};  // unset: the one given to initialize()
  std::optional<init::Initializer> bias_initializer = {};    // unset: zeros
  DType dtype = f32;
};
struct RowParallelDenseOptions {
  bool use_bias = true;
  // false: x on every context, of which each takes its part, which moves nothing
  bool input_is_parallel = true;
  int64_t in_units = 0;  // of the whole
  std::optional<init::Initializer> weight_initializer = {};
  std::optional<init::Initializer> bias_initializer = {};
  DType dtype = f32;
};

// What the two share.
class ParallelDense : public Block {
 public:
  bool spans_contexts() const override { return true; }
  std::string repr() const override;

 protected:
  ParallelDense(int64_t units, const Contexts& contexts, const Activation& activation, int axis,
                const auto& options);
  // Unless there is one input a context, there, and, but for the length of `axis`, all alike.
  void check(const Tensors& in, bool but_last_axis) const;
  void complete(int64_t in_units) const;
  Context context(size_t i) const { return group_[static_cast<int>(i)]; }

  const Group group_;
  const int64_t units_;
  const Activation activation_;
  std::vector<Parameter> weights_;
  std::vector<Parameter> biases_;  // as many; where a context has none it is not valid
};

// A Dense whose units are cut: x, equal on every context, to units i, (N, units_i), on context i.
class ColumnParallelDense : public ParallelDense {
 public:
  ColumnParallelDense(int64_t units, const Contexts& contexts, const Activation& activation = {},
                      const ColumnParallelDenseOptions& = {});
  using Block::forward;
  Tensors forward(const Tensors& in) override;

 private:
  const bool flatten_, gather_;
};

// A Dense whose inputs are cut: (..., in_i) on context i, as a ColumnParallelDense gives them, to
// the whole result (..., units) on every context. The bias lives on the first one, and is added
// once, before the sum.
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

// Parameters: each context has its part of a weight as a parameter of its own (nn/parameter.h,
// Part), "weight.0", "weight.1", ..., which is never summed with the others. Files hold the whole
// weight under Dense's names, "weight" and "bias": a file of a Dense loads here, on any number of
// contexts, and the reverse; so do a Trainer's states. The values are the parts of what a Dense
// draws from the same seed. Where a length does not divide by the number of contexts, the first
// parts are one longer. Parts stay on their contexts, whatever contexts initialize() is told.

// Gradients: equal results on n contexts are n tensors, each with its own gradient. The gradient of
// x on one context is what reaches x there. The whole gradient is the sum over the contexts:
// broadcast()'s gradient makes it, or that of the all_reduce of the layer before. A loss is
// therefore of ONE of the equal results: a sum of losses of all n has n times the gradient.

// Errors:
//   - Group's for the contexts;
//   - ShapeError for fewer units or inputs than contexts, and for inputs that do not fit together
//     or the weight;
//   - Error where the number of inputs is not that of the contexts;
//   - ContextMismatch for an input that lives elsewhere.

}  // namespace locus::nn
