#include <locus/nn/trainer.h>

#include <algorithm>

#include <locus/core/autograd.h>
#include <locus/core/capture_check.h>
#include <locus/core/cluster.h>
#include <locus/core/error.h>
#include <locus/core/parallel.h>
#include <locus/nn/clip.h>
#include <locus/nn/gradient_sums.h>
#include <locus/ops/elementwise.h>

namespace locus::nn {
namespace {

double rescale_of(int64_t batch_size, double loss_scale = 1) {
  if (batch_size <= 0) throw ValueError("Trainer: batch_size ", batch_size, "; expected > 0");
  if (!(loss_scale > 0)) throw ValueError("Trainer: loss_scale ", loss_scale, "; expected > 0");
  return 1 / (static_cast<double>(batch_size) * loss_scale);
}

// What one rank finds wrong before the ranks meet, all of them throw where they do.
void before_ranks_meet(const std::function<void()>& f, Caller from) {
  try {
    f();
  } catch (...) {
    cluster::throw_on_all(from);
  }
}

// Nothing is written yet, nor known of what will be there.
bool only_recorded() { return capture::active() && !capture::runs(); }

}  // namespace

Trainer::Trainer(const Parameters& parameters, std::shared_ptr<optim::Optimizer> optimizer,
                 const TrainerOptions& options)
    : options_(options), optimizer_(std::move(optimizer)) {
  if (!optimizer_) throw Error("Trainer: the optimizer is null");
  for (const auto& [name, p] : parameters) {
    if (!p.valid()) throw Error("Trainer: '", name, "' is not a parameter");
    const bool seen = std::any_of(parameters_.begin(), parameters_.end(),
                                  [&q = p](const Parameter& other) { return other.is(q); });
    if (seen) continue;  // one that two layers share is updated once
    parameters_.push_back(p);
    names_.push_back(name);
  }
  equal_.resize(parameters_.size());
  start_equal(Caller::here());
}

// Those that have values and are not equal yet.
void Trainer::start_equal(Caller from) {
  if (cluster::size() == 1) return;
  Tensors firsts;
  std::vector<size_t> taken;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (equal_[i] || !parameters_[i].initialized()) continue;
    firsts.push_back(parameters_[i].list_data()[0]);
    taken.push_back(i);
  }
  if (firsts.empty()) return;
  cluster::broadcast(firsts, 0, from);
  for (size_t k = 0; k < taken.size(); ++k) {
    parameters_[taken[k]].set_data(firsts[k], from);
    equal_[taken[k]] = true;
  }
}

// Everything step() needs, cached: built at the first step, and again when a parameter's replicas
// or multipliers were replaced. A replica that moved takes its state along.
void Trainer::refresh(Caller from) {
  if (std::ranges::equal(generations_, parameters_, {}, {}, &Parameter::generation)) [[likely]]
    return;

  const capture::Aside aside;
  const autograd::Pause pause;
  std::vector<Slot> slots, frozen;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& p = parameters_[i];
    const auto first = parameters_.begin() + static_cast<ptrdiff_t>(i);
    const auto is_it = [&](const Parameter& other) { return other.is(p); };
    if (std::any_of(parameters_.begin(), first, is_it)) continue;
    const auto each_old = [&](const auto& f) {
      for (const std::vector<Slot>* before : {&slots_, &frozen_})
        for (const Slot& s : *before)
          if (s.parameter == i) f(s);
    };
    if (p.grad_req() == GradReq::null) {
      each_old([&](const Slot& s) {
        frozen.push_back(s);
        frozen.back().count = std::make_shared<int64_t>(*s.count);  // its batch goes on
      });
      continue;
    }
    const Tensors replicas = p.list_data();
    const std::vector<Context> contexts = p.list_ctx();
    for (const Context c : contexts)
      if (c.type != contexts[0].type && !(is_host(c) && is_host(contexts[0])))
        throw ContextMismatch("Trainer: Parameter `", p.name(), "` has replicas on ", contexts[0],
                              " and ", c,
                              "; expected all on the host, or all on one kind of device");
    for (size_t k = 0; k < replicas.size(); ++k) {
      const Slot* old = nullptr;
      each_old([&](const Slot& s) {
        if (!old || s.context == contexts[k]) old = &s;
      });
      Slot slot{i, contexts[k], replicas[k], {}, std::make_shared<int64_t>(0)};
      if (old) slot.count = old->count;
      if (!old || old->weight.shape() != replicas[k].shape() ||
          old->weight.dtype() != replicas[k].dtype())
        slot.state = optimizer_->create_state(replicas[k]);
      else
        for (const Tensor& t : old->state)
          slot.state.push_back(old->context == contexts[k] ? t : t.copyto(contexts[k], {}, from));
      slots.push_back(std::move(slot));
    }
  }
  slots_ = std::move(slots);
  frozen_ = std::move(frozen);
  regroup();
  find_sums(from);
  generations_.clear();
  for (const Parameter& p : parameters_) generations_.push_back(p.generation());
}

