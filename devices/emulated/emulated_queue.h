// The in-order queue of an emulated GPU's stream, and its events.
//
// Operations are copied into a ring of kCapacity entries and run one after another on the queue's
// thread, which the first operation starts. A producer blocks while the ring is full. No lock is
// held while an operation runs. Threads: any.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <vector>

#include <locus/core/base/mutex.h>
#include <locus/core/device.h>
#include <locus/core/op.h>
#include <locus/devices/emulated/emulated_pace.h>

namespace locus::emulated {

// Fires once. Shared by its creator and queue entries.
class Fence {
 public:
  bool done() const { return fired() && time_ <= Clock::now(); }
  // Blocks until it has fired. The work is done then; time() may be later.
  Clock::time_point wait_fired() const {
    fired_.wait(false, std::memory_order_acquire);
    return time_;
  }
  void wait() const { sleep_until(wait_fired()); }
  Clock::time_point time() const { return time_; }  // valid once fired
  void fire(Clock::time_point time) {
    time_ = time;
    fired_.store(true, std::memory_order_release);
    fired_.notify_all();
  }

 private:
  bool fired() const { return fired_.load(std::memory_order_acquire); }

  std::atomic<bool> fired_{false};
  Clock::time_point time_;
};
using EventRef = std::shared_ptr<Fence>;

// The first failure of asynchronous work on a device since one was thrown. As on CUDA, later
// failures are dropped: most have the same cause.
class FirstFault {
 public:
  void add(std::exception_ptr error);
  void rethrow();  // throws the failure, if any

 private:
  Mutex mutex_;
  std::exception_ptr error_ LOCUS_GUARDED_BY(mutex_);
};

class Queue {
 public:
  static constexpr size_t kCapacity = 4096;
  static constexpr size_t kStaged = size_t{64} << 10;  // bytes a copy may keep in its entry

  // `fault` outlives the queue.
  Queue(Context context, FirstFault& fault);
  StreamView view() const { return {context_, id_, const_cast<Queue*>(this)}; }

  void launch(Kernel kernel, const Call& call, const char* name);
  // With `staged`, src is read before copy returns; only for up to kStaged bytes.
  void copy(void* dst, Context to, const void* src, Context from, size_t bytes, bool staged);
  void record(EventRef event);
  void wait(EventRef event);

  void drain();  // blocks until everything enqueued so far has run, by the queue's clock too
  // Drains the queue and ends its thread. Until reopen(), events fire at once and other operations
  // throw DeviceError.
  void close();
  void reopen();

  enum class Kind : uint8_t { launch, copy, record, wait, stop };
  // Entries are reused, with their buffers.
  struct Operation {
    Kind kind = Kind::stop;
    Kernel kernel = nullptr;
    const char* name = nullptr;
    std::vector<View> views;  // inputs, then outputs
    int n_in = 0;
    Attrs attrs;
    void* dst = nullptr;
    const void* src = nullptr;
    Context to, from;
    size_t bytes = 0;
    std::vector<char> staging;
    EventRef event;
    Clock::time_point pushed;  // under a link model
  };

 private:
  void push(const auto& fill);
  void push_event(Kind kind, EventRef event);
  void start() LOCUS_REQUIRES(mutex_);
  void check_usable() const LOCUS_REQUIRES(mutex_);
  void wait_until_finished(uint64_t target, MutexLock& lock) LOCUS_REQUIRES(mutex_);
  void serve();
  void run(Operation& entry, Clock::time_point& now);

  const Context context_;
  const uint32_t id_;
  FirstFault& fault_;

  Mutex mutex_;
  std::condition_variable work_, space_, progress_;
  // null until the first operation, and when closed
  std::unique_ptr<Operation[]> ring_ LOCUS_GUARDED_BY(mutex_);
  uint64_t pushed_ LOCUS_GUARDED_BY(mutex_) = 0, finished_ LOCUS_GUARDED_BY(mutex_) = 0;
  Clock::time_point clock_ LOCUS_GUARDED_BY(mutex_);  // emulated_pace.h: after finished_
  int drainers_ LOCUS_GUARDED_BY(mutex_) = 0;
  bool asleep_ LOCUS_GUARDED_BY(mutex_) = false, closed_ LOCUS_GUARDED_BY(mutex_) = false;
  int process_ LOCUS_GUARDED_BY(mutex_) = 0;  // fork_count() when the thread started
};

}  // namespace locus::emulated
