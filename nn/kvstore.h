// KVStore: values by key, as in MXNet. Contexts and ranks push tensors to a key and pull its value.
// The store owns its values: init() and push() copy. One thread at a time may call a store. Calls
// enqueue work. They wait only for copies to or from the host and, in a dist store, for other
// ranks. Unusual cases: "Details" at the end.
//
//   auto kv = kvstore::create("device");
//   kv->init("w", zeros({2, 3}));
//   kv->push("w", gradients);              // one gradient per context; the value becomes their sum
//   kv->pull("w", outs);                   // copies the value to each of outs
//
// A store with an optimizer updates its values. This example trains without an nn::Trainer:
//   kv->set_optimizer(optim::SGD({.learning_rate = .1}), 1. / batch_size);
//   for (const auto& [name, p] : net.parameters()) kv->init(name, p.list_data()[0]);
//   ...                                                      // in each step: backward(), and
//   for (const auto& [name, p] : net.parameters())
//     if (p.grad_req() != GradReq::null)                     // sum, update, copy to the replicas:
//       kv->pushpull(name, p.list_grad(), p.list_data());
//
// Types:
//   local             values and sums are on the host
//   device, nccl      values stay where init() found them; contexts of one kind are summed by
//                     collectives (ops/collective.h)
//   dist_sync         local; sums are over all ranks (core/cluster.h)
//   dist_device_sync  device; sums are over all ranks
#pragma once

#include <compare>
#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
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
  Key(std::integral auto number) : number_(checked(number)) {}
  Key(std::string name) : name_(std::move(name)), is_number_(false) {}
  Key(const char* name) : Key(std::string(checked(name))) {}

  bool is_number() const { return is_number_; }
  std::string text() const { return is_number_ ? std::to_string(number_) : name_; }
  friend auto operator<=>(const Key&, const Key&) = default;

 private:
  static const char* checked(const char* name) {
    return name ? name : throw ValueError("kvstore::Key: a null pointer; expected a name");
  }
  static int64_t checked(std::integral auto number) {
    if (std::is_signed_v<decltype(number)> || static_cast<uint64_t>(number) <= INT64_MAX)
      return static_cast<int64_t>(number);
    throw ValueError("kvstore::Key: ", number, "; expected a number of at most ", INT64_MAX);
  }
  int64_t number_ = 0;
  std::string name_;
  bool is_number_ = true;
};
using Keys = std::vector<Key>;

// Writes the new value into `stored`: stored += merged. `merged` is the sum of the pushed tensors,
// on the context of `stored`. If the updater assigns another tensor to `stored`, push() throws
// Error, and the value stays.
using Updater = std::function<void(const Key& key, const Tensor& merged, Tensor& stored)>;

class KVStore : NonCopyable {
 public:
  explicit KVStore(std::string_view type);  // see create()

  const std::string& type() const { return type_; }
  int rank() const;                       // cluster::rank() if dist, else 0
  int num_workers() const;                // cluster::size() if dist, else 1
  void barrier(Caller = Caller::here());  // cluster::barrier() if dist

  // Creates a new key. In a dist store every rank gets rank 0's value.
  void init(const Key& key, const Tensor& value, Caller = Caller::here());
  void init(const Keys& keys, const Tensors& values, Caller = Caller::here());

  void push(const Key& key, const Tensors& values, int priority = 0, Caller = Caller::here());
  void push(const Key& key, const Tensor& value, int priority = 0, Caller = Caller::here());
  void push(const Keys& keys, const std::vector<Tensors>& values, int priority = 0,
            Caller = Caller::here());

  // Copies the value into `outs`, on any contexts.
  void pull(const Key& key, const Tensors& outs, int priority = 0, Caller = Caller::here());
  void pull(const Key& key, const Tensor& out, int priority = 0, Caller = Caller::here());
  void pull(const Keys& keys, const std::vector<Tensors>& outs, int priority = 0,
            Caller = Caller::here());

  // push(), then pull() into `outs`. Without `outs`, pull() into the pushed tensors.
  void pushpull(const Key& key, const Tensors& values, const Tensors& outs = {}, int priority = 0,
                Caller = Caller::here());
  void pushpull(const Keys& keys, const std::vector<Tensors>& values,
                const std::vector<Tensors>& outs = {}, int priority = 0, Caller = Caller::here());

  // init(), then pull().
  void broadcast(const Key& key, const Tensor& value, const Tensors& outs, int priority = 0,
                 Caller = Caller::here());

  // Sets the key's value, of any shape, dtype and context. The key may be new. If shape and dtype
  // stay the same, the optimizer's states and number of updates are kept, on the new context. Else
  // they start anew, and the multipliers stay. In a dist store each rank sets the same value.
  void set_value(const Key& key, const Tensor& value, Caller = Caller::here());

