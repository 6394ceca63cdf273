// Timeline: order between streams, with few events. Internal to core.
//
// A Timeline numbers the work of one stream as it is enqueued. A number costs no device call and
// owns nothing, so each Storage keeps the numbers of its uses. If another stream must wait for a
// number that no event covers, the Timeline records an event. The event covers all numbers so far.
// A stream that has waited for the event never waits for these numbers again.
//
// An event recorded late also covers work enqueued meanwhile. After expect_waiters(), the event is
// therefore recorded just before other work. Only small copies may come first: an event for each
// would cost as much as the copy.
//
// Threads: any. Timelines live until the process ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include <locus/core/base/mutex.h>
#include <locus/core/device.h>

namespace locus {

class Timeline {
 public:
  // Of a device's stream, not of the host (id 0).
  static Timeline& of(StreamView s);

  const StreamView stream;

  // The number of the work just enqueued. Later numbers are greater.
  uint64_t advance() { return count_.fetch_add(1, std::memory_order_acq_rel) + 1; }
  // The number of the work enqueued last.
  uint64_t now() const { return count_.load(std::memory_order_acquire); }

  // Another stream, or the host, is likely to wait for the work enqueued so far.
  void expect_waiters() { expected_.store(true, std::memory_order_release); }
  // Call before enqueuing a kernel, or a copy of `bytes`.
  void before_launch() {
    if (expected_.load(std::memory_order_acquire)) [[unlikely]]
      settle();
  }
  void before_copy(size_t bytes);

  // Later work on `s` runs after work number `at`. A host stream (id 0) blocks the host. Throws
  // DeviceError if the device has failed.
  void wait(uint64_t at, StreamView s);
  // Whether wait() has nothing to do.
  bool precedes(uint64_t at, uint32_t stream_id);
  bool done(uint64_t at);
  // The caller waited for work number `at` by other means.
  void finished(uint64_t at);
  // A new event after all work so far. The caller releases it.
  EventView record();

  // While a Capture records (capture.h), waiting for the stream throws CaptureError.
  void set_capturing(bool on) { capturing_.store(on, std::memory_order_release); }
  void check_not_capturing() const;

 private:
  struct Recorded {
    uint64_t at;
    EventView event;
    int users = 0;  // host threads that wait for it
  };

  explicit Timeline(StreamView s) : stream(s) {}
  void settle();
  Recorded& event_for(uint64_t at) LOCUS_REQUIRES(mutex_);
  Recorded& record_now() LOCUS_REQUIRES(mutex_);
  void trim() LOCUS_REQUIRES(mutex_);
  uint64_t& waited(uint32_t stream_id) LOCUS_REQUIRES(mutex_);

  std::atomic<uint64_t> count_{0};
  std::atomic<bool> expected_{false}, capturing_{false};
  std::atomic<size_t> blur_{0};    // cost of copies since waiters were expected, in bytes
  std::atomic<uint64_t> done_{0};  // work up to here is known to be done
  Mutex mutex_;
  std::deque<Recorded> recorded_ LOCUS_GUARDED_BY(mutex_);  // ascending, references stay valid
  size_t trim_at_ LOCUS_GUARDED_BY(mutex_) = 0;  // number of events from which trim() runs
  // Stream id, and the number that it waited for.
  std::vector<std::pair<uint32_t, uint64_t>> waited_ LOCUS_GUARDED_BY(mutex_);
};

}  // namespace locus