void Trainer::find_sums(Caller from) {
  std::vector<GradientSums::Parameter> replicated;
  for (size_t i = 0, end; i < slots_.size(); i = end) {
    Tensors replicas;
    for (end = i; end < slots_.size() && slots_[end].parameter == slots_[i].parameter; ++end)
      replicas.push_back(slots_[end].weight);
    const Parameter& p = parameters_[slots_[i].parameter];
    if (replicas.size() == 1) continue;
    if (options_.overlap && p.grad_req() != GradReq::write)
      throw Error("Trainer: Parameter `", p.name(),
                  "` adds up its gradients; with overlap they are summed while backward() runs: "
                  "expected grad_req write");
    replicated.push_back({p.name(), std::move(replicas)});
  }
  sums_ = nullptr;
  if (replicated.empty()) return;
  sums_ = std::make_shared<GradientSums>(std::move(replicated));
  if (options_.overlap && cluster::size() == 1) sums_->overlap(from);
}

// What is updated together. A count that a recording advances stays where it is.
void Trainer::regroup() {
  batches_.clear();
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    const Parameter& p = parameters_[slot.parameter];
    const auto same = [&](const Batch& b) {
      const Slot& first = slots_[b.slots[0]];
      return first.context == slot.context && first.weight.dtype() == slot.weight.dtype() &&
             b.group.lr_mult == p.lr_mult() && b.group.wd_mult == p.wd_mult() &&
             *b.group.count == *slot.count;
    };
    const auto it = std::ranges::find_if(batches_, same);
    if (it != batches_.end()) {
      it->slots.push_back(i);
      continue;
    }
    const auto taken = [&](const Batch& b) { return b.group.count == slot.count; };
    if (std::ranges::any_of(batches_, taken)) slot.count = std::make_shared<int64_t>(*slot.count);
    batches_.push_back(
        {{.lr_mult = p.lr_mult(), .wd_mult = p.wd_mult(), .count = slot.count}, {i}});
  }
  for (Batch& b : batches_) fill(b);
  ++*grouping_;
}

// Weights whose gradients are not all new are counted apart from now on.
void Trainer::split(const std::vector<bool>& fresh) {
  if (std::ranges::find(fresh, false) == fresh.end()) return;
  for (size_t k = 0, n = batches_.size(); k < n; ++k) {
    Batch rest = batches_[k];
    std::erase_if(rest.slots, [&](size_t i) { return fresh[i]; });
    if (rest.slots.empty() || rest.slots.size() == batches_[k].slots.size()) continue;
    std::erase_if(batches_[k].slots, [&](size_t i) { return !fresh[i]; });
    rest.group.count = std::make_shared<int64_t>(*rest.group.count);
    fill(rest);
    fill(batches_[k]);
    batches_.push_back(std::move(rest));
    ++*grouping_;
  }
}

void Trainer::fill(Batch& batch) {
  optim::ParameterGroup& group = batch.group;
  group.weights.clear();
  group.state.assign(slots_[batch.slots[0]].state.size(), {});
  for (size_t i : batch.slots) {
    slots_[i].count = group.count;
    group.weights.push_back(slots_[i].weight);
    for (size_t kind = 0; kind < group.state.size(); ++kind)
      group.state[kind].push_back(slots_[i].state[kind]);
  }
  group.gradients.resize(batch.slots.size());
}

void Trainer::step(int64_t batch_size, bool ignore_stale_grad, Caller from) {
  const double rescale = rescale_of(batch_size);
  std::vector<bool> fresh;
  before_ranks_meet([&] { fresh = fresh_slots(ignore_stale_grad, from); }, from);
  allreduce_grads(from);
  update(fresh, rescale);
}

void Trainer::allreduce_grads(Caller from) {
  std::vector<Replicas> alone;
  before_ranks_meet(
      [&] {
        refresh(from);
        alone = unsummed();
        if (sums_) sums_->finish(from);
      },
      from);
  if (cluster::size() == 1) return;
  start_equal(from);
  sum_over_ranks(alone, from);
}

// Those whose gradients are this rank's alone, where there are other ranks.
std::vector<Trainer::Replicas> Trainer::unsummed() const {
  std::vector<Replicas> alone;
  if (cluster::size() == 1) return alone;
  capture::check("Trainer::allreduce_grads",
                 "ranks meet on the host; compile what comes before it, or before step()");
  for (size_t i = 0, end; i < slots_.size(); i = end) {
    bool fresh = true, summed = true;
    for (end = i; end < slots_.size() && slots_[end].parameter == slots_[i].parameter; ++end) {
      fresh = fresh && autograd::fresh_grad(slots_[end].weight);
      summed = summed && autograd::summed_grad(slots_[end].weight);
    }
    if (fresh && !summed) alone.push_back({i, end});
  }
  return alone;
}

