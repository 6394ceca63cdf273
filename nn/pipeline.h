// Pipeline: a network that is cut into stages, each on a context of its own, which work on
// different parts of a batch at the same time.
//
//   nn::Pipeline pipe({stage0, stage1}, gpus(2), {.microbatches = 8});
//   pipe.initialize(init::Xavier());                    // each stage on its context
//   nn::Trainer trainer(pipe.parameters(), optim::SGD({.learning_rate = .1}));
//   for (const auto& [image, label] : loader) {
//     Tensor l = pipe.forward_backward(image, label, loss_fn);
//     trainer.step(image.shape()[0]);
//   }
//
// trains as Record, backward() and step() of one Sequential of all the stages' layers do: the batch
// is cut into microbatches, the first of which are one sample longer where it does not divide
// evenly, and their gradients are added up. The sum is rounded in another order than that of the
// whole batch, and in the same one at each run and by either schedule.
//
// Schedules, each by the order in which a stage takes forward (F) and backward (B) passes, here the
// first of 2 stages with 4 microbatches:
//   gpipe    F0 F1 F2 F3 B0 B1 B2 B3   (Huang et al., 2019, who go backward from the last one)
//   one_f1b  F0 F1 B0 F2 B1 F3 B2 B3   (PipeDream-flush; Narayanan et al., 2021)
// Both leave each of p stages idle for (p - 1) / (m + p - 1) of the time, if passes take equally
// long (bubble()). gpipe keeps the activations of all m microbatches, one_f1b those of p - s at
// most in stage s (in_flight()).
//
// One thread, the caller's, enqueues all of it in the order in which it would run, and waits for
// nothing: GPUs, emulated ones too, compute at once, contexts of the host one after the other. What
// crosses, activations and back their gradients, and parts of a batch that lies elsewhere, are
// copies that a TransferLog puts down to the line that calls forward_backward(); those of a
// prediction to this library's.
//
// Stages may have replicas elsewhere: several pipelines of the same blocks, each on contexts of its
// own, give gradients that a Trainer adds up (nn/planned.h), with overlap (nn/trainer.h) those of
// one microbatch a step: of more it is an Error of forward_backward.
//
// Each microbatch is a batch of its own for what depends on a batch: BatchNorm takes the statistics
// of each, and its running ones see all of them one after the other; Dropout draws for each in the
// order of the schedule, so numbers are the same from run to run, but not those of the whole batch,
// nor those of the other schedule. A function that is compiled may call forward_backward
// (nn/train_step.h).
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <vector>

#include <locus/nn/block.h>
#include <locus/nn/loss_function.h>

namespace locus::nn {

// Of a pipeline; learning rates have optim::Schedule.
enum class Schedule : uint8_t { gpipe, one_f1b };

constexpr int kMostMicrobatches = 1 << 20;  // each has passes to be put in order

struct PipelineOptions {
  // 1 to kMostMicrobatches; more of them make the bubble smaller, and each pass less efficient.
  int microbatches = 8;
  Schedule schedule = Schedule::one_f1b;
};

class Pipeline : public Block {
 public:
  // The stages in order: blocks of any type, shared with the caller, as in Sequential::add.
  class Stages {
   public:
    template <std::derived_from<Block>... B>
    requires(sizeof...(B) > 0) Stages(const B&... stages) : list{std::make_shared<B>(stages)...} {}
    std::vector<std::shared_ptr<Block>> list;
  };

  // Stage i computes on contexts[i]. ValueError where there are not as many contexts as stages, or
  // a context is named twice: what lives together is one stage.
  Pipeline(const Stages& stages, const Contexts& contexts, const PipelineOptions& options = {});

  // The gradients of the sum of all losses, in the parameters' grad(), written or, with
  // GradReq::add, added; returns the losses (batch,) on the last context. The batch is axis 0 of
  // data and label. loss_fn gives one loss a sample.
  //
  // Errors, before anything is computed: ValueError for a batch smaller than the number of
  // microbatches, ShapeError for another number of labels, Error for data or a label that waits for
  // a gradient, which would get none, ContextMismatch for a stage that is initialized elsewhere.
  // ShapeError where loss_fn gives another shape than (batch,). After any exception that comes
  // while it computes gradients are stale, some of them written by then, and Trainer::step refuses
  // them; those with GradReq::add that had been written since the last step are 0, and what an
  // autograd::Accumulate around it had added up is lost, so that a sum over several calls begins
  // anew.
  Tensor forward_backward(const Tensor& data, const Tensor& label, const LossFunction& loss_fn,
                          Caller = Caller::here());

  // The stages one after the other, with the copies between them: predictions.
  Tensor forward(const Tensor& x) override;

  // Each stage on its context.
  void initialize(const init::Initializer& global = init::Uniform(), const InitializeOptions& = {},
                  Caller = Caller::here());
  // Names of parameters, here and in files, are those of one Sequential of the stages' layers: a
  // stage that is a Sequential gives all of its own. So files of the network that was cut load.

  // The share of a step's time in which a stage has nothing to do.
  double bubble() const { return bubble(stages(), options_.microbatches); }
  static double bubble(int stages, int microbatches) {
    return static_cast<double>(stages - 1) / (microbatches + stages - 1);
  }
  // The most microbatches of which a stage holds activations.
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
  // All of a step, in the order in which they are enqueued.
  static std::vector<Pass> order(Schedule schedule, int stages, int microbatches);
  // From now on called before and after each pass is enqueued: to record events around it, say.
  // Before it `given` is what the pass waits for, on its context: activations, or a gradient; of
  // the last stage's backward pass the losses. An empty function ends it.
  using Watch = std::function<void(const Pass& pass, bool enqueued, const Tensor& given)>;
  void watch(Watch f) { watch_ = std::move(f); }

 private:
  friend class Planned;  // which checks all its pipelines before it runs one
  struct Step;
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

}  // namespace locus::nn
