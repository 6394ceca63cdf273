// Trainer: applies an optimizer to a set of parameters.
//
// Several replicas: their gradients are summed over the contexts first, so replicas stay equal.
// Parameters may live on different contexts (a network across GPUs). Those with grad_req null are
// left alone. step() enqueues work and does not wait. One thread at a time.
#pragma once

#include <concepts>
#include <memory>
#include <vector>

#include <locus/nn/optimizer.h>
#include <locus/nn/parameter.h>

namespace locus::nn {

class Trainer {
 public:
  template <std::derived_from<optim::Optimizer> O>
  Trainer(const Parameters& parameters, O optimizer)
      : Trainer(parameters, std::make_shared<O>(std::move(optimizer))) {}
  // Shares the optimizer.
  Trainer(const Parameters& parameters, std::shared_ptr<optim::Optimizer> optimizer);

  // allreduce_grads(), then update(): gradients are those of a sum of losses over batch_size
  // samples, so they are divided by it. A gradient that backward() has not written since the last
  // step is an Error that names the parameter; with ignore_stale_grad it is skipped.
  void step(int64_t batch_size, bool ignore_stale_grad = false, Caller = Caller::here());
  // The two halves, to look at or clip the summed gradients in between.
  void allreduce_grads(Caller = Caller::here());
  void update(int64_t batch_size, bool ignore_stale_grad = false, Caller = Caller::here());

  double learning_rate() const { return optimizer_->learning_rate(); }
  void set_learning_rate(double v) { optimizer_->set_learning_rate(v); }

 private:
  struct Slot {  // one replica of one parameter
    size_t parameter;
    Context context;
    Tensor weight;
    Tensors state;
  };
  struct Batch {  // the slots of one optimizer call
    optim::ParameterGroup group;
    std::vector<size_t> slots;
  };
  void refresh(Caller);
  void fill(optim::ParameterGroup& group, const std::vector<size_t>& slots) const;
  void apply(Batch& batch, double rescale);
  [[noreturn]] void refuse_stale(const Slot& slot) const;

  std::vector<Parameter> parameters_;
  std::shared_ptr<optim::Optimizer> optimizer_;
  std::vector<Slot> slots_;
  std::vector<Batch> batches_;
  std::vector<uint64_t> generations_;
  bool replicated_ = false;
};

}  // namespace locus::nn
