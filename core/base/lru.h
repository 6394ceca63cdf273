// A table of a stated size, for what can be made again: it keeps what was used last.
// Not for several threads at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <utility>

#include <locus/core/noncopyable.h>

namespace locus {

template <class Key, class Value, class Hash>
class Lru : NonCopyable {
 public:
  explicit Lru(size_t most) : most_(most) {}

  // Null: it is not there. Another key's put() ends the value.
  Value* find(const Key& key) {
    const auto it = at_.find(key);
    if (it == at_.end()) return nullptr;
    order_.splice(order_.begin(), order_, it->second);
    return &it->second->second;
  }
  // In place of what the key had. Gives that, or else the value that there is no room for now; a
  // Value{} when there is neither.
  Value put(const Key& key, Value value) {
    if (Value* const old = find(key)) return std::exchange(*old, std::move(value));
    order_.emplace_front(key, std::move(value));
    at_.emplace(key, order_.begin());
    if (at_.size() <= most_) return {};
    Value dropped = std::move(order_.back().second);
    at_.erase(order_.back().first);
    order_.pop_back();
    return dropped;
  }
  void clear() {
    at_.clear();
    order_.clear();
  }
  size_t size() const { return at_.size(); }

 private:
  using Order = std::list<std::pair<Key, Value>>;  // the one used last first
  const size_t most_;
  Order order_;
  std::unordered_map<Key, typename Order::iterator, Hash> at_;
};

// Of keys that are numbers.
struct HashNumbers {
  template <size_t N>
  size_t operator()(const std::array<int64_t, N>& numbers) const {
    uint64_t h = 14695981039346656037u;  // FNV-1a, by words
    for (const int64_t n : numbers) h = (h ^ static_cast<uint64_t>(n)) * 1099511628211u;
    return static_cast<size_t>(h ^ h >> 32);
  }
};

}  // namespace locus
