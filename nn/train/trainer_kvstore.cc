// Sums a Trainer's gradients by a KVStore.
#include <algorithm>
#include <optional>

#include <locus/core/autograd.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/cluster.h>
#include <locus/core/error.h>
#include <locus/core/tape/grad_memory.h>
#include <locus/nn/kvstore.h>
#include <locus/nn/train/trainer_impl.h>

namespace locus::nn {
namespace {

constexpr const char* kNotRecorded =
    "a kvstore's sums are not recorded; compile what comes before step(), or make the Trainer "
    "without a kvstore";

// All replicas' gradients, in the parameter's order: sums have the same bits for any owner.
Tensors gradients_of(const Parameter& p) {
  Tensors all;
  for (const Tensor& weight : p.list_data()) all.push_back(weight.grad());
  return all;
}

// Without this call, ranks that push gradients would match this rank's next push.
void push_nothing(Caller from) {
  constexpr const char* kWhat = "a Trainer's push of nothing";
  const cluster::Purpose purpose(cluster::Hash().add(kWhat), [] { return kWhat; });
  cluster::all_reduce(Tensors{}, ReduceOp::sum, from);
}

void check_ranks(const kvstore::KVStore& store) {
  if (cluster::size() > 1 && !store.type().starts_with("dist_"))
    throw ValueError("Trainer: a kvstore '", store.type(), "' of one process, among ",
                     cluster::size(), " ranks; expected dist_sync or dist_device_sync");
}

}  // namespace

void Trainer::Impl::check_store_options() const {
  if (options_.update_on_kvstore)
    throw ValueError(
        "Trainer: update_on_kvstore is true; expected false: a trainer's kvstore only sums "
        "gradients. To update values on a store, give it the optimizer by KVStore::set_optimizer() "
        "and call KVStore::pushpull() with gradients and weights, without a Trainer");
  if (!options_.kvstore) return;
  if (options_.overlap || options_.zero > 0)
    throw ValueError("Trainer: a kvstore with ", options_.overlap ? "overlap" : "zero",
                     "; expected one of them: a store sums gradients in its own way");
  check_ranks(*options_.kvstore);
}

// Other code may have changed the store.
void Trainer::Impl::check_store() const {
  const kvstore::KVStore& store = *options_.kvstore;
  check_ranks(store);
  if (!store.updates()) return;
  throw Error(
      "Trainer: its kvstore updates values by an ", store.optimizer() ? "optimizer" : "updater",
      "; expected none, since a trainer's kvstore only sums gradients: make a store for each "
      "Trainer");
}

// Gives the store an entry per trained parameter, with the weight's shape, dtype and context.
void Trainer::Impl::take_to_store(Caller from) {
  for (const Replicas& r : replicas_)
    options_.kvstore->set_value(name_of(r), slots_[r.begin].weight, from);
}

void Trainer::Impl::sum_by_store(Caller from) {
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

}  // namespace locus::nn
