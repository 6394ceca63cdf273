#include <locus/core/memory/timeline.h>

#include <algorithm>
#include <string>

#include <locus/core/base/id_table.h>
#include <locus/core/error.h>

namespace locus {
namespace {

// A copy costs its bytes and kCopyCost. 16 copies of 4 KiB share an event.
constexpr size_t kCopyCost = size_t{4} << 10, kBlur = size_t{128} << 10;
constexpr size_t kTrim = 64;     // events kept without trim()
constexpr size_t kWaiters = 64;  // streams remembered; if more, some wait again

IdTable<Timeline> table;

}  // namespace

Timeline& Timeline::of(StreamView s) {
  LOCUS_CHECK(s.id > 0 && s.id < IdTable<Timeline>::kCapacity, "no timeline for stream ", s.id,
              " of ", s.context);
  return table.find_or_enter(s.id, [&] { return new Timeline(s); });
}

void Timeline::before_copy(size_t bytes) {
  if (!expected_.load(std::memory_order_acquire)) return;
  const size_t cost = bytes + kCopyCost;
  if (blur_.fetch_add(cost, std::memory_order_relaxed) + cost > kBlur) settle();
}

void Timeline::check_not_capturing() const {
  if (capturing_.load(std::memory_order_acquire))
    throw CaptureError("a tensor of ", stream.context,
                       " was made by work that is being recorded, and has no values yet; use it "
                       "elsewhere after Capture::end() and a replay()");
}

EventView Timeline::record() {
  check_not_capturing();
  return device(stream.context).record(stream);
}

void Timeline::settle() {
  if (capturing_.load(std::memory_order_acquire)) return;
  const MutexLock lock(mutex_);
  if (recorded_.empty() || recorded_.back().at != now())
    record_now();
  else
    expected_.store(false, std::memory_order_release);
}

Timeline::Recorded& Timeline::record_now() {
  if (recorded_.size() >= std::max(kTrim, trim_at_)) trim();
  expected_.store(false, std::memory_order_release);
  blur_.store(0, std::memory_order_relaxed);
  // Read first: the event need not cover what another thread enqueues meanwhile.
  const uint64_t at = now();
  recorded_.push_back({at, record()});
  return recorded_.back();
}

Timeline::Recorded& Timeline::event_for(uint64_t at) {
  const auto found = std::lower_bound(recorded_.begin(), recorded_.end(), at,
                                      [](const Recorded& r, uint64_t n) { return r.at < n; });
  return found == recorded_.end() ? record_now() : *found;
}

// Querying an event takes a microsecond, so one query covers the older half.
void Timeline::trim() {
  const size_t half = recorded_.size() / 2;
  Device& d = device(stream.context);
  if (d.done(recorded_[half].event)) {
    finished(recorded_[half].at);
    for (size_t i = 0; i <= half && recorded_.front().users == 0; ++i) {
      d.release(recorded_.front().event);
      recorded_.pop_front();
    }
  }
  trim_at_ = 2 * recorded_.size();
}

uint64_t& Timeline::waited(uint32_t stream_id) {
  for (auto& [id, at] : waited_)
    if (id == stream_id) return at;
  if (waited_.size() >= kWaiters) waited_.clear();
  return waited_.emplace_back(stream_id, 0).second;
}

void Timeline::wait(uint64_t at, StreamView s) {
  if (at <= done_.load(std::memory_order_acquire)) return;
  const MutexLock lock(mutex_);
  if (s.id != 0) {
    uint64_t& behind = waited(s.id);
    if (at <= behind) return;
    const Recorded& r = event_for(at);
    device(s.context).wait(s, r.event);
    behind = r.at;
    return;
  }
  Recorded& r = event_for(at);
  ++r.users;  // keeps r while unlocked
  mutex_.unlock();
  FirstFailure failure;
  failure.run([&] { device(stream.context).wait_host(r.event); });
  mutex_.lock();
  --r.users;
  failure.rethrow();
  finished(r.at);
}

bool Timeline::precedes(uint64_t at, uint32_t stream_id) {
  if (at <= done_.load(std::memory_order_acquire)) return true;
  if (stream_id == 0) return false;
  const MutexLock lock(mutex_);
  return at <= waited(stream_id);
}

bool Timeline::done(uint64_t at) {
  if (at <= done_.load(std::memory_order_acquire)) return true;
  const MutexLock lock(mutex_);
  const Recorded& r = event_for(at);
  if (!device(stream.context).done(r.event)) return false;
  finished(r.at);
  return true;
}

void Timeline::finished(uint64_t at) {
  uint64_t known = done_.load(std::memory_order_relaxed);
  while (known < at && !done_.compare_exchange_weak(known, at, std::memory_order_release,
                                                    std::memory_order_relaxed)) {
  }
}

}  // namespace locus
