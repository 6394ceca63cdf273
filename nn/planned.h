// Planned: trains an nn::Sequential on one or more contexts, as a plan says (nn/plan.h). Training
// gives the results of the Sequential trained on one context, except for rounding, BatchNorm and
// Dropout. The Planned shares its layers, except cut ones, with the Sequential: training changes
// the Sequential's values. Cut layers have their own parameters. One thread at a time may call a
// Planned. Unusual cases: "Details" at the end.
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
// The choice for each of the layers `first` to `last`, both included. ValueError if a layer does
// not exist or cannot be cut, or if none of the layers is a Dense.
std::vector<CutAs> cut_as(const Sequential& layers, int first, int last);

class Planned : public Block {
 public:
  // Errors: those of Plan::check(), and those of cut stages (see Details), with the plan's line.
  Planned(const Sequential& layers, const Plan& plan, Caller = Caller::here());

  // Like Pipeline::forward_backward: computes the gradients of the sum of all losses into the
  // parameters' grad(), and returns the detached losses (batch,) in the batch's order. The losses
  // are on the last stage's first context; their backward() throws Error. data and label may be on
  // any contexts. Each replica computes one part of the batch. Errors: those of
  // Pipeline::forward_backward. ValueError for fewer samples than replicas times microbatches.
  Tensor forward_backward(const Tensor& data, const Tensor& label, const LossFunction& loss_fn,
                          Caller = Caller::here());
  // Predictions, computed by the first replica: the first context of each stage, and all contexts
  // of a cut stage. The result is on the last stage's first context.
  Tensor forward(const Tensor& x) override;
  // Initializes each layer on its stage's contexts. Without force_reinit, initialized parameters
  // keep their contexts and values; forward_backward() throws ContextMismatch for a parameter that
  // is elsewhere.
  void initialize(const init::Initializer& global = init::Uniform(), const InitializeOptions& = {},
                  Caller = Caller::here());

  const Plan& plan() const { return plan_; }
  // The pipeline of each replica. Empty if a stage is cut.
  std::vector<Pipeline>& pipelines() { return pipelines_; }
  bool spans_contexts() const override { return plan_.contexts().size() > 1; }
  std::string repr() const override;

 private:
  void check_stages() const;
  bool on_threads() const;
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
//   - Several replicas have one thread each, which enqueues the replica's work (core/parallel.h).
//     The first replica runs on the calling thread, unless the caller has a StreamScope.
//   - Each thread calls loss_fn once per microbatch. Calls of different replicas run at the same
//     time. In loss_fn, current_context() is the replica's context of the first stage.
//   - While a call is recorded (core/compile.h), the calling thread does the work of all replicas,
//     one after the other. In loss_fn, current_context() is then the caller's. A plan with one
//     replica or a cut stage always uses the calling thread.
//   - With several threads, Dropout draws separate numbers for each replica (core/generator.h). A
//     compiled step draws other numbers.
//   - With several replicas, forward_backward() throws Error inside parallel(), and in recompute()
//     under autograd::Record, before it computes anything.

// After an error while forward_backward() computes
//   - If one replica throws, the others finish their work. If several throw, the exception of the
//     first of these replicas is rethrown. While the call is recorded, replicas after the one that
//     throws do not run.
//   - Gradients of all replicas, on all contexts, are dropped as in nn/pipeline.h: all count as
//     stale, and Trainer::step refuses them. Gradients with GradReq::add that were written since
//     the last step become 0.

// Cut stages
//   - Dense layers are cut in pairs: first a ColumnParallelDense, then a RowParallelDense. Each
//     pair needs one sum between contexts in each direction.
//   - A pair is two Dense layers with nothing but Activate between them. If the second one
//     flattens, so does the first.
//   - A Dense without a partner is a column with gathered results if it flattens and no earlier
//     Dense of the stage flattens. Otherwise it is a row that takes the whole input.
//   - Activate may stand between and beside Dense layers. Flatten may too, but not within a pair.
//   - The constructor throws ValueError for another type of layer, and for a stage without a
//     Dense.
//   - The constructor throws ShapeError if a column has fewer units than the stage has contexts.
//   - A row may have few units. A row with fewer inputs than contexts is a ShapeError: from the
//     constructor if in_units is given, otherwise from the first call.

// Layers
//   - Layers are shared with the Sequential, except cut layers.
//   - A cut layer has its own parameters, without values: call initialize() or load_parameters().
//     The Sequential's parameters of this layer stay as they are.
//   - For a cut layer, the constructor copies the options of the Dense, such as initializers, and
//     its parameters' dtype, grad_req and multipliers, but no values.
//   - parameters() names the parts of a cut layer "1.weight.0", "1.weight.1", "1.bias.0", ... The
//     bias of a row is one parameter, "1.bias". Files have the names and shapes of the Sequential,
//     "1.weight" and "1.bias".
//   - The constructor throws ValueError for a cut layer that shares parameters with another layer.

}  // namespace locus::nn
