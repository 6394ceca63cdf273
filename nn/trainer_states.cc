// What a Trainer's training goes on from, by name.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include <locus/core/autograd.h>
#include <locus/core/capture_check.h>
#include <locus/core/error.h>
#include <locus/nn/kvstore.h>
#include <locus/nn/trainer.h>
#include <locus/ops/create.h>
#include <locus/ops/join.h>
#include <locus/ops/view.h>

namespace locus::nn {
namespace {

constexpr std::string_view kOptimizer = "optimizer:";

std::string optimizer_key(const optim::Optimizer& o) { return text_of(kOptimizer, o.name()); }

Tensor number(int64_t n) { return array({n}, cpu()); }

bool has(const NamedTensors& given, const std::string& name) {
  return std::ranges::find(given, name, &NamedTensors::value_type::first) != given.end();
}

}  // namespace

void Trainer::prepare(const char* what, Caller from) {
  capture::check(what, "counts are the host's; ask before or after");
  refresh(from);
}

NamedTensors Trainer::states(Caller from) {
  prepare("Trainer::states", from);
  if (updates_on_store()) return options_.kvstore->optimizer_states();
  return states_of(kept(frozen_));
}

int64_t Trainer::Saved::count() const {
  int64_t most = 0;
  for (const Slot* s : slots) most = std::max(most, *s->count);
  return most;
}

Shape Trainer::Saved::shape(size_t state) const {
  const Shape first = slots[0]->state[state].shape();
  if (axis < 0) return first;
  if (first != slots[0]->weight.shape())
    throw ShapeError("Trainer: a state of '", name, "' is ", describe(slots[0]->state[state]),
                     "; expected its part's shape, ", slots[0]->weight.shape(),
                     ": parts are kept as one whole");
  std::vector<int64_t> whole(first.begin(), first.end());
  int64_t& length = whole[static_cast<size_t>(axis)] = 0;
  for (const Slot* s : slots) length += s->state[state].shape()[axis];
  return Shape(whole);
}

Tensor Trainer::Saved::value(size_t state) const {
  static_cast<void>(shape(state));
  if (axis < 0) return slots[0]->state[state];
  Tensors parts;
  for (const Slot* s : slots) parts.push_back(s->state[state].as_in_context(cpu()));
  return concat(parts, {.axis = axis});
}

void Trainer::Saved::set(size_t state, const Tensor& value, Caller from) const {
  int64_t begin = 0;
  for (const Slot* s : slots) {
    const Tensor& mine = s->state[state];
    const int64_t length = axis < 0 ? 0 : mine.shape()[axis];
    (axis < 0 ? value : slice_axis(value, axis, Slice(begin, begin + length)))
        .copyto(mine, {}, from);
    begin += length;
  }
}

// The name of the whole that a parameter is a part of, where all parts are there one after the
// other; else "".
std::string Trainer::whole_of(size_t parameter) const {
  const Part part = parameters_[parameter].part();
  if (part.of == 1 || parameter < part.index || parameter - part.index + part.of > names_.size())
    return {};
  const size_t first = parameter - part.index;
  const std::string name = names_[first].substr(0, names_[first].rfind('.'));
  for (size_t i = 0; i < part.of; ++i) {
    const Part other = parameters_[first + i].part();
    if (other.index != i || other.of != part.of || names_[first + i] != text_of(name, ".", i))
      return {};
  }
  return name;
}

// The name under which `given` has what is kept for a parameter, or should have it.
std::string Trainer::name_in(const NamedTensors& given, size_t parameter) const {
  const std::string whole = whole_of(parameter);
  return whole.empty() || has(given, names_[parameter] + "/count") ? names_[parameter] : whole;
}

std::vector<Trainer::Saved> Trainer::kept(const std::vector<Slot>& frozen) const {
  std::map<size_t, std::vector<const Slot*>> slots;  // by parameter
  for (const std::vector<Slot>* each : {&slots_, &frozen})
    for (const Slot& slot : *each) slots[slot.parameter].push_back(&slot);
  std::vector<Saved> all;
  for (auto it = slots.begin(); it != slots.end();) {
    const Part part = parameters_[it->first].part();
    const std::string whole = part.index == 0 ? whole_of(it->first) : "";
    size_t there = 0;
    while (!whole.empty() && there < part.of && slots.contains(it->first + there)) ++there;
    if (there != part.of || whole.empty()) {
      all.push_back({names_[it->first], it->second});
      ++it;
      continue;
    }
    all.push_back({whole, {}, part.axis});
    for (; there > 0; --there, ++it) all.back().slots.push_back(it->second[0]);
  }
  return all;
}

std::string Trainer::state_name(const Saved& kept, size_t state) const {
  const std::vector<std::string> kinds = optimizer_->state_names(kept.slots[0]->weight.dtype());
  return kept.name + "/" + (state < kinds.size() ? kinds[state] : std::to_string(state));
}

void Trainer::expect_names_that_differ(const char* what) const {
  if (std::set<std::string>(names_.begin(), names_.end()).size() < names_.size())
    throw Error("Trainer: ", what, ": two parameters have one name, among ", listed(names_),
                "; give the Trainer names that differ");
}

NamedTensors Trainer::states_of(const std::vector<Saved>& kept) const {
  expect_names_that_differ("states");
  NamedTensors all{{optimizer_key(*optimizer_), number(num_update())}};
  for (const Saved& k : kept) {
    all.emplace_back(k.name + "/count", number(k.count()));
    for (size_t i = 0; i < k.slots[0]->state.size(); ++i)
      all.emplace_back(state_name(k, i), k.value(i));
  }
  return all;
}

// The frozen parameters that `given` has states of.
std::vector<Trainer::Slot> Trainer::frozen_in(const NamedTensors& given) const {
  std::vector<Slot> frozen;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& p = parameters_[i];
    if (p.grad_req() != GradReq::null || !has(given, name_in(given, i) + "/count")) continue;
    const size_t before = frozen.size();
    for (const Slot& slot : frozen_)
      if (slot.parameter == i) frozen.push_back(slot);
    if (frozen.size() > before) continue;
    for (const Context& c : p.list_ctx()) {
      const Tensor weight = p.data(c);
      frozen.push_back({i, c, weight, {}, optimizer_->create_state(weight), nullptr});
      frozen.back().count = std::make_shared<int64_t>(0);
      if (options_.zero > 0) break;  // once: its owner is found when it trains
    }
  }
  return frozen;
}

