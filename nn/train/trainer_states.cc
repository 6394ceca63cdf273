// A Trainer's states, by name.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include <locus/core/autograd.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/error.h>
#include <locus/nn/block/sharded_tensor.h>
#include <locus/nn/train/state_check.h>
#include <locus/nn/train/trainer_impl.h>
#include <locus/ops/create.h>
#include <locus/ops/join.h>
#include <locus/ops/view.h>

namespace locus::nn {
namespace {

constexpr std::string_view kOptimizer = "optimizer:";

std::string optimizer_key(const optim::Optimizer& o) { return text_of(kOptimizer, o.name()); }

Tensor number(int64_t n) { return array({n}, cpu()); }

bool has(const NamedTensors& given, const std::string& name) { return find_in(given, name); }

}  // namespace

void Trainer::Impl::prepare(const char* what, Caller from) {
  capture::check(what, "counts are the host's; ask before or after");
  refresh(from);
}

NamedTensors Trainer::Impl::states(Caller from) {
  prepare("Trainer::states", from);
  return states_of(kept(frozen_, nullptr));
}

// Whether all parts have the same states, each with its part's shape.
bool Trainer::Impl::SavedState::alike() const {
  return std::ranges::all_of(slots, [&](const Slot* s) {
    return s->weight.dtype() == slots[0]->weight.dtype() &&
           s->state.size() == slots[0]->state.size() &&
           std::ranges::all_of(s->state,
                               [&](const Tensor& t) { return t.shape() == s->weight.shape(); });
  });
}

Tensor Trainer::Impl::SavedState::value(size_t state) const {
  if (axis < 0) return slots[0]->state[state];
  Tensors parts;
  for (const Slot* s : slots) parts.push_back(s->state[state].as_in_context(cpu()));
  return concat(parts, {.axis = axis});
}

void Trainer::Impl::SavedState::set(size_t state, const Tensor& value, Caller from) const {
  int64_t begin = 0;
  for (const Slot* s : slots) {
    const Tensor& mine = s->state[state];
    const int64_t length = axis < 0 ? 0 : mine.shape()[axis];
    (axis < 0 ? value : slice_axis(value, axis, Slice(begin, begin + length)))
        .copyto(mine, {}, from);
    begin += length;
  }
}

// The name of a parameter's whole, if all parts are given in order; else "".
std::string Trainer::Impl::whole_of(size_t parameter) const {
  const Shard part = parameters_[parameter].part();
  if (part.of == 1 || parameter < part.index || parameter - part.index + part.of > names_.size())
    return {};
  const size_t first = parameter - part.index;
  const std::string name = names_[first].substr(0, names_[first].rfind('.'));
  for (size_t i = 0; i < part.of; ++i) {
    const Shard other = parameters_[first + i].part();
    if (other.index != i || other.of != part.of || names_[first + i] != text_of(name, ".", i))
      return {};
  }
  return name;
}

// The name of a parameter's states in `given`, present or expected.
std::string Trainer::Impl::name_in(const NamedTensors& given, size_t parameter) const {
  const std::string whole = whole_of(parameter);
  return whole.empty() || has(given, names_[parameter] + "/count") ? names_[parameter] : whole;
}

// Joins parts if `given` has the whole or, without `given`, if their counts are equal.
std::vector<Trainer::Impl::SavedState> Trainer::Impl::kept(const std::vector<Slot>& frozen,
                                                           const NamedTensors* given) const {
  std::map<size_t, std::vector<const Slot*>> slots;  // by parameter
  for (const std::vector<Slot>* each : {&slots_, &frozen})
    for (const Slot& slot : *each) slots[slot.parameter].push_back(&slot);
  std::vector<SavedState> all;
  for (auto it = slots.begin(); it != slots.end();) {
    const Shard part = parameters_[it->first].part();
    const std::string whole = part.index == 0 ? whole_of(it->first) : "";
    SavedState one{whole, {}, part.axis};
    for (size_t i = 0; !whole.empty() && i < part.of && slots.contains(it->first + i); ++i)
      one.slots.push_back(slots.at(it->first + i)[0]);
    const auto counts_as_first = [&](const Slot* s) { return *s->count == *one.slots[0]->count; };
    if (!whole.empty() && one.slots.size() == part.of && one.alike() &&
        (given ? !has(*given, names_[it->first] + "/count")
               : std::ranges::all_of(one.slots, counts_as_first))) {
      std::advance(it, one.slots.size());
      all.push_back(std::move(one));
    } else {
      all.push_back({names_[it->first], it->second});
      ++it;
    }
  }
  std::set<std::string> taken;
  for (const SavedState& one : all)
    if (!taken.insert(one.name).second)
      throw Error("Trainer: states: a parameter and the whole of parts have one name, '", one.name,
                  "'; give the Trainer names that differ");
  return all;
}

void Trainer::Impl::expect_names_that_differ(const char* what) const {
  if (std::set<std::string>(names_.begin(), names_.end()).size() < names_.size())
    throw Error("Trainer: ", what, ": two parameters have one name, among ", listed(names_),
                "; give the Trainer names that differ");
}

NamedTensors Trainer::Impl::states_of(const std::vector<SavedState>& kept) const {
  expect_names_that_differ("states");
  NamedTensors all{{optimizer_key(*optimizer_), number(optimizer_->num_update())}};
  for (const SavedState& k : kept) {
    all.emplace_back(k.name + "/count", number(*k.slots[0]->count));
    const Slot& first = *k.slots[0];
    for (size_t i = 0; i < first.state.size(); ++i)
      all.emplace_back(k.name + "/" + optimizer_->state_name(first.weight.dtype(), i), k.value(i));
  }
  return all;
}

// Slots of frozen parameters that have states in `given`.
std::vector<Trainer::Impl::Slot> Trainer::Impl::frozen_in(const NamedTensors& given) const {
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
      if (options_.zero > 0) break;  // once: the owner is chosen when it trains
    }
  }
  return frozen;
}

