// A map whose values are made at first use, once, also if several threads ask for one. Internal.
#pragma once

#include <exception>
#include <functional>
#include <future>
#include <unordered_map>
#include <utility>

#include <locus/core/base/mutex.h>
#include <locus/core/noncopyable.h>

namespace locus {

template <class Key, class Value>
class Once : NonCopyable {
 public:
  // The value of the key. If there is none, calls make() without a lock; other threads that ask for
  // the key wait. If make() throws, all of them get the exception, and the next call makes again.
  // make() may use other keys, not this one.
  Value get(const Key& key, const std::function<Value()>& make) {
    std::promise<Value> promise;
    std::shared_future<Value> value;
    {
      const MutexLock lock(mutex_);
      if (const auto found = values_.find(key); found != values_.end())
        value = found->second;
      else
        values_.emplace(key, promise.get_future().share());
    }
    if (value.valid()) return value.get();
    try {
      Value made = make();
      promise.set_value(made);
      return made;
    } catch (...) {
      forget(key);
      promise.set_exception(std::current_exception());
      throw;
    }
  }

  // The next get() of the key makes its value again.
  void forget(const Key& key) {
    const MutexLock lock(mutex_);
    values_.erase(key);
  }

 private:
  Mutex mutex_;
  std::unordered_map<Key, std::shared_future<Value>> values_ LOCUS_GUARDED_BY(mutex_);
};

}  // namespace locus