  // Later pushes call `updater`. With an empty updater, pushes replace the value. Removes the
  // optimizer.
  void set_updater(Updater updater);
  // Later pushes are gradients, multiplied by rescale_grad. The optimizer updates the value. Each
  // key's states and number of updates start anew. Removes the updater.
  void set_optimizer(std::shared_ptr<optim::Optimizer> optimizer, double rescale_grad = 1);
  template <std::derived_from<optim::Optimizer> O>
  void set_optimizer(O optimizer, double rescale_grad = 1) {
    set_optimizer(std::make_shared<O>(std::move(optimizer)), rescale_grad);
  }
  void set_rescale_grad(double v);  // ValueError unless finite and > 0
  // Sets factors of the key's learning rate and weight decay; 1 unless set. ValueError unless
  // finite and >= 0.
  void set_multipliers(const Key& key, double lr_mult, double wd_mult);
  bool is_update_on_kvstore() const { return optimizer_ != nullptr; }
  const std::shared_ptr<optim::Optimizer>& optimizer() const { return optimizer_; }  // may be null
  bool updates() const { return optimizer_ || updater_; }  // false: a push replaces

  int64_t num_update(const Key& key);  // updates of the value by the optimizer

  // The optimizer's states, without the keys' values, named as in nn::Trainer: "w/mean", "w/count",
  // "optimizer:Adam". States are the store's own tensors; numbers of updates are copies. If names,
  // shapes or dtypes differ from this store's, set and load throw FormatError, ShapeError or
  // DTypeError, and nothing changes.
  NamedTensors optimizer_states();
  void set_optimizer_states(const NamedTensors& states, Caller = Caller::here());
  void save_optimizer_states(const std::string& path, Caller = Caller::here());
  void load_optimizer_states(const std::string& path, Caller = Caller::here());

 private:
  struct StoredValue {
    Tensor value;
    optim::ParameterGroup group = {};  // of an optimizer; without weights before its first update
    int64_t failed = 0;                // pushes without an update since set_value()
  };
  struct Pushed {
    StoredValue* entry;
    Tensors values;
  };
  using KeysPushed = std::vector<std::pair<Key, Pushed>>;
  StoredValue& find(const char* what, const Key& key);
  void check(const char* what, const Key& key, const StoredValue& entry,
             const Tensors& given) const;
  void check_targets(const char* what, const Key& key, const StoredValue& entry,
                     const Tensors& outs) const;
  void expect(const char* what, const Keys& keys, size_t lists) const;
  void expect_kind(const char* what, const Key& key, bool number) const;
  Tensor sum(const Tensors& values, Context home, Caller) const;
  void prepare(StoredValue& entry) const;
  void sum_over_ranks(const Keys& keys, const KeysPushed& all, const Tensors& sums, Caller) const;
  void update(const Key& key, StoredValue& entry, const Tensor& merged);
  void restore(const NamedTensors& states, const std::string& who, Caller);

  const std::string type_;
  const bool on_host_, dist_;
  uint64_t number_ = 0;  // identifies the store among ranks
  std::map<Key, StoredValue> entries_;
  Updater updater_;
  std::shared_ptr<optim::Optimizer> optimizer_;
  double rescale_grad_ = 1;
};

// The types are listed above.
std::shared_ptr<KVStore> create(std::string_view type = "local");

// --- Details ---

// As in MXNet 1.x
//   - A key is a whole number or a string. All keys of a store are of the same type.
//   - Without an optimizer or updater, a push replaces the value by the sum.
//   - Tensors that one call pushes to one key are summed, also if the call names the key twice.
//   - `priority` has no effect: calls run in the program's order.

// Other than in MXNet
//   - pull() refuses a tensor of another shape or dtype.
//   - One process may use the dist types.

// Errors
//   - A call checks all its arguments before it writes. Undefined tensors are EmptyTensor.
//   - ValueError for an unknown type or key, a key that exists already, keys of two types
//   - ShapeError, DTypeError; ContextMismatch for a push from contexts that collectives cannot sum
//   - Error for lists of different lengths, empty lists, a pull into a recorded tensor, and
//     optimizer states of a store without an optimizer
//   - If an optimizer or updater throws in push(), earlier keys of the call have been updated, and
//     later keys have not.

// Ranks of a dist store
//   - init(), push(), pushpull(), broadcast() and barrier() wait for the other ranks.
//   - All ranks make these calls in the same order, with the same keys. Otherwise every rank throws
//     Error, and nothing is written.
//   - Other calls, such as pull(), set_value() and set_optimizer(), do not wait for other ranks.
//   - If one rank finds wrong arguments in init(), push(), pushpull() or broadcast(), every rank
//     throws.
//   - An error of an optimizer or updater is thrown on its rank only. The ranks' values of the key
//     then differ. The next push of this key, or of a later key of the call, throws Error on every
//     rank and writes nothing. set_value() on every rank repairs an updater's key. With an
//     optimizer, also make its states equal on every rank: set_optimizer() with a new optimizer, or
//     set_optimizer_states().
//   - Errors of the other calls are thrown on their rank only.

}  // namespace locus::kvstore
