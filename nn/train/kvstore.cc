#include <locus/nn/kvstore.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include <locus/core/autograd.h>
#include <locus/core/base/at_line.h>
#include <locus/core/base/empty_tensor.h>
#include <locus/core/cluster.h>
#include <locus/core/error.h>
#include <locus/core/group.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/ranks/rank_purpose.h>
#include <locus/core/tape/tape.h>
#include <locus/nn/options.h>
#include <locus/ops/collective.h>
#include <locus/ops/elementwise.h>

namespace locus::kvstore {
namespace {

std::string of(const char* what, const Key& key) {
  return text_of("KVStore::", what, ": key ", key.text());
}

bool host_type(std::string_view type) {
  if (type == "local" || type == "dist_sync") return true;
  if (type == "device" || type == "nccl" || type == "dist_device_sync") return false;
  throw ValueError("kvstore: type '", type,
                   "'; expected local, device, nccl, dist_sync or dist_device_sync");
}

// One tensor per context, as a group needs. Values on one context are added.
Tensors one_a_context(const Tensors& values) {
  Tensors parts;
  for (const Tensor& v : values) {
    const auto same = [&](const Tensor& p) { return p.context() == v.context(); };
    const auto at = std::ranges::find_if(parts, same);
    if (at == parts.end())
      parts.push_back(v);
    else
      *at = *at + v;
  }
  return parts;
}

cluster::Hash hash_of(const char* what, uint64_t store, const Keys& keys) {
  cluster::Hash hash;
  hash.add(what).add(store);
  for (const Key& key : keys) hash.add(key.is_number()).add(key.text());
  return hash;
}
// `failed`: keys whose update failed.
std::string text_of_call(const char* what, uint64_t store, const Keys& keys,
                         const std::string& failed = "") {
  return text_of("KVStore::", what,
                 failed.empty() ? "" : ", after failed updates of " + failed + ",", " of ",
                 listed(keys, &Key::text), ", store ", store);
}

// Runs f. If `share` and f fails on one rank, every rank throws.
void before_ranks(bool share, Caller from, const std::function<void()>& f) {
  share ? cluster::share_failure(f, from) : f();
}

}  // namespace

std::shared_ptr<KVStore> create(std::string_view type) { return std::make_shared<KVStore>(type); }

KVStore::KVStore(std::string_view type)
    : type_(type), on_host_(host_type(type)), dist_(type.starts_with("dist_")) {}

int KVStore::rank() const { return dist_ ? cluster::rank() : 0; }
int KVStore::num_workers() const { return dist_ ? cluster::size() : 1; }
void KVStore::barrier(Caller from) try {
  if (dist_) cluster::barrier(from);
} catch (const Error&) {
  rethrow_at(from);
}

KVStore::StoredValue& KVStore::find(const char* what, const Key& key) {
  const auto at = entries_.find(key);
  if (at != entries_.end()) return at->second;
  throw ValueError(of(what, key), " does not exist; expected one of ",
                   entries_.empty() ? "none: init() it first" : listed(entries_, [](const auto& e) {
                     return e.first.text();
                   }));
}

void KVStore::check(const char* what, const Key& key, const StoredValue& entry,
                    const Tensors& given) const {
  if (given.empty()) throw Error(of(what, key), ": no tensors; expected at least one");
  for (const Tensor& t : given) {
    if (!t.defined()) detail::throw_empty(of(what, key), "a tensor");
    if (t.shape() != entry.value.shape())
      throw ShapeError(of(what, key), ": ", describe(t), "; expected the shape it has, ",
                       entry.value.shape());
    if (t.dtype() != entry.value.dtype())
      throw DTypeError(of(what, key), ": ", describe(t), "; expected the dtype it has, ",
                       name(entry.value.dtype()));
  }
}

void KVStore::check_targets(const char* what, const Key& key, const StoredValue& entry,
                            const Tensors& outs) const {
  check(what, key, entry, outs);
  for (const Tensor& out : outs) check_in_place(of(what, key), {}, out);
}

void KVStore::expect(const char* what, const Keys& keys, size_t lists) const {
  if (keys.empty() || keys.size() != lists)
    throw Error("KVStore::", what, ": ", keys.size(), " keys with ", lists,
                " values; expected as many, and at least one");
}

void KVStore::expect_kind(const char* what, const Key& key, bool number) const {
  if (key.is_number() == number) return;
  throw ValueError(of(what, key), " is a ", number ? "string" : "number",
                   ", and others are not; mixed key types are not allowed");
}

void KVStore::init(const Key& key, const Tensor& value, Caller from) try {
  init(Keys{key}, Tensors{value}, from);
} catch (const Error&) {
  rethrow_at(from);
}

void KVStore::init(const Keys& keys, const Tensors& values, Caller from) try {
  const UserLine user_line(from);
  const autograd::Pause pause;
  Tensors copies;
  before_ranks(dist_, from, [&] {
    expect("init", keys, values.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto same = [&](const Key& k) { return k == keys[i]; };
      if (entries_.contains(keys[i]) || std::ranges::count_if(keys, same) > 1)
        throw ValueError(of("init", keys[i]), " is there already; expected it once");
      const bool number =
          entries_.empty() ? keys[0].is_number() : entries_.begin()->first.is_number();
      expect_kind("init", keys[i], number);
      if (!values[i].defined()) detail::throw_empty(of("init", keys[i]), "its value");
    }
    for (const Tensor& v : values)
      copies.push_back(v.copyto(on_host_ ? cpu() : v.context(), {}, from));
  });
  if (dist_) {
    const cluster::Purpose purpose(hash_of("init", number_, keys),
                                   [&] { return text_of_call("init", number_, keys); });
    cluster::broadcast(copies, 0, from);
    static std::atomic<uint64_t> begun{0};
    if (number_ == 0) number_ = ++begun;
  }
  for (size_t i = 0; i < keys.size(); ++i) entries_[keys[i]].value = copies[i];
} catch (const Error&) {
  rethrow_at(from);
}

Tensor KVStore::sum(const Tensors& values, Context home, Caller from) const {
  Tensors parts = values;
  if (on_host_)
    for (Tensor& p : parts) p = p.as_in_context(home, from);
  parts = one_a_context(parts);
  if (parts.size() > 1) {
    std::vector<Context> contexts;
    for (const Tensor& p : parts) contexts.push_back(p.context());
    const auto root = std::ranges::find(contexts, home) - contexts.begin();
    const int at = static_cast<size_t>(root) < contexts.size() ? static_cast<int>(root) : 0;
    parts = {reduce(Group(contexts), parts, at, ReduceOp::sum, from)};
  }
  // New memory, because pushed tensors may change.
  const bool pushed = std::ranges::any_of(values, [&](const Tensor& v) { return v.is(parts[0]); });
  return pushed ? parts[0].copyto(home, {}, from) : parts[0].as_in_context(home, from);
}

void KVStore::push(const Key& key, const Tensors& values, int priority, Caller from) try {
  push(Keys{key}, {values}, priority, from);
} catch (const Error&) {
  rethrow_at(from);
}
void KVStore::push(const Key& key, const Tensor& value, int priority, Caller from) try {
  push(Keys{key}, {Tensors{value}}, priority, from);
} catch (const Error&) {
  rethrow_at(from);
}

void KVStore::push(const Keys& keys, const std::vector<Tensors>& values, int, Caller from) try {
  const UserLine user_line(from);
  const autograd::Pause pause;
  KeysPushed all;
  Tensors sums;
  before_ranks(dist_, from, [&] {
    expect("push", keys, values.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      StoredValue& entry = find("push", keys[i]);
      check("push", keys[i], entry, values[i]);
      auto at = std::ranges::find(all, keys[i], &std::pair<Key, Pushed>::first);
      if (at == all.end()) at = all.insert(all.end(), {keys[i], {&entry, {}}});
      Tensors& together = at->second.values;
      together.insert(together.end(), values[i].begin(), values[i].end());
    }
    for (const auto& [key, pushed] : all)
      sums.push_back(sum(pushed.values, pushed.entry->value.context(), from));
  });
  if (dist_) sum_over_ranks(keys, all, sums, from);
  size_t done = 0;
  try {
    for (; done < all.size(); ++done) update(all[done].first, *all[done].second.entry, sums[done]);
  } catch (...) {
    for (; done < all.size(); ++done) ++all[done].second.entry->failed;
    throw;
  }
} catch (const Error&) {
  rethrow_at(from);
}

// If an update failed on one rank only, the ranks' values differ; so do their numbers of updates or
// of failed pushes.
void KVStore::sum_over_ranks(const Keys& keys, const KeysPushed& all, const Tensors& sums,
                             Caller from) const {
  cluster::Hash hash = hash_of("push", number_, keys);
  hash.add(optimizer_ ? optimizer_->name() : "").add(optimizer_ ? optimizer_->num_update() : 0);
  hash.add(rescale_grad_);
  for (const auto& [key, pushed] : all)
    hash.add(*pushed.entry->group.count).add(pushed.entry->failed);
  const cluster::Purpose purpose(hash, [&] {
    std::string failed;
    int64_t updates = 0;
    for (const auto& [key, pushed] : all) {
      updates += *pushed.entry->group.count;
      if (pushed.entry->failed > 0) failed += (failed.empty() ? "" : ", ") + key.text();
    }
    return text_of(text_of_call("push", number_, keys, failed),
                   optimizer_ ? text_of(" with ", optimizer_->name(), ", after ", updates,
                                        " updates, num_update ", optimizer_->num_update(),
                                        ", rescale_grad ", rescale_grad_)
                              : "");
  });
  cluster::all_reduce(sums, ReduceOp::sum, from);
}

void KVStore::update(const Key& key, StoredValue& entry, const Tensor& merged) {
  if (optimizer_) {
    prepare(entry);
    entry.group.gradients = {merged};
    optimizer_->update(entry.group, rescale_grad_);
    entry.group.gradients.clear();
  } else if (updater_) {
    Tensor stored = entry.value;
    updater_(key, merged, stored);
    if (!stored.is(entry.value))
      throw Error(of("push", key), ": the updater made `stored` another tensor, ", describe(stored),
                  "; expected it to write into the one that it was given, stored += merged");
  } else {
    entry.value = merged;
  }
}

void KVStore::pull(const Key& key, const Tensors& outs, int priority, Caller from) try {
  pull(Keys{key}, {outs}, priority, from);
} catch (const Error&) {
  rethrow_at(from);
}
void KVStore::pull(const Key& key, const Tensor& out, int priority, Caller from) try {
  pull(Keys{key}, {Tensors{out}}, priority, from);
} catch (const Error&) {
  rethrow_at(from);
}

void KVStore::pull(const Keys& keys, const std::vector<Tensors>& outs, int, Caller from) try {
  const UserLine user_line(from);
  expect("pull", keys, outs.size());
  for (size_t i = 0; i < keys.size(); ++i)
    check_targets("pull", keys[i], find("pull", keys[i]), outs[i]);
  const autograd::Pause pause;
  for (size_t i = 0; i < keys.size(); ++i)
    for (const Tensor& out : outs[i]) entries_.at(keys[i]).value.copyto(out, {}, from);
} catch (const Error&) {
  rethrow_at(from);
}

void KVStore::pushpull(const Key& key, const Tensors& values, const Tensors& outs, int priority,
                       Caller from) try {
  pushpull(Keys{key}, {values}, {outs.empty() ? values : outs}, priority, from);
} catch (const Error&) {
  rethrow_at(from);
}

void KVStore::pushpull(const Keys& keys, const std::vector<Tensors>& values,
                       const std::vector<Tensors>& outs, int priority, Caller from) try {
  const UserLine user_line(from);
  const std::vector<Tensors>& targets = outs.empty() ? values : outs;
  before_ranks(dist_, from, [&] {
    expect("pushpull", keys, targets.size());
    for (size_t i = 0; i < keys.size(); ++i)
      check_targets("pushpull", keys[i], find("pushpull", keys[i]), targets[i]);
  });
  push(keys, values, priority, from);
  pull(keys, targets, priority, from);
} catch (const Error&) {
  rethrow_at(from);
}

void KVStore::broadcast(const Key& key, const Tensor& value, const Tensors& outs, int priority,
                        Caller from) try {
  const UserLine user_line(from);
  before_ranks(dist_, from, [&] {
    if (value.defined()) check_targets("broadcast", key, {value}, outs);
  });
  init(key, value, from);
  pull(key, outs, priority, from);
} catch (const Error&) {
  rethrow_at(from);
}

void KVStore::set_updater(Updater updater) {
  updater_ = std::move(updater);
  optimizer_ = nullptr;
}

void KVStore::set_optimizer(std::shared_ptr<optim::Optimizer> optimizer, double rescale_grad) {
  if (!optimizer) throw Error("KVStore::set_optimizer: the optimizer is null");
  set_rescale_grad(rescale_grad);
  optimizer_ = std::move(optimizer);
  updater_ = nullptr;
  for (auto& [key, entry] : entries_)
    entry.group = {.lr_mult = entry.group.lr_mult, .wd_mult = entry.group.wd_mult};
}

void KVStore::set_multipliers(const Key& key, double lr_mult, double wd_mult) {
  StoredValue& entry = find("set_multipliers", key);
  options::expect("KVStore", "lr_mult", lr_mult, options::not_negative);
  options::expect("KVStore", "wd_mult", wd_mult, options::not_negative);
  entry.group.lr_mult = lr_mult;
  entry.group.wd_mult = wd_mult;
}

void KVStore::set_value(const Key& key, const Tensor& value, Caller from) try {
  const UserLine user_line(from);
  if (!entries_.empty()) expect_kind("set_value", key, entries_.begin()->first.is_number());
  if (!value.defined()) detail::throw_empty(of("set_value", key), "the value");
  const autograd::Pause pause;
  const Context home = on_host_ ? cpu() : value.context();
  Tensor copy = value.copyto(home, {}, from);
  StoredValue& entry = entries_[key];
  const Tensor old = std::exchange(entry.value, std::move(copy));
  entry.failed = 0;
  optim::ParameterGroup& group = entry.group;
  if (group.weights.empty()) return;
  if (old.shape() == value.shape() && old.dtype() == value.dtype()) {
    group.weights = {entry.value};
    for (Tensors& state : group.state) state[0] = state[0].as_in_context(home, from);
  } else {
    group = {.lr_mult = group.lr_mult, .wd_mult = group.wd_mult};
  }
} catch (const Error&) {
  rethrow_at(from);
}

void KVStore::set_rescale_grad(double v) {
  if (!(v > 0) || std::isinf(v))
    throw ValueError("KVStore: rescale_grad ", v, "; expected a finite number > 0");
  rescale_grad_ = v;
}

int64_t KVStore::num_update(const Key& key) { return *find("num_update", key).group.count; }

void KVStore::prepare(StoredValue& entry) const {
  if (!entry.group.weights.empty()) return;
  optim::ParameterGroup group = entry.group;
  group.weights = {entry.value};
  for (const Tensor& t : optimizer_->create_state(entry.value)) group.state.push_back({t});
  entry.group = std::move(group);
}

}  // namespace locus::kvstore
