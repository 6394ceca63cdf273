// Sums a Trainer's gradients over replicas and ranks. Ranks compare their calls first.
#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>

#include <locus/core/autograd.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/cluster.h>
#include <locus/core/error.h>
#include <locus/core/tape/grad_memory.h>
#include <locus/nn/kvstore.h>
#include <locus/nn/train/trainer_impl.h>

namespace locus::nn {

// Copies rank 0's values of parameters whose values are not rank 0's.
void Trainer::Impl::broadcast_first_values(Caller from) {
  if (cluster::size() == 1) return;
  Tensors firsts;
  std::vector<size_t> taken;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (equal_[i] == parameters_[i].origin() || !parameters_[i].initialized()) continue;
    firsts.push_back(parameters_[i].list_data()[0]);
    taken.push_back(i);
  }
  if (firsts.empty()) return;
  const autograd::Pause pause;
  const auto name = [&](size_t i) { return names_[i]; };
  cluster::Hash hash;
  for (const size_t i : taken) hash.add(names_[i]);
  const cluster::Purpose purpose(hash, [&] { return "the values of " + listed(taken, name); });
  cluster::broadcast(firsts, 0, from);
  for (size_t k = 0; k < taken.size(); ++k) {
    const Parameter& p = parameters_[taken[k]];
    for (const Tensor& replica : p.list_data()) firsts[k].copyto(replica, {}, from);
    equal_[taken[k]] = p.origin();
  }
}

// With one rank nothing is compared. Updates are counted per parameter, because ranks may have
// different numbers of replicas. If an update failed on one rank alone, the counts differ.
Trainer::Impl::Terms Trainer::Impl::terms(const char* call, std::initializer_list<double> numbers,
                                          const std::vector<bool>& fresh) const {
  if (cluster::size() == 1) return {.call = call};
  Terms t{.call = call,
          .numbers = numbers,
          .fresh = fresh,
          .learning_rate = optimizer_->learning_rate()};
  for (const Replicas& r : replicas_) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (size_t i = r.begin; i < r.end; ++i) least = std::min(least, *slots_[i].count);
    t.updates += least;
  }
  return t;
}

cluster::Purpose Trainer::Impl::purpose_of(const Terms& t) const {
  cluster::Hash hash;
  if (cluster::size() > 1) {
    hash.add(t.call).add(number_).add(optimizer_->name()).add(t.learning_rate).add(t.updates);
    for (const double number : t.numbers) hash.add(number);
    for (const Replicas& r : replicas_) {
      const Parameter& p = parameters_[slots_[r.begin].parameter];
      hash.add(name_of(r)).add(p.lr_mult()).add(p.wd_mult()).add(bool(t.fresh[r.begin]));
    }
  }
  return cluster::Purpose(hash, [this, &t] { return text_of_terms(t); });
}

std::string Trainer::Impl::text_of_terms(const Terms& t) const {
  if (cluster::size() == 1) return t.call;
  std::string multipliers, without;
  for (const Replicas& r : replicas_) {
    if (!t.fresh[r.begin]) without += ", without " + name_of(r);
    const Parameter& p = parameters_[slots_[r.begin].parameter];
    if (p.lr_mult() != 1 || p.wd_mult() != 1)
      multipliers += text_of(", ", name_of(r), " by ", p.lr_mult(), " and ", p.wd_mult());
  }
  return text_of(t.call, "(", listed(t.numbers), ") of Trainer ", number_, ", ", optimizer_->name(),
                 ", learning rate ", t.learning_rate, ", after ", t.updates, " updates of ",
                 replicas_.size(), " parameters",
                 multipliers.empty() ? "" : ", multipliers" + multipliers.substr(1), without);
}

void Trainer::Impl::allreduce_grads(Caller from) { sum_gradients({}, from); }

// `behind` follows the replicas' sums; only with one rank.
void Trainer::Impl::sum_gradients(const std::function<void(int)>& behind, Caller from) {
  cluster::share_failure([&] { refresh(from); }, from);
  broadcast_first_values(from);  // may throw: before any gradient counts as a sum
  if (options_.kvstore) return sum_by_store(from);
  std::vector<Replicas> alone;
  cluster::share_failure(
      [&] {
        if (sums_) sums_->expect_ready();
        alone = unsummed();
      },
      from);
  // Ranks may have new gradients of different parameters with equal shapes.
  cluster::Hash hash;
  hash.add(number_);
  for (const Replicas& r : alone) hash.add(name_of(r));
  const bool itself = !cluster::Purpose::any();  // else the outer purpose names the trainer
  const cluster::Purpose purpose(hash, [&, this] {
    return text_of(itself ? text_of("Trainer ", number_, ", ") : "", "the gradients of ",
                   listed(alone, [&](const Replicas& r) { return name_of(r); }));
  });
  // Errors up to here leave all gradients unchanged.
  if (cluster::size() > 1) cluster::barrier(from);
  try {
    cluster::share_failure(
        [&] {
          if (sums_) sums_->finish(behind, from);
        },
        from);
    sum_over_ranks(alone, from);
  } catch (...) {
    rethrow_behind([&] {
      if (!capture::only_recorded()) drop_gradients();
    });
  }
}

// Some gradients may be sums by now, of this rank's replicas or of all ranks. With zero, the other
// replicas' gradients may be used and not 0.
void Trainer::Impl::drop_gradients() {
  Tensors all;
  for (const Slot& slot : slots_) {
    all.push_back(slot.weight);
    std::ranges::copy(slot.others, std::back_inserter(all));
  }
  autograd::drop_grads(all);
  for (const Parameter& p : parameters_)
    if (p.grad_req() == GradReq::add) p.zero_grad();
}

// With several ranks, the parameters whose new gradients are not summed over ranks.
std::vector<Trainer::Impl::Replicas> Trainer::Impl::unsummed() const {
  std::vector<Replicas> alone;
  if (cluster::size() == 1) return alone;
  capture::check("Trainer::allreduce_grads",
                 "ranks synchronize on the host; compile what comes before it, or before step()");
  for (const Replicas& r : replicas_) {
    bool fresh = true, summed = true;
    for (size_t i = r.begin; i < r.end; ++i) {
      fresh = fresh && !stale_on(slots_[i]);
      summed = summed && autograd::summed_grad(slots_[i].weight);
    }
    if (fresh && !summed) alone.push_back(r);
  }
  return alone;
}

// One replica has this rank's sum. It goes to the parameter's first context.
void Trainer::Impl::sum_over_ranks(const std::vector<Replicas>& alone, Caller from) {
  if (cluster::size() == 1) return;
  const autograd::Pause pause;
  Tensors sums;
  cluster::share_failure(
      [&] {
        for (const Replicas& r : alone) {
          const Slot& slot = slots_[r.begin];
          const Context first = parameters_[slot.parameter].list_ctx()[0];
          sums.push_back(slot.weight.grad().as_in_context(first, from));
        }
      },
      from);
  cluster::all_reduce(sums, ReduceOp::sum, from);
  for (size_t k = 0; k < alone.size(); ++k)
    for (size_t i = alone[k].begin; i < alone[k].end; ++i) {
      const Tensor& weight = slots_[i].weight;
      sums[k].copyto(weight.grad(), {}, from);  // no-op if it is the gradient
      autograd::mark_summed(weight);
    }
}

}  // namespace locus::nn
