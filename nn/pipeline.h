// Pipeline: a network that is cut into stages, for training on several contexts. Each stage has its
// own context. On GPUs the stages compute different parts of a batch at once.
// forward_backward() cuts the batch into microbatches and adds up their gradients. Training gives
// the results of one Sequential of all layers, except for rounding, BatchNorm and Dropout. The
// pipeline shares its stages with the caller. One thread at a time may call a pipeline. The thread
// enqueues all work, calls loss_fn, and waits only for copies from and to the host. Unusual cases:
// "Details" at the end.
//
//   nn::Pipeline pipe({stage0, stage1}, gpus(2), {.microbatches = 8});
//   pipe.initialize(init::Xavier());                    // each stage on its context
//   nn::Trainer trainer(pipe.parameters(), optim::SGD({.learning_rate = .1}));
//   for (const auto& [image, label] : loader) {
//     Tensor l = pipe.forward_backward(image, label, loss_fn);
//     trainer.step(image.shape()[0]);
//   }
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <vector>

#include <locus/nn/block.h>
#include <locus/nn/layers/loss_function.h>

namespace locus::nn {

enum class Schedule : uint8_t { gpipe, one_f1b };

constexpr int kMostMicrobatches = 1 << 20;  // limits the length of order()

struct PipelineOptions {
  // 1 to kMostMicrobatches. More microbatches make the bubble and each pass smaller.
  int microbatches = 8;
  Schedule schedule = Schedule::one_f1b;
};

class Pipeline : public Block {
 public:
  // The stages in order: blocks of any type, shared with the caller as in Sequential::add.
  class Stages {
   public:
    template <std::derived_from<Block>... B>
    requires(sizeof...(B) > 0) Stages(const B&... stages) : list{std::make_shared<B>(stages)...} {}
    std::vector<std::shared_ptr<Block>> list;
  };

  // Stage i computes on contexts[i]. ValueError unless there are as many contexts as stages, each
  // context once. ValueError for an option out of its range.
  Pipeline(const Stages& stages, const Contexts& contexts, const PipelineOptions& options = {},
           Caller = Caller::here());

  // Writes the gradients of the sum of all losses to the parameters' grad(). With GradReq::add,
  // gradients are added up. The call needs no autograd::Record: it records and runs backward()
  // itself. Returns the losses (batch,) in the batch's order, on the last context. The losses are
  // detached: their backward() throws Error. The batch is axis 0 of data and label.
  // loss_fn(output, labels) is called once per microbatch. loss_fn returns one loss per sample, on
  // the last context. Errors before anything is computed, which change no gradient:
  //   ValueError       fewer samples than microbatches, or an empty loss_fn
  //   ShapeError       another number of labels than of samples
  //   Error            data or a label that needs a gradient (the call computes none for it); a
  //                    parameter that was never initialized; a shape that is not known yet is
  //                    allowed
  //   ContextMismatch  a parameter that is not initialized on its stage's context; replicas on
  //                    further contexts are allowed
  // Errors while computing, also loss_fn's own, drop gradients (see Details):
  //   ShapeError       loss_fn returns another shape, such as a mean
  //   ContextMismatch  loss_fn returns losses on another context
  Tensor forward_backward(const Tensor& data, const Tensor& label, const LossFunction& loss_fn,
                          Caller = Caller::here());

  // Predictions: runs the stages one after the other, with copies between them.
  Tensor forward(const Tensor& x) override;

  // Initializes each stage on its context. Initialized blocks stay without force_reinit.
  void initialize(const init::Initializer& global = init::Uniform(), const InitializeOptions& = {},
                  Caller = Caller::here());
  // parameters() and files have the names of one Sequential of all layers. Files of the uncut
  // network load. A stage that is a Sequential counts as its layers.

  // The share of a step that a stage idles if all passes take equally long.
  double bubble() const { return bubble(stages(), options_.microbatches); }
  static double bubble(int stages, int microbatches) {
    return static_cast<double>(stages - 1) / (microbatches + stages - 1);
  }
  // The most microbatches whose activations a stage holds at once.
  int in_flight(int stage) const;