// Those that `given` has states of, and the store has not: it comes to know them when they train.
void Trainer::take_frozen_to_store(const NamedTensors& given, Caller from) {
  kvstore::KVStore& store = *options_.kvstore;
  const NamedTensors own = store.optimizer_states();
  for (const size_t i : distinct_parameters()) {
    const std::string count = names_[i] + "/count";
    if (parameters_[i].grad_req() == GradReq::null && has(given, count) && !has(own, count))
      store.set_value(names_[i], parameters_[i].list_data()[0], from);
  }
}

void Trainer::set_states(const NamedTensors& given, Caller from) {
  restore(given, "Trainer::set_states", from);
}

void Trainer::save_states(const std::string& path, Caller from) { save(path, states(from), from); }

void Trainer::load_states(const std::string& path, Caller from) {
  restore(load(path, cpu(), from), "Trainer::load_states: " + path, from);
}

void Trainer::check_optimizer(const NamedTensors& given, const std::string& who) const {
  for (const auto& [key, tensor] : given)
    if (key.starts_with(kOptimizer) && key != optimizer_key(*optimizer_))
      throw FormatError(who, ": these are the states of an optimizer ",
                        key.substr(kOptimizer.size()), "; this trainer's is ", optimizer_->name());
}

// The values of states(), in its order.
std::vector<const Tensor*> Trainer::check(const NamedTensors& given,
                                          const std::vector<Slot>& frozen, const std::string& who,
                                          Caller from) const {
  const NamedTensors own = states_of(kept(frozen));
  check_optimizer(given, who);
  const auto names = [](const NamedTensors& t) {
    return listed(t, [](const auto& each) { return each.first; });
  };
  std::vector<const Tensor*> values;
  for (const auto& [key, tensor] : own) {
    const auto it = std::ranges::find(given, key, &NamedTensors::value_type::first);
    if (it == given.end() || !it->second.defined())
      throw FormatError(who, ": '", key, "' is missing among ", names(given));
    if (it->second.shape() != tensor.shape())
      throw ShapeError(who, ": '", key, "' is ", describe(it->second), "; expected shape ",
                       tensor.shape());
    if (it->second.dtype() != tensor.dtype())
      throw DTypeError(who, ": '", key, "' is ", describe(it->second), "; expected dtype ",
                       name(tensor.dtype()));
    values.push_back(&it->second);
  }
  std::set<std::string_view> seen;
  for (const auto& [key, tensor] : given) {
    if (!has(own, key))
      throw FormatError(who, ": '", key, "' is none of this trainer's states: ", names(own));
    if (!seen.insert(key).second) throw FormatError(who, ": '", key, "' is there twice");
  }
  for (size_t i = 0; i < own.size(); ++i)
    if (own[i].first.ends_with("/count") || i == 0)
      if (const int64_t n = values[i]->item<int64_t>(from); n < 0)
        throw FormatError(who, ": '", own[i].first, "' is ", n, "; expected a count");
  return values;
}

