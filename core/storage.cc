#include <locus/core/storage.h>

#include <algorithm>

#include <locus/core/trace.h>

namespace locus {

Storage::Storage(Context context, size_t bytes, StreamView home)
    : bytes_(bytes), context_(context), home_(home) {
  data_ = device(context).allocator().allocate(bytes, home);
}

Storage::Storage(Context context, void* data, size_t bytes, void (*release)(void*), void* owner)
    : data_(data),
      bytes_(bytes),
      context_(context),
      home_(device(context).stream(Lane::compute)),
      release_(release),
      owner_(owner) {}

Storage::~Storage() {
  if (home_event_.native) device(home_.context).release(home_event_);
  if (release_) {
    for (const Use& u : uses_) {
      device(u.event.context).wait_host(u.event);
      device(u.event.context).release(u.event);
    }
    release_(owner_);
    return;
  }
  Allocator& allocator = device(context_).allocator();
  if (uses_.empty()) {
    allocator.deallocate(data_, bytes_, home_);
    return;
  }
  std::vector<EventView> pending;
  for (const Use& u : uses_) pending.push_back(u.event);
  allocator.deallocate_after(data_, bytes_, home_, pending);
}

// The home stream's work so far, waited for at most once a stream and version: a tensor that
// another stream reads many times costs one event.
void Storage::wait_for_home(StreamView s) {
  if (home_.id == 0 || home_.id == s.id) return;
  const uint64_t now = version();
  if (home_event_.native && home_event_version_ != now) {
    device(home_.context).release(home_event_);
    home_event_ = {};
  }
  if (!home_event_.native) {
    home_event_ = device(home_.context).record(home_);
    home_event_version_ = now;
    waited_.clear();
  }
  if (std::find(waited_.begin(), waited_.end(), s.id) != waited_.end()) return;
  if (s.id == 0) {
    device(home_.context).wait_host(home_event_);
  } else {
    device(s.context).wait(s, home_event_);
  }
  waited_.push_back(s.id);
}

void Storage::order(StreamView s, bool write) {
  std::lock_guard lock(mutex_);
  const trace::Wait wait(s.id == 0 && !trace::off() ? busy_on() : std::nullopt);
  // A write must also wait for reads on the home stream, which no version counts.
  if (write && home_event_.native && home_.id != s.id) {
    device(home_.context).release(home_event_);
    home_event_ = {};
  }
  wait_for_home(s);
  for (const Use& u : uses_) {
    if (u.stream == s.id || !(write || u.write)) continue;
    if (s.id == 0) {
      device(u.event.context).wait_host(u.event);
    } else {
      device(s.context).wait(s, u.event);
    }
  }
  drop_finished();
}

void Storage::order_read(StreamView s) { order(s, false); }
void Storage::order_write(StreamView s) { order(s, true); }

void Storage::mark(StreamView s, bool write) {
  if (s.id == 0) return;  // the host's work is done already
  const EventView event = device(s.context).record(s);
  std::lock_guard lock(mutex_);
  foreign_.store(true, std::memory_order_release);
  for (Use& u : uses_) {
    if (u.stream != s.id || u.write != write) continue;
    device(u.event.context).release(u.event);
    u.event = event;
    return;
  }
  uses_.push_back({s.id, write, event});
}

void Storage::drop_finished() {
  std::erase_if(uses_, [](const Use& u) {
    Device& d = device(u.event.context);
    if (!d.done(u.event)) return false;
    d.release(u.event);
    return true;
  });
  if (uses_.empty()) foreign_.store(false, std::memory_order_release);
}

std::optional<Context> Storage::busy_on() const {
  for (const Use& u : uses_)
    if (!device(u.event.context).done(u.event)) return u.event.context;
  return std::nullopt;
}

void Storage::wait_host(bool for_write) {
  if (home_.id != 0) {
    const trace::Wait wait(home_.context);
    device(home_.context).synchronize(home_);
  }
  if (!foreign_.load(std::memory_order_acquire)) return;
  std::lock_guard lock(mutex_);
  const trace::Wait wait(trace::off() ? std::nullopt : busy_on());
  for (const Use& u : uses_)
    if (for_write || u.write) device(u.event.context).wait_host(u.event);
  drop_finished();
}

}  // namespace locus
