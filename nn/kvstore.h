// KVStore: values by key that several contexts and processes push to and pull from, MXNet's.
//
//   auto kv = kvstore::create("device");
//   kv->init("w", zeros({2, 3}));
//   kv->push("w", gradients);                 // one a context: their sum becomes the value
//   kv->pull("w", outs);                      // which each of outs gets
//   kv->set_optimizer(optim::SGD({.learning_rate = .1}));
//   kv->push("w", gradients);                 // from now on it updates the value instead
//
// Types:
//   local            values and sums are on the host
//   device, nccl     values stay where init() found them; sums over contexts of one kind are
//                    collectives' (ops/collective.h)
//   dist_sync        local, and sums are over all ranks (core/cluster.h), too, each of which makes
//                    the same calls in the same order; Error on all for other keys
//   dist_device_sync device, likewise
//
// As in MXNet 1.x: a key is a whole number or a string, all of a store of one kind; without an
// updater a push replaces the value by the sum, with one it is called for it; values that are
// pushed under one key in one call are one sum; `priority` is taken and makes no difference, since
// calls are in the program's order. Unlike there, a tensor that does not fit is an error in pull(),
// too, dtypes are not reinterpreted, and one process alone may use the dist types.
//
// Calls enqueue work and do not wait, but for the host's values. All is checked before anything is
// written. Errors: ValueError for an unknown type or key, a key that was there already, and keys of
// two kinds; ShapeError, DTypeError, ContextMismatch (collectives: contexts of two kinds), Error
// for lists that differ in length or are empty, and for a pull into what is being recorded; on
// every rank, but pull()'s. One thread at a time.
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

  // push(), then pull(); without `outs` into the values that were pushed.
  void pushpull(const Key& key, const Tensors& values, const Tensors& outs = {}, int priority = 0,
                Caller = Caller::here());
  void pushpull(const Keys& keys, const std::vector<Tensors>& values,
                const std::vector<Tensors>& outs = {}, int priority = 0, Caller = Caller::here());

  // init(), then pull().
  void broadcast(const Key& key, const Tensor& value, const Tensors& outs, int priority = 0,
                 Caller = Caller::here());

  // A value for a key, or another one in the place of its value, of any shape, dtype and context;
  // that of a dist store is to be the same on all workers, who need not meet. The optimizer's
  // states stay, and go along, where they fit it; else they begin anew.
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
  // Throws what set_optimizer_states() would, beginning with `who`, and changes nothing.
  void check_optimizer_states(const NamedTensors& states, const std::string& who,
                              Caller = Caller::here());

 private:
  struct Entry {
    Tensor value;
    optim::ParameterGroup group = {};  // of an optimizer; without weights before its first update
  };
  struct Pushed {
    Entry* entry;
    Tensors values;
  };
  Entry& find(const char* what, const Key& key);
  void check(const char* what, const Key& key, const Entry& entry, const Tensors& given) const;
  void check_targets(const char* what, const Key& key, const Entry& entry,
                     const Tensors& outs) const;
  void expect(const char* what, const Keys& keys, size_t lists) const;
  void expect_kind(const char* what, const Key& key, bool number) const;
  Tensor sum(const Tensors& values, Context home, Caller) const;
  void prepare(Entry& entry) const;
  void update(const Key& key, Entry& entry, const Tensor& merged);
  void restore(const NamedTensors& states, const std::string& who, Caller);

  const std::string type_;
  const bool on_host_, dist_;
  uint64_t number_ = 0;  // that ranks tell their stores apart by
  std::map<Key, Entry> entries_;
  Updater updater_;
  std::shared_ptr<optim::Optimizer> optimizer_;
  double rescale_grad_ = 1;
};

// "local", "device", "nccl", "dist_sync", "dist_device_sync"; ValueError for another type.
std::shared_ptr<KVStore> create(std::string_view type = "local");

}  // namespace locus::kvstore
