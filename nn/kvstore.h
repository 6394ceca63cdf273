// KVStore: values by key. Contexts and ranks push tensors to a key and pull its value, as in MXNet.
//
//   auto kv = kvstore::create("device");
//   kv->init("w", zeros({2, 3}));
//   kv->push("w", gradients);              // one gradient per context; the value becomes their sum
//   kv->pull("w", outs);                   // each of outs gets the value
//
// A store with an optimizer updates its values. It trains a network without an nn::Trainer:
//   kv->set_optimizer(optim::SGD({.learning_rate = .1}), 1. / batch_size);
//   for (const auto& [name, p] : net.parameters()) kv->init(name, p.list_data()[0]);
//   ...                                                      // in each step: backward(), and
//   for (const auto& [name, p] : net.parameters())
//     kv->pushpull(name, p.list_grad(), p.list_data());      // sum, update, copy to the replicas
//
// Types:
//   local             values and sums are on the host
//   device, nccl      values stay where init() found them; contexts of one kind are summed by
//                     collectives (ops/collective.h)
//   dist_sync         local; sums are over all ranks (core/cluster.h)
//   dist_device_sync  device; sums are over all ranks
//
// Calls enqueue work. They wait only for values on the host. Threads: one at a time.

// --- Details ---
//
// As in MXNet 1.x:
//   - a key is a whole number or a string; all keys of a store are of one kind
//   - without an updater a push replaces the value by the sum; with an updater the push calls it
//   - values that one call pushes under one key are summed
//   - `priority` has no effect: calls run in the program's order
// Other than in MXNet: pull() refuses a tensor that does not fit, dtypes are not reinterpreted, and
// one process may use the dist types.
//
// All ranks of a dist store make the same calls in the same order, else Error on every rank.
//
// A call checks all its arguments before it writes anything. Errors:
//   ValueError             an unknown type or key, a key that exists already, keys of two kinds
//   ShapeError, DTypeError, ContextMismatch (collectives: contexts of two kinds)
//   Error                  lists of different lengths, empty lists, a pull into a recorded tensor
// Each rank throws them, except the errors of pull(). If an optimizer or an updater throws in
// push(), the keys before it in the call have been updated.
#pragma once

#include <compare>
#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <locus/core/caller.h>
#include <locus/core/io.h>
#include <locus/core/noncopyable.h>
#include <locus/core/tensor.h>
#include <locus/nn/optimizer.h>

namespace locus::kvstore {

class Key {
 public:
  Key(std::integral auto number) : number_(number) {}
  Key(std::string name) : name_(std::move(name)), is_number_(false) {}
  Key(const char* name) : Key(std::string(name)) {}

  bool is_number() const { return is_number_; }
  std::string text() const { return is_number_ ? std::to_string(number_) : name_; }
  friend auto operator<=>(const Key&, const Key&) = default;

 private:
  int64_t number_ = 0;
  std::string name_;
  bool is_number_ = true;
};
using Keys = std::vector<Key>;

// Changes `stored` in place by what was pushed, `merged`, which lives beside it: stored += merged.
using Updater = std::function<void(const Key& key, const Tensor& merged, Tensor& stored)>;

class KVStore : NonCopyable {
 public:
  explicit KVStore(std::string_view type);  // see create()

  const std::string& type() const { return type_; }
  // Of a dist store those of core/cluster.h.
  int rank() const;
  int num_workers() const;
  void barrier(Caller = Caller::here());

  // Once a key. In a dist store the first worker's value counts.
  void init(const Key& key, const Tensor& value, Caller = Caller::here());
  void init(const Keys& keys, const Tensors& values, Caller = Caller::here());

  void push(const Key& key, const Tensors& values, int priority = 0, Caller = Caller::here());
  void push(const Key& key, const Tensor& value, int priority = 0, Caller = Caller::here());
  void push(const Keys& keys, const std::vector<Tensors>& values, int priority = 0,
            Caller = Caller::here());