// The first replica of each has the sum of the others, and gives them the ranks'.
void Trainer::sum_over_ranks(const std::vector<Replicas>& alone, Caller from) {
  Tensors firsts;
  for (const Replicas& r : alone) firsts.push_back(slots_[r.begin].weight.grad());
  try {
    cluster::all_reduce(firsts, ReduceOp::sum, from);
  } catch (...) {  // these are no sums, and no longer what backward() wrote
    for (const Replicas& r : alone)
      for (size_t i = r.begin; i < r.end; ++i) autograd::fresh_grad(slots_[i].weight, true);
    throw;
  }
  const autograd::Pause pause;
  for (size_t k = 0; k < alone.size(); ++k)
    for (size_t i = alone[k].begin; i < alone[k].end; ++i) {
      const Tensor& weight = slots_[i].weight;
      if (i > alone[k].begin) firsts[k].copyto(weight.grad(), {}, from);
      autograd::summed_grad(weight, true);
    }
}

Tensor Trainer::clip_global_norm(double max_norm, int64_t batch_size, double loss_scale,
                                 Caller from) {
  const double rescale = rescale_of(batch_size, loss_scale);
  refresh(from);
  if (sums_ && only_recorded())
    capture::check("Trainer::clip_global_norm",
                   "of replicas in a Capture; compile the step instead");
  allreduce_grads(from);
  const std::vector<bool> fresh = fresh_slots(true, from);
  Tensors gradients, firsts;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!fresh[i]) continue;
    gradients.push_back(slots_[i].weight.grad());
    if (i == 0 || slots_[i - 1].parameter != slots_[i].parameter)
      firsts.push_back(gradients.back());
  }
  if (gradients.empty())
    throw Error(
        "Trainer::clip_global_norm: backward() has written no gradient since the last step");
  const autograd::Pause pause;
  const Tensor norm = global_norm(firsts) * rescale;
  clip_to_norm(gradients, norm, max_norm);
  return norm;
}

// Those whose gradients are new, on all contexts that the parameter is on: replicas stay equal.
std::vector<bool> Trainer::fresh_slots(bool ignore_stale_grad, Caller from) {
  refresh(from);
  std::vector<bool> fresh;
  for (const Slot& slot : slots_) {
    fresh.push_back(autograd::fresh_grad(slot.weight));
    if (!fresh.back() && !ignore_stale_grad) refuse_stale(slot);
  }
  for (size_t i = 0; sums_ && i < slots_.size(); ++i)
    for (size_t k = 0; !fresh[i] && k < slots_.size(); ++k)
      if (slots_[k].parameter == slots_[i].parameter) fresh[k] = false;
  return fresh;
}

void Trainer::update(int64_t batch_size, bool ignore_stale_grad, Caller from) {
  const double rescale = rescale_of(batch_size);
  update(fresh_slots(ignore_stale_grad, from), rescale);
}

bool Trainer::update_if_finite(int64_t batch_size, double loss_scale, bool ignore_stale_grad,
                               Caller from) {
  capture::check(
      "Trainer::update_if_finite",
      "the host reads whether gradients are finite, and decides; compile what comes before it, "
      "or before amp::LossScaler::step()");
  const double rescale = rescale_of(batch_size, loss_scale);
  const std::vector<bool> fresh = fresh_slots(ignore_stale_grad, from);
  Tensors gradients;
  for (size_t i = 0; i < slots_.size(); ++i)
    if (fresh[i]) gradients.push_back(slots_[i].weight.grad());
  if (!gradients.empty() && all_finite(gradients).item<double>(from) == 0) {
    for (const Slot& slot : slots_) autograd::fresh_grad(slot.weight, true);
    if (sums_) sums_->next();
    return false;
  }
  update(fresh, rescale);
  return true;
}

void Trainer::update(const std::vector<bool>& fresh, double rescale) {
  split(fresh);
  if (capture::active()) capture::depends_on(grouping_);
  const autograd::Pause pause;
  std::vector<Context> contexts;
  const int64_t count = batches_.empty() ? 0 : *batches_[0].group.count;
  bool alike = true;
  if (sums_) sums_->next();
  for (const Batch& b : batches_) {
    const Context c = slots_[b.slots[0]].context;
    if (std::ranges::find(contexts, c) == contexts.end()) contexts.push_back(c);
    alike = alike && *b.group.count == count;
  }
  const auto apply_on = [&](Context c) {
    for (Batch& b : batches_)
      if (slots_[b.slots[0]].context == c && fresh[b.slots[0]]) apply(b, rescale);
  };
  if (alike && sums_ && optimizer_->on_threads()) {  // the order of contexts does not matter
    on_threads(contexts, [&](int i) { apply_on(contexts[static_cast<size_t>(i)]); });
    return;
  }
  for (Batch& b : batches_)
    if (fresh[b.slots[0]]) apply(b, rescale);
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
