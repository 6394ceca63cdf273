#include <locus/nn/train/trainer_impl.h>

#include <algorithm>
#include <atomic>

#include <locus/core/autograd.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/cluster.h>
#include <locus/core/error.h>
#include <locus/core/parallel.h>
#include <locus/nn/clip.h>
#include <locus/nn/options.h>
#include <locus/ops/collective.h>
#include <locus/ops/elementwise.h>

namespace locus::nn {
namespace {

double rescale_of(int64_t batch_size, double loss_scale = 1) {
  if (batch_size <= 0) throw ValueError("Trainer: batch_size ", batch_size, "; expected > 0");
  if (!(loss_scale > 0)) throw ValueError("Trainer: loss_scale ", loss_scale, "; expected > 0");
  return 1 / (static_cast<double>(batch_size) * loss_scale);
}

}  // namespace

uint64_t Trainer::Impl::next_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

Trainer::Impl::Impl(const Parameters& parameters, std::shared_ptr<optim::Optimizer> optimizer,
                    const TrainerOptions& options, Caller from)
    : options_(options), optimizer_(std::move(optimizer)) {
  cluster::together(
      [&] {
        if (!optimizer_) throw Error("Trainer: the optimizer is null");
        options::expect("Trainer", "zero", options.zero, options.zero >= 0 && options.zero <= 2,
                        "0, 1 or 2: ZeRO's stage");
        check_store_options();
        for (const auto& [name, p] : parameters) {
          if (!p.valid()) throw Error("Trainer: '", name, "' is not a parameter");
          const bool seen = std::any_of(parameters_.begin(), parameters_.end(),
                                        [&q = p](const Parameter& other) { return other.is(q); });
          if (seen) continue;  // a shared parameter is updated once
          parameters_.push_back(p);
          names_.push_back(name);
        }
        if (parameters_.empty())
          throw ValueError("Trainer: no parameters; expected those of a network with at least one");
        if (options_.kvstore) expect_names_that_differ("kvstore");
      },
      from);
  static std::atomic<uint64_t> made{0};
  if (cluster::size() > 1) number_ = ++made;  // the same on all ranks
  equal_.resize(parameters_.size());
  broadcast_first_values(from);
  if (options_.overlap && cluster::size() == 1 &&
      std::ranges::all_of(parameters_, &Parameter::initialized))
    refresh(from);
}

void Trainer::Impl::step(int64_t batch_size, bool ignore_stale_grad, Caller from) {
  double rescale = 1;
  std::vector<bool> fresh;
  Terms by;
  cluster::share_failure(
      [&] {
        rescale = rescale_of(batch_size);
        fresh = fresh_slots(ignore_stale_grad, from);
        by = terms("step", {static_cast<double>(batch_size)}, fresh);
      },
      from);
  const cluster::Purpose purpose = purpose_of(by);
  update(fresh, rescale, Sums::first, from);
}

Tensor Trainer::Impl::clip_global_norm(double max_norm, int64_t batch_size, double loss_scale,
                                       Caller from) {
  double rescale = 1;
  Terms by;
  cluster::share_failure(
      [&] {
        rescale = rescale_of(batch_size, loss_scale);
        options::expect("Trainer::clip_global_norm", "max_norm", max_norm, max_norm >= 0,
                        "a limit >= 0");
        refresh(from);
        if (sums_ && capture::only_recorded())
          capture::check("Trainer::clip_global_norm",
                         "of replicas in a Capture; compile the step instead");
        by = terms("clip_global_norm", {max_norm, static_cast<double>(batch_size), loss_scale},
                   fresh_slots(true, from));
      },
      from);
  const cluster::Purpose purpose = purpose_of(by);
  allreduce_grads(from);
  const autograd::Pause pause;
  Tensors gradients;
  Tensor norm;
  cluster::share_failure(
      [&] {
        const std::vector<bool> fresh = fresh_slots(true, from);
        Tensors firsts;
        for (const Replicas& r : replicas_) {
          if (!fresh[r.begin]) continue;
          firsts.push_back(slots_[r.begin].weight.grad());
          for (size_t i = r.begin; i < r.end; ++i) gradients.push_back(slots_[i].weight.grad());
        }
        if (gradients.empty())
          throw Error(
              "Trainer::clip_global_norm: backward() has written no gradient since the last step");
        norm = global_norm(firsts, from) * rescale;
      },
      from);
  if (cluster::size() > 1) cluster::broadcast({norm}, 0, from);  // others may sum in another order
  clip_to_norm(gradients, norm, max_norm, from);
  return norm;
}

// Slots with new gradients on all contexts of the parameter, so that replicas stay equal.
std::vector<bool> Trainer::Impl::fresh_slots(bool ignore_stale_grad, Caller from) {
  refresh(from);
  if (sums_) sums_->check();
  std::vector<bool> fresh(slots_.size(), true);
  for (const Replicas& r : replicas_) {
    std::optional<Context> stale;
    for (size_t i = r.begin; i < r.end; ++i) {
      if (!stale) stale = stale_on(slots_[i]);
      expect_equal(slots_[r.begin], slots_[i]);
    }
    if (!stale) continue;
    if (!ignore_stale_grad) refuse_stale(slots_[r.begin], *stale);
    for (size_t i = r.begin; i < r.end; ++i) fresh[i] = false;
  }
  return fresh;
}

void Trainer::Impl::expect_equal(const Slot& a, const Slot& b) const {
  if (*a.count == *b.count) return;
  throw Error("Trainer: Parameter `", names_[a.parameter], "` has had ", *a.count, " updates on ",
              a.context, " and ", *b.count, " on ", b.context,
              ": one failed, and so did the copy of the other's values; its replicas differ: "
              "expected to go on from a checkpoint");
}

// Checks on all ranks, because no collective call follows. Recorded code calls no ranks.
std::pair<double, std::vector<bool>> Trainer::Impl::checked(const char* call, int64_t batch_size,
                                                            double loss_scale,
                                                            bool ignore_stale_grad, Caller from) {
  std::pair<double, std::vector<bool>> all;
  Terms by;
  const auto check = [&] {
    all = {rescale_of(batch_size, loss_scale), fresh_slots(ignore_stale_grad, from)};
    by = terms(call, {static_cast<double>(batch_size), loss_scale}, all.second);
  };
  if (capture::active()) {
    check();
    return all;
  }
  cluster::share_failure(check, from);
  const cluster::Purpose purpose = purpose_of(by);
  cluster::barrier(from);
  return all;
}

void Trainer::Impl::update(int64_t batch_size, bool ignore_stale_grad, Caller from) {
  const auto [rescale, fresh] = checked("update", batch_size, 1, ignore_stale_grad, from);
  update(fresh, rescale, Sums::done, from);
}

bool Trainer::Impl::update_if_finite(int64_t batch_size, double loss_scale, bool ignore_stale_grad,
                                     Caller from) {
  capture::check(
      "Trainer::update_if_finite",
      "the host reads whether gradients are finite, and decides; compile what comes before it, "
      "or before amp::LossScaler::step()");
  const auto [rescale, fresh] =
      checked("update_if_finite", batch_size, loss_scale, ignore_stale_grad, from);
  Tensors gradients;
  for (size_t i = 0; i < slots_.size(); ++i)
    if (fresh[i]) gradients.push_back(slots_[i].weight.grad());
  if (!gradients.empty() && all_finite(gradients, from).item<double>(from) == 0) {
    discard(from);
    return false;
  }
  update(fresh, rescale, Sums::done, from);
  return true;
}

// Uses current replicas, not slots: refresh() may throw on one rank alone.
void Trainer::Impl::discard(Caller) {
  capture::check("Trainer::discard",
                 "the host decides which batch makes no step; compile what comes before it");
  for (const Parameter& p : parameters_)
    if (p.initialized() && p.grad_req() != GradReq::null)
      for (const Tensor& replica : p.list_data()) autograd::mark_used(replica);
  if (sums_) sums_->next();
}

void Trainer::Impl::update(const std::vector<bool>& fresh, double rescale, Sums sums, Caller from) {
  split(fresh);
  if (capture::active()) capture::depends_on(grouping_);
  const autograd::Pause pause;
  std::vector<Context> contexts = parallel_contexts();
  const Group* const group =
      sums == Sums::first && sums_ && cluster::size() == 1 ? sums_->group() : nullptr;
  const bool at_once = group && std::ranges::is_permutation(contexts, *group);
  if (at_once) contexts = group->contexts();
  // If an update fails, the others still run.
  std::vector<FirstFailure> failures(std::max<size_t>(contexts.size(), 1));
  const std::function<void(int)> apply_on = [&](int i) {
    const auto at = static_cast<size_t>(i);
    for (Batch& b : batches_)
      if (fresh[b.slots[0]] && (contexts.empty() || slots_[b.slots[0]].context == contexts[at]))
        failures[at].run([&] { apply(b, rescale); });
  };
  if (sums == Sums::first) sum_gradients(at_once ? apply_on : nullptr, from);
  if (contexts.empty())
    apply_on(0);
  else if (!at_once)
    on_threads(contexts, apply_on);
  if (sums_) sums_->next();
  FirstFailure failure;
  for (const FirstFailure& f : failures) failure.run([&] { f.rethrow(); });
  if (failure && !capture::only_recorded()) failure.run([&] { share_updates(fresh, from); });
  copy_to_others(fresh, from);  // of updated slots, so that replicas stay equal
  failure.rethrow();
}

// Contexts whose threads may update replicas in parallel. Empty if the order matters.
std::vector<Context> Trainer::Impl::parallel_contexts() const {
  std::vector<Context> contexts;
  if (!sums_ || !optimizer_->on_threads()) return contexts;
  for (const Batch& b : batches_) {
    if (*b.group.count != *batches_[0].group.count) return {};
    const Context c = slots_[b.slots[0]].context;
    if (std::ranges::find(contexts, c) == contexts.end()) contexts.push_back(c);
  }
  return contexts;
}

// If an update failed on some contexts only, copies values and states there from another replica.
void Trainer::Impl::share_updates(const std::vector<bool>& fresh, Caller from) {
  const capture::RecordingPause aside;
  const auto updated = [&](size_t i) {
    return fresh[i] && !autograd::fresh_grad(slots_[i].weight);
  };
  std::vector<std::pair<size_t, size_t>> copies;  // to and from
  std::vector<bool> waiting(slots_.size(), true);
  for (size_t i = 0; i < slots_.size(); ++i)
    for (size_t k = 0; k < slots_.size() && fresh[i] && !updated(i) && waiting[i]; ++k) {
      if (slots_[k].parameter != slots_[i].parameter || !updated(k)) continue;
      copies.emplace_back(i, k);
      waiting[i] = false;
    }
  split(waiting);
  for (const auto& [to, done] : copies) {
    copy_replica(slots_[done], slots_[to], from);
    autograd::mark_used(slots_[to].weight);
  }
}

void Trainer::Impl::copy_replica(const Slot& done, const Slot& to, Caller from) {
  done.weight.copyto(to.weight, {}, from);
  for (size_t k = 0; k < done.state.size(); ++k) done.state[k].copyto(to.state[k], {}, from);
  *to.count = *done.count;
}

void Trainer::Impl::apply(Batch& batch, double rescale) {
  for (size_t i = 0; i < batch.slots.size(); ++i)
    batch.group.gradients[i] = batch.group.weights[i].grad();
  optimizer_->update(batch.group, rescale);
  for (const Tensor& weight : batch.group.weights) autograd::mark_used(weight);
}

void Trainer::Impl::copy_to_others(const std::vector<bool>& fresh, Caller from) {
  struct WeightGroup {
    Group group;
    std::vector<Tensors> weights = {};
    std::vector<int> owners = {};
  };
  std::vector<WeightGroup> all;  // by the replicas' contexts
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (!fresh[i] || slot.others.empty() || autograd::fresh_grad(slot.weight)) continue;
    const Parameter& p = parameters_[slot.parameter];
    const Group group(p.list_ctx());
    auto at = std::ranges::find(all, group, &WeightGroup::group);
    if (at == all.end()) at = all.insert(at, {.group = group});
    at->weights.push_back(p.list_data());
    at->owners.push_back(static_cast<int>(std::ranges::find(group, slot.context) - group.begin()));
  }
  for (const WeightGroup& t : all) {
    broadcast_many(t.group, t.weights, t.owners, from);
    for (const Tensors& replicas : t.weights)
      for (const Tensor& weight : replicas) autograd::mark_used(weight);
  }
}

// A context on which the slot's gradient is not new, if any. With zero, an owner's sum is new: the
// other gradients count as used.
std::optional<Context> Trainer::Impl::stale_on(const Slot& slot) const {
  std::optional<Context> stale;
  if (options_.zero > 0 && autograd::summed_grad(slot.weight)) return stale;
  if (!autograd::fresh_grad(slot.weight)) stale = slot.context;
  for (const Tensor& other : slot.others)
    if (!autograd::fresh_grad(other) && !stale) stale = other.context();
  return stale;
}

void Trainer::Impl::refuse_stale(const Slot& slot, Context stale) const {
  throw Error("Gradient of Parameter `", parameters_[slot.parameter].name(), "` on context ", stale,
              " has not been updated by backward since last `step`. This could mean a bug in your "
              "model that made it only use a subset of the Parameters (Blocks) for this iteration. "
              "If you are intentionally only using a subset, call step with ignore_stale_grad=true "
              "to suppress this error and skip updating of Parameters with stale gradient");
}

}  // namespace locus::nn
