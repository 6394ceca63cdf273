// A Trainer's slots, one per replica or, with TrainerOptions::zero, per parameter, and batches of
// slots.
#include <algorithm>

#include <locus/core/autograd.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/cluster.h>
#include <locus/core/error.h>
#include <locus/core/memory/storage.h>
#include <locus/nn/train/state_owners.h>
#include <locus/nn/train/trainer_impl.h>

namespace locus::nn {
namespace {

void check_summable(const Parameter& p) {
  const std::vector<Context> contexts = p.list_ctx();
  for (const Context c : contexts)
    if (c.type != contexts[0].type && !(is_host(c) && is_host(contexts[0])))
      throw ContextMismatch("Trainer: Parameter `", p.name(), "` has replicas on ", contexts[0],
                            " and ", c, "; expected all on the host, or all on one kind of device");
}

}  // namespace

// Builds all that step() needs: at the first step, and again if a parameter's replicas or
// multipliers changed. A moved replica keeps its state.
void Trainer::Impl::refresh(Caller from) {
  if (std::ranges::equal(generations_, parameters_, {}, {}, &Parameter::generation)) [[likely]]
    return;

  const capture::RecordingPause aside;
  const autograd::Pause pause;
  std::vector<Slot> slots, frozen;
  std::vector<size_t> trained;
  for (const size_t i : distinct_parameters()) {
    if (parameters_[i].grad_req() != GradReq::null) {
      check_summable(parameters_[i]);
      trained.push_back(i);
      continue;
    }
    const Tensors replicas = parameters_[i].list_data();
    each_slot(i, [&](const Slot& s) {
      const auto here = std::ranges::find(replicas, s.context, &Tensor::context);
      frozen.push_back(make_slot(i, here == replicas.end() ? replicas[0] : *here, from));
      auto& count = frozen.back().count;
      count = std::make_shared<int64_t>(*count);  // its batch counts on
    });
  }
  std::vector<size_t> owner;
  if (options_.zero > 0) owner = find_owners(trained);
  for (size_t n = 0; n < trained.size(); ++n) {
    const Tensors replicas = parameters_[trained[n]].list_data();
    for (size_t k = 0; k < replicas.size(); ++k) {
      if (!owner.empty() && owner[n] != k) continue;
      slots.push_back(make_slot(trained[n], replicas[k], from));
      if (owner.empty()) continue;
      slots.back().others = replicas;
      slots.back().others.erase(slots.back().others.begin() + static_cast<ptrdiff_t>(k));
    }
  }
  slots_ = std::move(slots);
  frozen_ = std::move(frozen);
  replicas_.clear();
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (i == 0 || slots_[i - 1].parameter != slots_[i].parameter) replicas_.push_back({i, i});
    replicas_.back().end = i + 1;
  }
  regroup();
  options_.kvstore ? take_to_store(from) : find_sums(from);
  generations_.clear();
  for (const Parameter& p : parameters_) generations_.push_back(p.generation());
}

// Parameters may have become shared.
std::vector<size_t> Trainer::Impl::distinct_parameters() const {
  std::vector<size_t> all;
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (std::ranges::none_of(all,
                             [&](size_t before) { return parameters_[before].is(parameters_[i]); }))
      all.push_back(i);
  return all;
}

std::vector<size_t> Trainer::Impl::find_owners(const std::vector<size_t>& trained) const {
  std::vector<OwnedState> all;
  for (const size_t i : trained) {
    const Parameter& p = parameters_[i];
    all.push_back({p.list_ctx(), bytes_of(p.list_data()[0].impl().view.meta)});
    // States, and unused sums, stay where they are.
    const std::vector<Context>& contexts = all.back().contexts;
    each_slot(i, [&](const Slot& s) {
      const auto at = std::ranges::find(contexts, s.context);
      if (at != contexts.end()) all.back().owner = static_cast<size_t>(at - contexts.begin());
    });
  }
  return owners(all);
}

void Trainer::Impl::each_slot(size_t parameter, const std::function<void(const Slot&)>& f) const {
  for (const std::vector<Slot>* each : {&slots_, &frozen_})
    for (const Slot& s : *each)
      if (s.parameter == parameter) f(s);
}

Trainer::Impl::Slot Trainer::Impl::make_slot(size_t parameter, const Tensor& weight,
                                             Caller from) const {
  const Context here = weight.context();
  const Slot* old = nullptr;
  each_slot(parameter, [&](const Slot& s) {
    if (!old || s.context == here) old = &s;
  });
  Slot slot{parameter, here, weight, {}, {}, std::make_shared<int64_t>(0)};
  if (old && (old->weight.shape() != weight.shape() || old->weight.dtype() != weight.dtype()))
    old = nullptr;  // the old states, and their count, do not fit
  if (old) slot.count = old->count;
  if (!old)
    slot.state = optimizer_->create_state(weight);
  else
    for (const Tensor& t : old->state)
      slot.state.push_back(old->context == here ? t : t.copyto(here, {}, from));
  return slot;
}

void Trainer::Impl::find_sums(Caller from) {
  const bool overlap = options_.overlap && cluster::size() == 1;
  std::vector<GradientSums::Parameter> replicated;
  for (const Replicas& r : replicas_) {
    const Slot& slot = slots_[r.begin];
    const Parameter& p = parameters_[slot.parameter];
    const Tensors replicas = p.list_data();
    if (replicas.size() == 1) continue;
    if (overlap && p.grad_req() != GradReq::write)
      throw Error("Trainer: Parameter `", p.name(),
                  "` adds up its gradients; with overlap they are summed while backward() runs: "
                  "expected grad_req write");
    const auto is_owner = [&](const Tensor& t) { return t.is(slot.weight); };
    const auto owner = std::ranges::find_if(replicas, is_owner) - replicas.begin();
    replicated.push_back({.name = p.name(),
                          .replicas = replicas,
                          .owner = options_.zero > 0 ? static_cast<int>(owner) : -1,
                          .release = options_.zero == 2});
  }
  if (replicated.empty()) return sums_.reset();
  // Destroying sums waits for their streams.
  if (!sums_ || !sums_->are_of(replicated))
    sums_ = std::make_shared<GradientSums>(std::move(replicated));
  if (overlap) sums_->overlap(from);
}

// Groups slots into batches of one optimizer call. Reuses counts, which recordings advance.
void Trainer::Impl::regroup() {
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

// Splits batches with partly stale gradients. From now on the stale slots are counted separately.
void Trainer::Impl::split(const std::vector<bool>& fresh) {
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

void Trainer::Impl::fill(Batch& batch) {
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

}  // namespace locus::nn
