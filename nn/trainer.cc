#include <locus/nn/trainer.h>

#include <algorithm>

#include <locus/core/autograd.h>
#include <locus/core/capture_check.h>
#include <locus/core/error.h>
#include <locus/ops/elementwise.h>

namespace locus::nn {

Trainer::Trainer(const Parameters& parameters, std::shared_ptr<optim::Optimizer> optimizer)
    : optimizer_(std::move(optimizer)) {
  if (!optimizer_) throw Error("Trainer: the optimizer is null");
  for (const auto& [name, p] : parameters) {
    if (!p.valid()) throw Error("Trainer: '", name, "' is not a parameter");
    const bool seen = std::any_of(parameters_.begin(), parameters_.end(),
                                  [&q = p](const Parameter& other) { return other.is(q); });
    if (!seen) parameters_.push_back(p);  // one that two layers share is updated once
  }
}

// Everything step() needs, cached: built at the first step, and again when a parameter's replicas
// or multipliers were replaced. A replica that moved takes its state along.
void Trainer::refresh(Caller from) {
  if (std::ranges::equal(generations_, parameters_, {}, {}, &Parameter::generation)) [[likely]]
    return;

  const capture::Aside aside;
  const autograd::Pause pause;
  std::vector<Slot> slots;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& p = parameters_[i];
    if (p.grad_req() == GradReq::null) continue;
    const Tensors replicas = p.list_data();
    const std::vector<Context> contexts = p.list_ctx();
    for (size_t k = 0; k < replicas.size(); ++k) {
      const Slot* old = nullptr;
      for (const Slot& s : slots_)
        if (s.parameter == i && (!old || s.context == contexts[k])) old = &s;
      Slot slot{i, contexts[k], replicas[k], {}};
      if (!old || old->weight.shape() != replicas[k].shape())
        slot.state = optimizer_->create_state(replicas[k]);
      else
        for (const Tensor& t : old->state)
          slot.state.push_back(old->context == contexts[k] ? t : t.copyto(contexts[k], {}, from));
      slots.push_back(std::move(slot));
    }
  }
  slots_ = std::move(slots);

  batches_.clear();
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    const Parameter& p = parameters_[slot.parameter];
    const auto it = std::find_if(batches_.begin(), batches_.end(), [&](const Batch& b) {
      const Slot& first = slots_[b.slots[0]];
      return first.context == slot.context && first.weight.dtype() == slot.weight.dtype() &&
             b.group.lr_mult == p.lr_mult() && b.group.wd_mult == p.wd_mult();
    });
    Batch& batch = it != batches_.end() ? *it : batches_.emplace_back();
    batch.slots.push_back(i);
    batch.group.lr_mult = p.lr_mult();
    batch.group.wd_mult = p.wd_mult();
  }
  replicated_ = false;
  for (Batch& b : batches_) fill(b.group, b.slots);
  for (size_t i = 1; i < slots_.size(); ++i)
    replicated_ |= slots_[i].parameter == slots_[i - 1].parameter;
  generations_.clear();
  for (const Parameter& p : parameters_) generations_.push_back(p.generation());
}

void Trainer::fill(optim::ParameterGroup& group, const std::vector<size_t>& slots) const {
  group.weights.clear();
  group.state.assign(slots_[slots[0]].state.size(), {});
  for (size_t i : slots) {
    group.weights.push_back(slots_[i].weight);
    for (size_t kind = 0; kind < group.state.size(); ++kind)
      group.state[kind].push_back(slots_[i].state[kind]);
  }
  group.gradients.resize(slots.size());
}

void Trainer::step(int64_t batch_size, bool ignore_stale_grad, Caller from) {
  allreduce_grads(from);
  update(batch_size, ignore_stale_grad, from);
}

void Trainer::allreduce_grads(Caller from) {
  refresh(from);
  if (!replicated_) return;
  const autograd::Pause pause;
  for (size_t i = 0; i < slots_.size();) {
    size_t end = i + 1;
    while (end < slots_.size() && slots_[end].parameter == slots_[i].parameter) ++end;
    // In the contexts' order, and the one sum copied back: replicas stay equal bit by bit.
    Tensor total = slots_[i].weight.grad();
    for (size_t k = i + 1; k < end; ++k)
      total = total + slots_[k].weight.grad().copyto(slots_[i].context, {}, from);
    if (end > i + 1)
      for (size_t k = i; k < end; ++k) total.copyto(slots_[k].weight.grad(), {}, from);
    i = end;
  }
}

void Trainer::update(int64_t batch_size, bool ignore_stale_grad, Caller from) {
  if (batch_size <= 0) throw ValueError("Trainer: batch_size ", batch_size, "; expected > 0");
  refresh(from);
  bool stale = false;
  for (const Slot& slot : slots_)
    if (!autograd::fresh_grad(slot.weight)) {
      if (!ignore_stale_grad) refuse_stale(slot);
      stale = true;
    }
  const double rescale = 1 / static_cast<double>(batch_size);
  const autograd::Pause pause;
  for (Batch& b : batches_) {
    if (!stale) {
      apply(b, rescale);
      continue;
    }
    Batch fresh = b;  // only the weights whose gradients are new
    std::erase_if(fresh.slots, [&](size_t i) { return !autograd::fresh_grad(slots_[i].weight); });
    if (fresh.slots.empty()) continue;
    fill(fresh.group, fresh.slots);
    apply(fresh, rescale);
  }
}

void Trainer::apply(Batch& batch, double rescale) {
  for (size_t i = 0; i < batch.slots.size(); ++i)
    batch.group.gradients[i] = batch.group.weights[i].grad();
  optimizer_->update(batch.group, rescale);
  for (const Tensor& weight : batch.group.weights) autograd::fresh_grad(weight, true);
}

void Trainer::refuse_stale(const Slot& slot) const {
  throw Error("Gradient of Parameter `", parameters_[slot.parameter].name(), "` on context ",
              slot.context,
              " has not been updated by backward since last `step`. This could mean a bug in your "
              "model that made it only use a subset of the Parameters (Blocks) for this iteration. "
              "If you are intentionally only using a subset, call step with ignore_stale_grad=true "
              "to suppress this error and skip updating of Parameters with stale gradient");
}

}  // namespace locus::nn
