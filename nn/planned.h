// Planned: a network that is trained as a plan says (nn/plan.h), on one context or on many.
//
//   nn::Planned net(layers, nn::Plan::load("gpus.plan"));    // of an nn::Sequential
//   net.initialize(init::Xavier());                          // each layer where the plan has it
//   nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .1}));
//   for (const auto& [image, label] : loader) {
//     Tensor l = net.forward_backward(image, label, loss_fn);
//     trainer.step(image.shape()[0]);
//   }
//
// Training gives what Record, backward() and step() of the Sequential on one context give, to
// rounding. A function that is compiled may call forward_backward (nn/train_step.h).
#pragma once

#include <memory>
#include <vector>

#include <locus/nn/containers.h>
#include <locus/nn/plan.h>

namespace locus::nn {

// How a layer of a stage that is cut is made: by itself for the tensor of each context, or as a
// Dense that is a column, a column whose results are gathered, a row, or a row of what every
// context has.
enum class CutAs : uint8_t { each, column, gathered, row, row_of_whole };
// Of layers `first` to `last`, both included. ValueError where one has no parts.
std::vector<CutAs> cut_as(const Sequential& layers, int first, int last);

class Planned : public Block {
 public:
  // Throws as Plan::check() does.
  Planned(const Sequential& layers, const Plan& plan, Caller = Caller::here());

  // As Pipeline::forward_backward, also after an exception: gradients of the sum of all losses in
  // the parameters' grad(), and the losses (batch,), on the last stage's first context. data and
  // label live anywhere.
  Tensor forward_backward(const Tensor& data, const Tensor& label, const LossFunction& loss_fn,
                          Caller = Caller::here());
  // Predictions, by the first replica: on the last stage's first context.
  Tensor forward(const Tensor& x) override;
  void initialize(const init::Initializer& global = init::Uniform(), const InitializeOptions& = {},
                  Caller = Caller::here());

  const Plan& plan() const { return plan_; }
  // Of each replica; none where a stage is cut.
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

// What depends on a batch differs from the Sequential: BatchNorm and Dropout see each replica's
// microbatch as a batch (nn/pipeline.h). With SyncBatchNorm and several replicas forward_backward
// throws Error: run the network by net.on_replicas(xs) instead.

// Threads: where nothing is recorded, a thread for each replica enqueues it (parallel()). All of
// these threads call loss_fn, and Dropout draws each replica's numbers by themselves
// (core/generator.h): other numbers than in a compiled step.

// Cut stages hold Dense layers in pairs, the first ColumnParallelDense, the second
// RowParallelDense, with one sum between contexts in each direction. A single Dense is a row whose
// input every context has, or, at the stage's beginning, a column whose results are gathered.
// Activate may stand between and beside Dense layers; so may Flatten, but not within a pair.
// ValueError for another layer, which has no parts; ShapeError for fewer units than contexts.

// Layers are shared with the Sequential, except those that are cut. These have parameters of their
// own, with the names of the Sequential's Dense layers and, in files, their shapes; dtype, grad_req
// and multipliers are copied when the Planned is made. ValueError for a cut layer that shares
// parameters with another layer.

}  // namespace locus::nn
