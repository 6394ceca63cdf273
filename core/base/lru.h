// A cache that drops the least recently used entry. One thread at a time may use it.
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

  // Null if absent. Valid until a put() of another key.
  Value* find(const Key& key) {
    const auto it = at_.find(key);
    if (it == at_.end()) return nullptr;
    order_.splice(order_.begin(), order_, it->second);
    return &it->second->second;
  }
  // Sets the key's value. Returns the old value, or the value dropped from a full cache, or
  // Value{}.
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
  using Order = std::list<std::pair<Key, Value>>;  // most recently used first
  const size_t most_;
  Order order_;
  std::unordered_map<Key, typename Order::iterator, Hash> at_;
};

// For keys of numbers.
struct HashNumbers {
  template <size_t N>
  size_t operator()(const std::array<int64_t, N>& numbers) const {
    uint64_t h = 14695981039346656037u;  // FNV-1a, by words
    for (const int64_t n : numbers) h = (h ^ static_cast<uint64_t>(n)) * 1099511628211u;
    return static_cast<size_t>(h ^ h >> 32);
  }
};

}  // namespace locus
