// Planned: trains an nn::Sequential on one or more contexts, as a plan says (nn/plan.h). Training
// gives the results of Record, backward() and step() of the Sequential on one context, to rounding.
// The Planned shares its layers, except cut ones, with the Sequential. Unusual cases: "Details" at
// the end.
//
//   nn::Planned net(layers, nn::Plan::load("gpus.plan"));
//   net.initialize(init::Xavier());                          // each layer on the plan's contexts
//   nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .1}));
//   for (const auto& [image, label] : loader) {
//     Tensor l = net.forward_backward(image, label, loss_fn);
//     trainer.step(image.shape()[0]);
//   }
//
// A compiled function may call forward_backward() (nn/train_step.h).
#pragma once

#include <memory>
#include <vector>

#include <locus/nn/containers.h>
#include <locus/nn/plan.h>

namespace locus::nn {

// How a cut stage computes a layer:
//   each          the layer itself, on each context's tensor
//   column        ColumnParallelDense
//   gathered      ColumnParallelDense with gather_output
//   row           RowParallelDense
//   row_of_whole  RowParallelDense without input_is_parallel
enum class CutAs : uint8_t { each, column, gathered, row, row_of_whole };
// The choice for each of the layers `first` to `last`, both included. ValueError if a layer cannot
// be cut, or if none of the layers is a Dense.
std::vector<CutAs> cut_as(const Sequential& layers, int first, int last);

class Planned : public Block {
 public:
  // Errors: those of Plan::check(), and those of cut stages (see Details).
  Planned(const Sequential& layers, const Plan& plan, Caller = Caller::here());

  // Like Pipeline::forward_backward, also after an exception. ValueError for fewer samples than
  // replicas times microbatches. A cut stage checks parameters where they are used. Computes the
  // gradients of the sum of all losses into the parameters' grad(). Returns the losses (batch,), on
  // the last stage's first context. data and label may be on any contexts.
  Tensor forward_backward(const Tensor& data, const Tensor& label, const LossFunction& loss_fn,
                          Caller = Caller::here());
  // Predictions of the first replica, on the last stage's first context.
  Tensor forward(const Tensor& x) override;
  void initialize(const init::Initializer& global = init::Uniform(), const InitializeOptions& = {},
                  Caller = Caller::here());

  const Plan& plan() const { return plan_; }
  // The pipeline of each replica. Empty if a stage is cut.
  std::vector<Pipeline>& pipelines() { return pipelines_; }
  bool spans_contexts() const override { return plan_.contexts().size() > 1; }
  std::string repr() const override;

 private:
  Tensor run(const Tensor& data, const Tensor& label, const LossFunction& loss_fn, Caller);
  Contexts home(const Parameter& p) const override;

  Plan plan_;
  std::vector<Sequential> stages_;
  std::vector<Pipeline> pipelines_;
};

// --- Details ---

// Differences from the Sequential
//   - BatchNorm and Dropout treat each replica's microbatch as a batch (nn/pipeline.h).
//   - With SyncBatchNorm and several replicas, forward_backward() throws Error. Run the
//     Sequential by its on_replicas(xs) instead.

// Threads
//   - One thread per replica enqueues the replica's work (parallel()), unless the call is
//     recorded (core/compile.h). Inside parallel() or recompute(), several replicas are an Error.
//   - All of these threads call loss_fn.
//   - With these threads, Dropout draws separate numbers for each replica (core/generator.h). A
//     compiled step draws other numbers.

// Cut stages
//   - Dense layers are cut in pairs: first a ColumnParallelDense, then a RowParallelDense. Each
//     pair needs one sum between contexts in each direction.
//   - A Dense without a partner is a row that takes the whole input. If it is the stage's first
//     Dense and flattens, it is a column with gathered results instead.
//   - Activate may stand between and beside Dense layers. Flatten may too, but not within a pair.
//   - ValueError for another layer. ShapeError for a column with fewer units, or a row with
//     fewer inputs, than contexts.

// Layers
//   - Layers are shared with the Sequential, except cut layers.
//   - A cut layer has its own parameters. In files their names and shapes are those of the
//     Sequential's Dense layer. The constructor copies dtype, grad_req and multipliers, no values.
//   - ValueError for a cut layer that shares parameters with another layer.

}  // namespace locus::nn
