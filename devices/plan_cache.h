// What a library worked out for a problem (an algorithm, a descriptor), kept for the next time the
// same problem comes. Bounded: the plan used longest ago goes. Threads: any.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <utility>

#include <locus/core/mutex.h>

namespace locus {

// Key: a value with <, which says all that the plan depends on, the device and precision included.
template <class Key, class Plan>
class PlanCache {
 public:
  explicit PlanCache(size_t capacity) : capacity_(capacity) {}

  // The plan for `key`, from make() when there is none. make() runs without the lock; when two
  // threads made one each, both get the first.
  std::shared_ptr<const Plan> get(const Key& key, auto&& make) {
    if (auto plan = find(key)) return plan;
    auto made = std::make_shared<const Plan>(make());
    const MutexLock lock(mutex_);
    const auto [entry, fresh] = plans_.try_emplace(key);
    if (!fresh) return entry->second.plan;
    entry->second = {std::move(made), used_.insert(used_.begin(), entry)};
    const auto result = entry->second.plan;
    if (plans_.size() > capacity_) {
      plans_.erase(used_.back());
      used_.pop_back();
    }
    return result;
  }

 private:
  struct Entry;
  using Plans = std::map<Key, Entry>;
  struct Entry {
    std::shared_ptr<const Plan> plan;
    typename std::list<typename Plans::iterator>::iterator place;
  };

  std::shared_ptr<const Plan> find(const Key& key) {
    const MutexLock lock(mutex_);
    const auto entry = plans_.find(key);
    if (entry == plans_.end()) return nullptr;
    used_.splice(used_.begin(), used_, entry->second.place);
    return entry->second.plan;
  }

  const size_t capacity_;
  Mutex mutex_;
  Plans plans_ LOCUS_GUARDED_BY(mutex_);
  std::list<typename Plans::iterator> used_ LOCUS_GUARDED_BY(mutex_);  // the latest first
};

}  // namespace locus
