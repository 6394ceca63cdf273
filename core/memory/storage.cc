#include <locus/core/memory/storage.h>

#include <locus/core/error.h>
#include <locus/core/memory/arena.h>
#include <locus/core/memory/unload.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/observe/trace.h>

namespace locus {
namespace {

constexpr size_t kManyUses = 8;  // if more, finished uses are dropped

Timeline* timeline_of(StreamView s) { return s.id == 0 ? nullptr : &Timeline::of(s); }

// The device keeps errors of the work for its next synchronize().
void record_into(std::vector<EventView>& events, Timeline& line) {
  try {
    events.push_back(line.record());
  } catch (const Error&) {
  }
}

}  // namespace

Storage::Storage(Context context, size_t bytes, StreamView home, std::shared_ptr<Arena> owner)
    : bytes_(bytes),
      context_(context),
      owner_(std::move(owner)),
      pool_stream_(home),
      home_(timeline_of(home)),
      home_id_(home.id) {
  data_ =
      owner_ ? owner_->allocate(bytes, home) : device(context).allocator().allocate(bytes, home);
}

Storage::~Storage() {
  if (devices_unload.load(std::memory_order_relaxed)) [[unlikely]] {
    if (!owner_ && !memory_events::off())
      memory_events::tell({.kind = MemoryEventKind::freed,
                           .context = context_,
                           .stream = pool_stream_.id,
                           .bytes = bytes_,
                           .data = data_});
    return;
  }
  std::vector<EventView> pending = pending_uses();
  if (home_id_.load(std::memory_order_relaxed) != pool_stream_.id)
    record_into(pending, *home_.load());
  if (owner_) {
    owner_->release(data_, pending);
    return;
  }
  Allocator& allocator = device(context_).allocator();
  if (pending.empty())
    allocator.deallocate(data_, bytes_, pool_stream_);
  else
    allocator.deallocate_after(data_, bytes_, pool_stream_, pending);
}

void Storage::order(StreamView s, bool write) {
  const MutexLock lock(mutex_);
  const tracing::Wait traced(s.id == 0 && !tracing::off() ? busy_on() : std::nullopt);
  Timeline* const home = home_.load(std::memory_order_relaxed);
  const bool at_home = s.id == home_id_.load(std::memory_order_relaxed);
  // Reads at home leave no number, so a write waits for all work of the home stream.
  if (home && !at_home)
    home->wait(write ? home->now() : home_write_.load(std::memory_order_acquire), s);
  for (const Use& u : uses_)
    if (u.line->stream.id != s.id && (write || u.write)) u.line->wait(u.at, s);
  if (at_home && write) {
    // The home stream now runs after all uses, and later work waits for it, even if the write is
    // refused and leaves no number.
    if (home) home_write_.store(home->advance(), std::memory_order_release);
    uses_.clear();
    foreign_.store(false, std::memory_order_release);
  } else if (uses_.size() > kManyUses) {
    drop_finished();
  }
  if (to_compute_ && uses_.empty() && !at_home && s.context == context_ &&
      s.id == device(context_).stream(Lane::compute).id)
    move_home(Timeline::of(s));
}

// `to` waits for the old home's writes already. The new number comes after that wait, so it covers
// these writes.
void Storage::move_home(Timeline& to) {
  to_compute_ = false;
  home_write_.store(to.advance(), std::memory_order_release);
  home_.store(&to, std::memory_order_release);
  home_id_.store(to.stream.id, std::memory_order_release);
}

StreamView Storage::home() {
  const MutexLock lock(mutex_);
  const Timeline* const home = home_.load(std::memory_order_relaxed);
  return home ? home->stream : pool_stream_;
}

void Storage::hand_over() {
  if (pool_stream_.id == 0) return;
  const MutexLock lock(mutex_);
  to_compute_ = true;
}

void Storage::leave_home(StreamView to) {
  const MutexLock lock(mutex_);
  move_home(Timeline::of(to));
}

void Storage::mark(StreamView s, bool write) {
  if (s.id == 0) return;  // the host's work is done already
  Timeline& line = Timeline::of(s);
  const MutexLock lock(mutex_);
  const uint64_t at = line.advance();
  line.expect_waiters();
  foreign_.store(true, std::memory_order_release);
  if (write) {
    // The write's number covers uses that the write waited for.
    std::erase_if(uses_, [&](const Use& u) {
      return u.line == &line ? !u.write : u.line->precedes(u.at, s.id);
    });
  }
  for (Use& u : uses_) {
    if (u.line != &line || u.write != write) continue;
    u.at = at;
    return;
  }
  uses_.push_back({&line, at, write});
}

void Storage::drop_finished() {
  std::erase_if(uses_, [](const Use& u) { return u.line->done(u.at); });
  if (uses_.empty()) foreign_.store(false, std::memory_order_release);
}

std::optional<Context> Storage::busy_on() const {
  for (const Use& u : uses_)
    if (!u.line->done(u.at)) return u.line->stream.context;
  return std::nullopt;
}

// Events to wait for before the memory is reused, without uses that the home stream waited for.
std::vector<EventView> Storage::pending_uses() {
  std::vector<EventView> pending;
  for (const Use& u : uses_)
    if (!u.line->precedes(u.at, home_id_.load(std::memory_order_relaxed)))
      record_into(pending, *u.line);
  return pending;
}

void Storage::wait_host() {
  tell_read();
  const StreamView at = home();
  if (at.id != 0) {
    const tracing::Wait wait(at.context);
    Timeline& line = Timeline::of(at);
    line.check_not_capturing();
    const uint64_t done = line.now();
    device(at.context).synchronize(at);
    line.finished(done);
  }
  if (!foreign_.load(std::memory_order_acquire)) return;
  const MutexLock lock(mutex_);
  const tracing::Wait wait(tracing::off() ? std::nullopt : busy_on());
  for (const Use& u : uses_)
    if (u.write) u.line->wait(u.at, StreamView{});
  drop_finished();
}

}  // namespace locus