  // Into `outs`, on whatever contexts they are.
  void pull(const Key& key, const Tensors& outs, int priority = 0, Caller = Caller::here());
  void pull(const Key& key, const Tensor& out, int priority = 0, Caller = Caller::here());
  void pull(const Keys& keys, const std::vector<Tensors>& outs, int priority = 0,
            Caller = Caller::here());

  // push(), then pull() into `outs`; without `outs` into the pushed tensors.
  void pushpull(const Key& key, const Tensors& values, const Tensors& outs = {}, int priority = 0,
                Caller = Caller::here());
  void pushpull(const Keys& keys, const std::vector<Tensors>& values,
                const std::vector<Tensors>& outs = {}, int priority = 0, Caller = Caller::here());

  // init(), then pull().
  void broadcast(const Key& key, const Tensor& value, const Tensors& outs, int priority = 0,
                 Caller = Caller::here());

  // Gives the key this value, of any shape, dtype and context; the key may be new. The optimizer's
  // states are kept if they fit the value, else they start from zero. In a dist store each worker
  // sets the same value; the workers do not wait for each other.
  void set_value(const Key& key, const Tensor& value, Caller = Caller::here());

  // From now on a push calls it; an empty one: as before. Takes an optimizer away.
  void set_updater(Updater updater);
  // From now on a push is a gradient by which the optimizer updates the value; each key has states
  // and a number of updates of its own. Gradients are multiplied by rescale_grad.
  void set_optimizer(std::shared_ptr<optim::Optimizer> optimizer, double rescale_grad = 1);
  template <std::derived_from<optim::Optimizer> O>
  void set_optimizer(O optimizer, double rescale_grad = 1) {
    set_optimizer(std::make_shared<O>(std::move(optimizer)), rescale_grad);
  }
  void set_rescale_grad(double v);  // ValueError unless finite and > 0
  // Factors of the key's learning rate and decay, 1 until then. ValueError unless finite and >= 0.
  void set_multipliers(const Key& key, double lr_mult, double wd_mult);
  bool is_update_on_kvstore() const { return optimizer_ != nullptr; }
  const std::shared_ptr<optim::Optimizer>& optimizer() const { return optimizer_; }  // may be null
  bool updates() const { return optimizer_ || updater_; }  // else a push replaces

  int64_t num_update(const Key& key);  // the optimizer's updates of its value

  // The optimizer's states, as nn::Trainer's: "w/mean", "w/count", "optimizer:Adam"; the store's
  // own tensors. Error without an optimizer; FormatError, ShapeError and DTypeError for what is not
  // this store's, and nothing is changed then.
  NamedTensors optimizer_states();
  void set_optimizer_states(const NamedTensors& states, Caller = Caller::here());
  void save_optimizer_states(const std::string& path, Caller = Caller::here());
  void load_optimizer_states(const std::string& path, Caller = Caller::here());

 private:
  struct StoredValue {
    Tensor value;
    optim::ParameterGroup group = {};  // of an optimizer; without weights before its first update
  };
  struct Pushed {
    StoredValue* entry;
    Tensors values;
  };
  StoredValue& find(const char* what, const Key& key);
  void check(const char* what, const Key& key, const StoredValue& entry,
             const Tensors& given) const;
  void check_targets(const char* what, const Key& key, const StoredValue& entry,
                     const Tensors& outs) const;
  void expect(const char* what, const Keys& keys, size_t lists) const;
  void expect_kind(const char* what, const Key& key, bool number) const;
  Tensor sum(const Tensors& values, Context home, Caller) const;
  void prepare(StoredValue& entry) const;
  void update(const Key& key, StoredValue& entry, const Tensor& merged);
  void restore(const NamedTensors& states, const std::string& who, Caller);

  const std::string type_;
  const bool on_host_, dist_;
  uint64_t number_ = 0;  // that ranks tell their stores apart by
  std::map<Key, StoredValue> entries_;
  Updater updater_;
  std::shared_ptr<optim::Optimizer> optimizer_;
  double rescale_grad_ = 1;
};

// "local", "device", "nccl", "dist_sync", "dist_device_sync"; ValueError for another type.
std::shared_ptr<KVStore> create(std::string_view type = "local");

}  // namespace locus::kvstore
