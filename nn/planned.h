// Planned: a network that is trained as a plan says (nn/plan.h).
//
//   nn::Planned net(layers, nn::Plan::load("gpus.plan"));    // of an nn::Sequential
//   net.initialize(init::Xavier());                          // each layer where the plan has it
//   nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .1}));
//   for (const auto& [image, label] : loader) {
//     Tensor l = net.forward_backward(image, label, loss_fn);
//     trainer.step(image.shape()[0]);
//   }
//
// trains as Record, backward() and step() of the Sequential on one context do, to rounding, but for
// what depends on a batch: BatchNorm and Dropout see each replica's microbatch as one of its own
// (nn/pipeline.h). SyncBatchNorm with a plan of several replicas is an Error of forward_backward:
// run the network by net.on_replicas(xs) instead. The same code runs on one context and on many; a
// function that is compiled may call forward_backward (nn/train_step.h).
//
// A network of several replicas is enqueued by a thread for each (parallel()), where nothing is
// recorded; loss_fn is called by all of them then, and Dropout draws each replica's numbers by
// themselves (core/generator.h), not those that it draws where the step is compiled.
//
// Cut stages are made of Dense layers two by two, the first ColumnParallelDense, the second
// RowParallelDense, with one sum between contexts in each direction; a single one is a row whose
// input every context has, or at the stage's beginning a column whose results are gathered.
// Between and beside them there may be Activate and, but for within a pair, Flatten; ValueError for
// another layer, which has no parts, ShapeError for fewer units than contexts.
//
// Layers are shared with the Sequential, but those that are cut: these have parameters of their
// own, by the names, and in files the shapes, of its Dense layers', with their dtype, grad_req and
// multipliers as they are when this is made. ValueError for one that shares them with another
// layer.
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
  Planned(const Sequential& layers, const Plan& plan);

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

}  // namespace locus::nn
