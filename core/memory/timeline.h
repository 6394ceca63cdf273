// The order between streams: who must wait for whom, and how little that may cost. Internal to
// core.
//
// A Timeline numbers the work of one stream as it is enqueued. A number costs no call of the device
// and owns nothing, so that memory simply remembers the numbers of its uses. An event is recorded
// when another stream has to wait for a number and none was recorded since; all numbers up to it
// share it, and a stream that has waited for it never waits for them again.
//
// An event recorded late also covers what was enqueued meanwhile. Where a wait is expected
// (expect_waiters), the event is therefore recorded just before other work follows. Only small
// copies may slip in between: an event for each would cost as much as they do.
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

  // The number of work that was just enqueued: later ones are greater.
  uint64_t advance() { return count_.fetch_add(1, std::memory_order_acq_rel) + 1; }
  // The number of the work enqueued last.
  uint64_t now() const { return count_.load(std::memory_order_acquire); }

  // Another stream, or the host, is likely to wait for the work enqueued so far.
  void expect_waiters() { expected_.store(true, std::memory_order_release); }
  // Call before enqueuing a kernel, or a copy of so many bytes.
  void before_launch() {
    if (expected_.load(std::memory_order_acquire)) [[unlikely]]
      settle();
  }
  void before_copy(size_t bytes);

  // Whatever is enqueued on `s` from now on runs after work number `at`. A host stream (id 0)
  // blocks the host. Throws DeviceError when the device has failed.
  void wait(uint64_t at, StreamView s);
  // Whether that holds already.
  bool precedes(uint64_t at, uint32_t stream_id);
  bool done(uint64_t at);
  // The caller waited for work number `at` by other means.
  void finished(uint64_t at);
  // A new event after all work so far, the caller's to release.
  EventView record();

  // While the stream's work is recorded (capture.h), nobody can wait for it: CaptureError.
  void set_capturing(bool on) { capturing_.store(on, std::memory_order_release); }
  void check_not_capturing() const;

 private:
  struct Recorded {
    uint64_t at;
    EventView event;
    int users = 0;  // threads of the host that wait for it
  };

  explicit Timeline(StreamView s) : stream(s) {}
  void settle();
  Recorded& event_for(uint64_t at) LOCUS_REQUIRES(mutex_);
  Recorded& record_now() LOCUS_REQUIRES(mutex_);
  void trim() LOCUS_REQUIRES(mutex_);
  uint64_t& waited(uint32_t stream_id) LOCUS_REQUIRES(mutex_);

  std::atomic<uint64_t> count_{0};
  std::atomic<bool> expected_{false}, capturing_{false};
  std::atomic<size_t> blur_{0};    // what was enqueued since somebody was expected, in bytes
  std::atomic<uint64_t> done_{0};  // work up to here is known to be done
  Mutex mutex_;
  std::deque<Recorded> recorded_ LOCUS_GUARDED_BY(mutex_);  // ascending, references stay valid
  size_t trim_at_ LOCUS_GUARDED_BY(mutex_) = 0;  // so many events make it look for finished ones
  // Stream id, the work it runs after.
  std::vector<std::pair<uint32_t, uint64_t>> waited_ LOCUS_GUARDED_BY(mutex_);
};

}  // namespace locus
