// Unused objects of a device (streams, events, buffers), kept for reuse. Threads: any.
#pragma once

#include <vector>

#include <locus/core/base/mutex.h>

namespace locus {

template <class Pointer>
class Spares {
 public:
  void put(Pointer spare) {
    const MutexLock lock(mutex_);
    list_.push_back(spare);
  }
  // The one put last; null if there is none.
  Pointer take() {
    const MutexLock lock(mutex_);
    if (list_.empty()) return nullptr;
    const Pointer last = list_.back();
    list_.pop_back();
    return last;
  }

 private:
  Mutex mutex_;
  std::vector<Pointer> list_ LOCUS_GUARDED_BY(mutex_);
};

}  // namespace locus
