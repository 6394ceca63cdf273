// States of a KVStore's optimizer.
#include <locus/nn/kvstore.h>

#include <locus/core/autograd.h>
#include <locus/core/base/at_line.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/nn/train/state_check.h>
#include <locus/ops/create.h>

namespace locus::kvstore {

NamedTensors KVStore::optimizer_states() {
  if (!optimizer_)
    throw Error("KVStore: no states without an optimizer; expected set_optimizer() before");
  NamedTensors all{{"optimizer:" + optimizer_->name(), array({optimizer_->num_update()}, cpu())}};
  for (auto& [key, entry] : entries_) {
    prepare(entry);
    all.emplace_back(key.text() + "/count", array({*entry.group.count}, cpu()));
    for (size_t k = 0; k < entry.group.state.size(); ++k)
      all.emplace_back(key.text() + "/" + optimizer_->state_name(entry.value.dtype(), k),
                       entry.group.state[k][0]);
  }
  return all;
}

void KVStore::save_optimizer_states(const std::string& path, Caller from) try {
  const UserLine user_line(from);
  save(path, optimizer_states(), from);
} catch (const Error&) {
  rethrow_at(from);
}

void KVStore::load_optimizer_states(const std::string& path, Caller from) try {
  const UserLine user_line(from);
  restore(load(path, cpu(), from), "KVStore::load_optimizer_states: " + path, from);
} catch (const Error&) {
  rethrow_at(from);
}

void KVStore::set_optimizer_states(const NamedTensors& given, Caller from) try {
  const UserLine user_line(from);
  restore(given, "KVStore::set_optimizer_states", from);
} catch (const Error&) {
  rethrow_at(from);
}

void KVStore::restore(const NamedTensors& given, const std::string& who, Caller from) {
  nn::expect_states(given, optimizer_states(), who, from);
  const autograd::Pause pause;
  const auto number = [&](const std::string& key) {
    return find_in(given, key)->item<int64_t>(from);
  };
  for (const auto& [key, own] : optimizer_states())
    if (!key.starts_with("optimizer:") && !key.ends_with("/count"))
      find_in(given, key)->copyto(own, {}, from);
  for (auto& [key, entry] : entries_) *entry.group.count = number(key.text() + "/count");
  optimizer_->set_num_update(number("optimizer:" + optimizer_->name()));
}

}  // namespace locus::kvstore