  int stages() const { return static_cast<int>(stages_.size()); }
  const Contexts& contexts() const { return contexts_; }
  std::string repr() const override;

  // A pass of one microbatch through one stage.
  struct Pass {
    int stage, microbatch;
    bool backward;
    int tick;  // when it runs if all take equally long, from 0
    friend bool operator==(const Pass&, const Pass&) = default;
  };
  // All passes of a step, in the order in which they are enqueued.
  static std::vector<Pass> order(Schedule schedule, int stages, int microbatches);
  // Later steps call f before and after each pass is enqueued, on the enqueuing thread. Replays of
  // a compiled step do not call f. An empty f ends the calls. Before a pass, `given` is the tensor
  // for which the pass waits, on the stage's context:
  //   forward    the stage's input
  //   backward   the gradient of the stage's output. For the last stage: the losses. If neither the
  //              stage nor an earlier stage trains: the stage's output.
  // After a pass, `given` is undefined.
  using Watch = std::function<void(const Pass& pass, bool enqueued, const Tensor& given)>;
  void watch(Watch f) { watch_ = std::move(f); }

 private:
  friend class Planned;  // checks all its pipelines before it runs one
  struct Step;
  // Throws unless p has a replica on c, or will have one.
  static void check_place(const char* who, size_t stage, Context c, const Parameter& p);
  void check_stages() const;
  void drop_grads() const;
  Tensor run(const Tensor& data, const Tensor& label, const LossFunction& loss_fn, Caller);
  std::vector<bool> stages_that_train() const;
  Contexts home(const Parameter& p) const override;

  std::vector<std::shared_ptr<Block>> stages_;
  std::vector<std::vector<Parameter>> parameters_;  // of each stage
  Contexts contexts_;
  PipelineOptions options_;
  std::vector<Pass> order_;
  Watch watch_;
};

// --- Details ---

// Microbatches
//   - If the batch does not divide evenly, the first microbatches are one sample longer.
//   - Gradients are added in another order than those of the whole batch. The order, and so the
//     bits, are the same in every run and with both schedules.
//   - BatchNorm uses the statistics of each microbatch. Each microbatch in turn updates the running
//     statistics.
//   - Dropout draws for each microbatch, in the order of the schedule. Runs from one seed draw
//     equal numbers. The other schedule and the whole batch may draw others.

// Schedules: the order of a stage's forward (F) and backward (B) passes. Example: the first of 2
// stages, 4 microbatches
//   gpipe    F0 F1 F2 F3 B0 B1 B2 B3   (Huang et al., 2019, with the order of B reversed)
//   one_f1b  F0 F1 B0 F2 B1 F3 B2 B3   (PipeDream-flush; Narayanan et al., 2021)
//   - If passes take equally long, stages are idle for the same time with both (bubble()).
//   - gpipe keeps the activations of all microbatches. In stage s of p, counted from 0, one_f1b
//     keeps the activations of at most p - s microbatches (in_flight()).

// Contexts and copies
//   - GPUs, also emulated ones, compute at the same time. Contexts of the host compute one after
//     the other.
//   - Activations and gradients are copied between stages. A batch on another context is copied:
//     data in parts to the first context, the label as a whole to the last. A TransferLog shows
//     the copies at the line that calls forward_backward().
//   - Several pipelines of the same blocks, on other contexts, are replicas (nn/planned.h). A
//     Trainer sums the replicas' gradients. Initialize each block on all its contexts:
//     stage0.initialize(init, {gpu(0), gpu(2)}).
//   - Replicas with TrainerOptions::overlap need microbatches = 1. Otherwise forward_backward()
//     throws Error in the first or the second step.
//   - A compiled function may call forward_backward() (nn/train_step.h).

// After an error while forward_backward() computes
//   - All gradients on this pipeline's contexts count as stale: Trainer::step throws Error.
//   - Gradients with GradReq::add that were written since the last step become 0. The sums of an
//     autograd::Accumulate around the call are lost, too. The next call starts a new sum.
//   - Gradients of replicas on other contexts stay as they are, and stay new. Before the next step,
//     only this pipeline needs another forward_backward().

}  // namespace locus::nn
