#include <locus/core/storage.h>

#include <algorithm>

#include <locus/core/error.h>
#include <locus/core/trace.h>

namespace locus {
namespace {

constexpr size_t kManyUses = 8;  // beyond it, finished ones are looked for

}  // namespace

Storage::Storage(Context context, size_t bytes, StreamView home)
    : bytes_(bytes), context_(context), arena_(home), home_(home), home_id_(home.id) {
  data_ = device(context).allocator().allocate(bytes, home);
}

Storage::Storage(Context context, void* data, size_t bytes, void (*release)(void*), void* owner)
    : data_(data),
      bytes_(bytes),
      context_(context),
      arena_(device(context).stream(Lane::compute)),
      home_(arena_),
      home_id_(arena_.id),
      release_(release),
      owner_(owner) {}

Storage::~Storage() {
  forget(home_fence_);
  std::vector<EventView> pending = pending_uses();
  if (!release_) {
    if (home_.id != arena_.id) {
      try {
        pending.push_back(device(home_.context).record(home_));
      } catch (const Error&) {  // the stream is closed, and its work done
      }
    }
    Allocator& allocator = device(context_).allocator();
    if (pending.empty()) {
      allocator.deallocate(data_, bytes_, arena_);
    } else {
      allocator.deallocate_after(data_, bytes_, arena_, pending);
    }
    return;
  }
  // The lender may do anything with its memory, so nothing may be queued on it, home's work
  // included. Errors of that work stay with the device: its next synchronize reports them.
  const auto finish = [](EventView e) {
    try {
      device(e.context).wait_host(e);
    } catch (const Error&) {
    }
    device(e.context).release(e);
  };
  for (const EventView& e : pending) finish(e);
  if (home_.id != 0) {
    try {
      finish(device(home_.context).record(home_));
    } catch (const Error&) {
    }
  }
  release_(owner_);
}

bool Storage::waits(const Fence& f, uint32_t stream) {
  return std::find(f.waiters.begin(), f.waiters.end(), stream) != f.waiters.end();
}

void Storage::wait(Fence& f, StreamView s) {
  if (waits(f, s.id)) return;
  if (s.id == 0) {
    device(f.event.context).wait_host(f.event);
  } else {
    device(s.context).wait(s, f.event);
  }
  f.waiters.push_back(s.id);
}

void Storage::forget(Fence& f) {
  if (f.event.native) device(f.event.context).release(f.event);
  f.event = {};
  f.waiters.clear();
}

void Storage::order(StreamView s, bool write) {
  std::lock_guard lock(mutex_);
  const trace::Wait traced(s.id == 0 && !trace::off() ? busy_on() : std::nullopt);
  const bool at_home = s.id == home_.id;
  if (!at_home && home_.id != 0) {
    const uint64_t now = home_writes_.load(std::memory_order_acquire);
    // Reads at home are not counted, and a write must wait for them: it needs a new event. A read
    // shares the last one, so that a tensor read many times elsewhere costs one event.
    if (write || home_fence_at_ != now) forget(home_fence_);
    if (!home_fence_.event.native) {
      home_fence_.event = device(home_.context).record(home_);
      home_fence_at_ = now;
    }
    wait(home_fence_, s);
  }
  for (Use& u : uses_)
    if (u.stream != s.id && (write || u.write)) wait(u.fence, s);
  if (at_home && write) {
    // Whatever comes later is ordered behind the home stream, which is behind them all.
    for (Use& u : uses_) forget(u.fence);
    uses_.clear();
    forget(home_fence_);
    foreign_.store(false, std::memory_order_release);
  } else if (uses_.size() > kManyUses) {
    drop_finished();
  }
  if (to_compute_ && uses_.empty() && s.context == context_ && !at_home &&
      s.id == device(context_).stream(Lane::compute).id)
    move_home(s);
}

// s waits for all of the old home's work by now.
void Storage::move_home(StreamView s) {
  to_compute_ = false;
  forget(home_fence_);
  home_ = s;
  home_id_.store(s.id, std::memory_order_release);
}

StreamView Storage::home() {
  std::lock_guard lock(mutex_);
  return home_;
}

void Storage::order_read(StreamView s) { order(s, false); }
void Storage::order_write(StreamView s) { order(s, true); }

void Storage::hand_over() {
  if (arena_.id == 0) return;
  std::lock_guard lock(mutex_);
  forget(home_fence_);
  home_fence_.event = device(home_.context).record(home_);
  home_fence_at_ = home_writes_.load(std::memory_order_acquire);
  to_compute_ = true;
}

void Storage::mark(StreamView s, bool write) {
  if (s.id == 0) return;  // the host's work is done already
  // Recorded under the lock: of two threads that use one stream, the later event must stay.
  std::lock_guard lock(mutex_);
  const EventView event = device(s.context).record(s);
  foreign_.store(true, std::memory_order_release);
  if (write) {
    // This event stands for all that the write waited for.
    std::erase_if(uses_, [&](Use& u) {
      const bool covered = waits(u.fence, s.id) || (u.stream == s.id && !u.write);
      if (covered) forget(u.fence);
      return covered;
    });
  }
  for (Use& u : uses_) {
    if (u.stream != s.id || u.write != write) continue;
    forget(u.fence);
    u.fence.event = event;
    return;
  }
  uses_.push_back({s.id, write, {event, {}}});
}

void Storage::drop_finished() {
  std::erase_if(uses_, [](Use& u) {
    if (!device(u.fence.event.context).done(u.fence.event)) return false;
    forget(u.fence);
    return true;
  });
  if (uses_.empty()) foreign_.store(false, std::memory_order_release);
}

std::optional<Context> Storage::busy_on() const {
  for (const Use& u : uses_) {
    const EventView& e = u.fence.event;
    if (!device(e.context).done(e)) return e.context;
  }
  return std::nullopt;
}

// The events that whoever reuses the memory must wait for: not those the home stream waits for.
std::vector<EventView> Storage::pending_uses() {
  std::vector<EventView> pending;
  for (Use& u : uses_) {
    if (waits(u.fence, home_.id)) {
      forget(u.fence);
    } else {
      pending.push_back(u.fence.event);
    }
  }
  return pending;
}

void Storage::wait_host(bool for_write) {
  if (const StreamView at = home(); at.id != 0) {
    const trace::Wait wait(at.context);
    device(at.context).synchronize(at);
  }
  if (!foreign_.load(std::memory_order_acquire)) return;
  std::lock_guard lock(mutex_);
  const trace::Wait wait(trace::off() ? std::nullopt : busy_on());
  for (const Use& u : uses_)
    if (for_write || u.write) device(u.fence.event.context).wait_host(u.fence.event);
  drop_finished();
}

}  // namespace locus