void Trainer::Impl::check_optimizer(const NamedTensors& given, const std::string& who) const {
  for (const auto& [key, tensor] : given)
    if (key.starts_with(kOptimizer) && key != optimizer_key(*optimizer_))
      throw FormatError(who, ": these are the states of an optimizer ",
                        key.substr(kOptimizer.size()), "; this trainer's is ", optimizer_->name());
}

// The values of states(), in its order. Throws if `given` does not fit.
std::vector<const Tensor*> Trainer::Impl::check(const NamedTensors& given,
                                                const std::vector<Slot>& frozen,
                                                const std::string& who, Caller from) const {
  check_optimizer(given, who);
  return expect_states(given, states_of(kept(frozen, &given)), who, from);
}

// The expected states, before parameters have values, from the shapes in to_come.
NamedTensors Trainer::Impl::states_to_come(const NamedTensors& given, const std::string& who,
                                           const ShapesToCome& to_come) const {
  expect_names_that_differ("states");
  NamedTensors all{{optimizer_key(*optimizer_), number(0)}};
  for (const size_t i : distinct_parameters()) {
    const Parameter& p = parameters_[i];
    const std::string name = name_in(given, i);
    if ((p.grad_req() == GradReq::null && !has(given, name + "/count")) ||
        has(all, name + "/count"))
      continue;
    std::vector<int64_t> shape;
    const auto come = std::ranges::find_if(to_come, [&](auto& each) { return each.first.is(p); });
    if (come == to_come.end() && !p.initialized())
      throw Error(who, ": parameter '", names_[i],
                  "' has no values yet; expected its network among the parts that are restored, or "
                  "a batch passed through it before");
    const Shape full = come == to_come.end() ? p.full_shape() : come->second;
    shape.assign(full.begin(), full.end());
    const Shard part = p.part();
    if (int64_t* const cut =
            name == names_[i] && part.of > 1 ? &shape[static_cast<size_t>(part.axis)] : nullptr)
      *cut = part_begin(*cut, part.of, part.index + 1) - part_begin(*cut, part.of, part.index);
    const Tensors states = optimizer_->create_state(zeros(Shape(shape), {cpu(), p.dtype()}));
    all.emplace_back(name + "/count", number(0));
    for (size_t k = 0; k < states.size(); ++k)
      all.emplace_back(name + "/" + optimizer_->state_name(p.dtype(), k), states[k]);
  }
  return all;
}

std::function<void()> Trainer::Impl::prepare_restore(NamedTensors given, const std::string& who,
                                                     const ShapesToCome& to_come, Caller from) {
  if (!std::ranges::all_of(parameters_, &Parameter::initialized)) {
    check_optimizer(given, who);
    expect_states(given, states_to_come(given, who, to_come), who, from);
  } else {
    prepare("Trainer::set_states", from);
    check(given, frozen_in(given), who, from);
  }
  return [this, given = std::move(given), who, from] { restore(given, who, from); };
}

void Trainer::Impl::restore(const NamedTensors& given, const std::string& who, Caller from) {
  prepare("Trainer::set_states", from);
  std::vector<Slot> frozen = frozen_in(given);
  const std::vector<const Tensor*> values = check(given, frozen, who, from);
  const auto count = [&](size_t i) { return values[i]->item<int64_t>(from); };
  const int64_t updates = count(0);
  std::map<const Slot*, int64_t> read;
  const autograd::Pause pause;
  size_t at = 1;
  for (const SavedState& k : kept(frozen, &given)) {
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
