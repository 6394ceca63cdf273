// A mutex, with annotations of what it guards. clang checks them (-Wthread-safety, in .ci/run);
// other compilers ignore them.
//
//   Mutex mutex_;
//   std::vector<int> waiting_ LOCUS_GUARDED_BY(mutex_);
//   void add_locked() LOCUS_REQUIRES(mutex_);  // the caller holds it
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <locus/core/noncopyable.h>

#ifdef __clang__
#define LOCUS_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define LOCUS_THREAD_SAFETY(attribute)
#endif
#define LOCUS_GUARDED_BY(mutex) LOCUS_THREAD_SAFETY(guarded_by(mutex))
#define LOCUS_REQUIRES(mutex) LOCUS_THREAD_SAFETY(requires_capability(mutex))

namespace locus {

// A function that requires it may unlock it for a while: mutex_.unlock(); ...; mutex_.lock().
class LOCUS_THREAD_SAFETY(capability("mutex")) Mutex {
 public:
  void lock() LOCUS_THREAD_SAFETY(acquire_capability()) { mutex_.lock(); }
  void unlock() LOCUS_THREAD_SAFETY(release_capability()) { mutex_.unlock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

class LOCUS_THREAD_SAFETY(scoped_lockable) MutexLock : NonCopyable {
 public:
  explicit MutexLock(Mutex& m) LOCUS_THREAD_SAFETY(acquire_capability(m)) : lock_(m.mutex_) {}
  ~MutexLock() LOCUS_THREAD_SAFETY(release_capability()) {}

  void unlock() LOCUS_THREAD_SAFETY(release_capability()) { lock_.unlock(); }  // early
  // Unlocks the mutex until the condition is notified, or spuriously: wait in a loop.
  void wait(std::condition_variable& condition) { condition.wait(lock_); }

 private:
  std::unique_lock<std::mutex> lock_;
};

// A mutex that is held for tens of nanoseconds, and never across a call that may block.
class LOCUS_THREAD_SAFETY(capability("mutex")) SpinMutex {
 public:
  void lock() LOCUS_THREAD_SAFETY(acquire_capability()) {
    int spins = 0;
    while (locked_.exchange(true, std::memory_order_acquire)) {
      // The holder may have lost its CPU.
      while (locked_.load(std::memory_order_relaxed))
        if (++spins > 100) std::this_thread::yield();
    }
  }
  void unlock() LOCUS_THREAD_SAFETY(release_capability()) {
    locked_.store(false, std::memory_order_release);
  }

 private:
  std::atomic<bool> locked_{false};
};

class LOCUS_THREAD_SAFETY(scoped_lockable) SpinLock : NonCopyable {
 public:
  explicit SpinLock(SpinMutex& m) LOCUS_THREAD_SAFETY(acquire_capability(m)) : mutex_(m) {
    m.lock();
  }
  ~SpinLock() LOCUS_THREAD_SAFETY(release_capability()) { mutex_.unlock(); }

 private:
  SpinMutex& mutex_;
};

}  // namespace locus