// Where parameters have no values yet: the optimizer, and the names of the states of each.
void Trainer::check_names(const NamedTensors& given, const std::string& who) const {
  check_optimizer(given, who);
  std::set<std::string> expected{optimizer_key(*optimizer_)};
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const std::string name = name_in(given, i);
    if (parameters_[i].grad_req() == GradReq::null && !has(given, name + "/count")) continue;
    expected.insert(name + "/count");
    for (const std::string& kind : optimizer_->state_names(parameters_[i].dtype()))
      expected.insert(name + "/" + kind);
  }
  std::set<std::string> there;
  for (const auto& [key, tensor] : given) there.insert(key);
  if (there != expected)
    throw FormatError(who, ": expected the states ", listed(expected), ", got ", listed(there));
}

// Shapes that are not known yet are checked when they are.
std::function<void()> Trainer::prepare_restore(NamedTensors given, const std::string& who,
                                               Caller from) {
  if (std::ranges::all_of(parameters_, &Parameter::initialized)) {
    prepare("Trainer::set_states", from);
    if (updates_on_store()) {
      take_frozen_to_store(given, from);
      options_.kvstore->check_optimizer_states(given, who, from);
    } else {
      check(given, frozen_in(given), who, from);
    }
  } else {
    check_names(given, who);
  }
  return [this, given = std::move(given), who, from] { restore(given, who, from); };
}

void Trainer::restore(const NamedTensors& given, const std::string& who, Caller from) {
  prepare("Trainer::set_states", from);
  if (updates_on_store()) {
    take_frozen_to_store(given, from);
    return options_.kvstore->set_optimizer_states(given, from);
  }
  std::vector<Slot> frozen = frozen_in(given);
  const std::vector<const Tensor*> values = check(given, frozen, who, from);
  const auto count = [&](size_t i) { return values[i]->item<int64_t>(from); };
  const int64_t updates = count(0);
  std::map<const Slot*, int64_t> read;
  const autograd::Pause pause;
  size_t at = 1;
  for (const Saved& k : kept(frozen)) {
    for (const Slot* slot : k.slots) read[slot] = count(at);
    ++at;
    for (size_t i = 0; i < k.slots[0]->state.size(); ++i) k.set(i, *values[at++], from);
  }
  std::vector<int64_t> counts;
  for (const Slot& slot : slots_) counts.push_back(read.at(&slot));
  for (Slot& slot : frozen) slot.count = std::make_shared<int64_t>(read.at(&slot));
  frozen_ = std::move(frozen);
  optimizer_->set_num_update(updates);
  bool differ = false;
  for (Batch& b : batches_) {
    for (size_t i : b.slots) differ |= counts[i] != counts[b.slots[0]];
    *b.group.count = counts[b.slots[0]];
  }
  if (!differ) return;
  for (size_t i = 0; i < slots_.size(); ++i)
    if (counts[i] != *slots_[i].count) slots_[i].count = std::make_shared<int64_t>(counts[i]);
  regroup();
}

}  // namespace locus::nn
