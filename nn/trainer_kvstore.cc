// A Trainer whose gradients go through a KVStore, as Gluon's do.
#include <algorithm>
#include <optional>

#include <locus/core/autograd.h>
#include <locus/core/capture_check.h>
#include <locus/core/cluster.h>
#include <locus/core/error.h>
#include <locus/core/grad_memory.h>
#include <locus/core/rank_purpose.h>
#include <locus/core/storage.h>
#include <locus/nn/gradient_sums.h>
#include <locus/nn/kvstore.h>
#include <locus/nn/trainer.h>

namespace locus::nn {
namespace {

constexpr const char* kNotRecorded =
    "what is pushed and pulled is not recorded; compile what comes before step(), or make the "
    "Trainer without a kvstore";

uint64_t version_of(const Tensor& t) { return t.impl().storage->version(); }

// Of all replicas, in the parameter's order: sums are the same bits whoever has the weight.
Tensors gradients_of(const Parameter& p) {
  Tensors all;
  for (const Tensor& weight : p.list_data()) all.push_back(weight.grad());
  return all;
}

// Ranks that push something would take what another step pushes for this rank's.
void push_nothing(Caller from) {
  const cluster::Purpose purpose("a Trainer's push of nothing");
  cluster::all_reduce(Tensors{}, ReduceOp::sum, from);
}

void check_ranks(const kvstore::KVStore& store) {
  if (cluster::size() > 1 && !store.type().starts_with("dist_"))
    throw ValueError("Trainer: a kvstore '", store.type(), "' of one process, among ",
                     cluster::size(), " ranks; expected dist_sync or dist_device_sync");
}

}  // namespace

void Trainer::prepare_store() {
  const bool given = options_.kvstore != nullptr;
  if (!given && options_.update_on_kvstore.value_or(false))
    throw ValueError("Trainer: update_on_kvstore without a kvstore; expected both, or neither");
  options_.update_on_kvstore = given && options_.update_on_kvstore.value_or(true);
  if (!given) return;
  if (options_.overlap || options_.zero > 0)
    throw ValueError("Trainer: a kvstore with ", options_.overlap ? "overlap" : "zero",
                     "; expected one of them: a store keeps values and sums in its own way");
  check_ranks(*options_.kvstore);
}

// Whoever else uses the store may have told it how to update.
void Trainer::check_store() const {
  const kvstore::KVStore& store = *options_.kvstore;
  check_ranks(store);  // which may have started since
  if (updates_on_store() ? store.optimizer() == optimizer_ : !store.updates()) return;
  throw Error("Trainer: its kvstore updates values by ",
              store.optimizer() ? "another optimizer"
              : store.updates() ? "an updater"
                                : "none",
              "; expected ", updates_on_store() ? "this trainer's optimizer" : "none",
              ": make a store for each Trainer");
}

// The store's values are the weights', which the program may have written, moved or cast.
void Trainer::take_to_store(Caller from) {
  kvstore::KVStore& store = *options_.kvstore;
  pulled_.clear();
  for (const Slot& slot : slots_) pulled_.push_back(version_of(slot.weight));
  for (const Replicas& r : replicas_) {
    const Slot& slot = slots_[r.begin];
    store.set_value(name_of(r), slot.weight, from);
    const Parameter& p = parameters_[slot.parameter];
    if (updates_on_store()) store.set_multipliers(name_of(r), p.lr_mult(), p.wd_mult());
  }
  if (!updates_on_store()) return;
  // States of what was cast while frozen begin anew.
  std::optional<NamedTensors> known;
  for (const size_t i : distinct_parameters()) {
    const Parameter& p = parameters_[i];
    if (p.grad_req() != GradReq::null || !p.initialized()) continue;
    if (!known) known = store.optimizer_states();
    const auto counts = [&](const auto& state) { return state.first == names_[i] + "/count"; };
    if (std::ranges::any_of(*known, counts)) store.set_value(names_[i], p.list_data()[0], from);
  }
}

void Trainer::step_on_store(const std::vector<bool>& fresh, double rescale, Caller from) {
  capture::check("Trainer::step with a kvstore", kNotRecorded);
  const autograd::Pause pause;
  kvstore::KVStore& store = *options_.kvstore;
  kvstore::Keys keys;
  std::vector<Tensors> gradients;
  std::vector<int64_t> counts;
  cluster::share_failure(
      [&] {
        check_store();
        store.set_rescale_grad(rescale);
        for (size_t i = 0; i < slots_.size(); ++i) {
          if (!fresh[i]) continue;
          const Slot& slot = slots_[i];
          const kvstore::Key& key = keys.emplace_back(names_[slot.parameter]);
          gradients.push_back(gradients_of(parameters_[slot.parameter]));
          if (pulled_[i] != version_of(slot.weight)) store.set_value(key, slot.weight, from);
          counts.push_back(store.num_update(key));
        }
      },
      from);
  if (keys.empty()) return push_nothing(from);
  FirstFailure failure;
  bool all = false;
  failure.run([&] {
    store.push(keys, gradients, 0, from);
    all = true;
  });
  // Those that were updated before another one's update failed, too.
  for (size_t i = 0, k = 0; i < slots_.size(); ++i) {
    if (!fresh[i]) continue;
    const size_t at = k++;
    if (!all && store.num_update(keys[at]) == counts[at]) continue;
    const Tensors weights = parameters_[slots_[i].parameter].list_data();
    store.pull(keys[at], weights, 0, from);
    pulled_[i] = version_of(slots_[i].weight);
    for (const Tensor& weight : weights) autograd::mark_used(weight);
  }
  failure.rethrow();
}

void Trainer::sum_by_store(Caller from) {
  capture::check("Trainer::allreduce_grads with a kvstore", kNotRecorded);
  const autograd::Pause pause;
  kvstore::Keys keys;
  std::vector<Tensors> gradients, weights;
  cluster::share_failure(
      [&] {
        check_store();
        for (const size_t i : distinct_parameters()) {
          const Parameter& p = parameters_[i];
          if (p.grad_req() == GradReq::null) continue;
          const Tensors replicas = p.list_data();
          if (!to_be_summed(p.name(), replicas)) continue;
          keys.emplace_back(names_[i]);
          gradients.push_back(gradients_of(p));
          weights.push_back(replicas);
        }
      },
      from);
  if (keys.empty()) return push_nothing(from);
  options_.kvstore->push(keys, gradients, 0, from);
  try {
    options_.kvstore->pull(keys, gradients, 0, from);
  } catch (...) {
    rethrow_behind([&] { drop_gradients(); });
  }
  for (const Tensors& replicas : weights)
    for (const Tensor& w : replicas)
      if (replicas.size() > 1 || cluster::size() > 1) autograd::mark_summed(w);
}

void Trainer::refuse_on_store(const char* what) const {
  if (!updates_on_store()) return;
  throw Error("Trainer::", what,
              " when parameters are updated on kvstore is not supported. Try setting "
              "`update_on_kvstore` to false when creating the Trainer.");
}

}  // namespace locus::nn
