#include <locus/core/observe/trace.h>

#include <array>
#include <chrono>
#include <utility>

#include <locus/core/base/mutex.h>
#include <locus/core/observe/ranges.h>

namespace locus::tracing {
namespace {

thread_local Scope* outermost = nullptr;
thread_local bool inside = false;  // a host_copy
struct Inside {
  Inside() { inside = true; }
  ~Inside() { inside = false; }
};

Caller current_caller() { return outermost ? outermost->caller() : Caller{}; }

std::atomic<Listener*> entered[2];
std::atomic<void (*)()> first_use{nullptr};

// f(listener) for each of `whom`.
void tell(unsigned whom, const auto& f) {
  for (const unsigned one : {kLog, kProfile})
    if (whom & one)
      if (Listener* l = entered[one - 1].load(std::memory_order_acquire)) f(*l);
}

}  // namespace

void start(unsigned which, Listener& listener) {
  entered[which - 1].store(&listener, std::memory_order_release);
  listeners.fetch_or(which, std::memory_order_release);
}
void stop(unsigned which) { listeners.fetch_and(~which, std::memory_order_relaxed); }
void on_first_use(void (*read_environment)()) { first_use = read_environment; }

unsigned listening() {
  if (listeners.load(std::memory_order_acquire) & kUnread) {
    static Mutex mutex;
    const MutexLock lock(mutex);
    if (listeners.load(std::memory_order_relaxed) & kUnread) {
      if (ranges_wanted()) listeners.fetch_or(kRanges, std::memory_order_relaxed);
      if (const auto read = first_use.load()) read();
      listeners.fetch_and(~kUnread, std::memory_order_relaxed);
    }
  }
  return listeners.load(std::memory_order_acquire) & (kLog | kProfile);
}

bool recorded_as_a_whole() { return inside; }

std::unique_lock<std::mutex> lock_stream(StreamView s) {
  static std::array<std::mutex, 64> mutexes;
  if (s.id == 0) return {};
  tell(kProfile, [&](Listener& l) { l.prepare(s.context); });
  return std::unique_lock(mutexes[s.id % mutexes.size()]);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Bracket::~Bracket() {
  for (const EventView& e : {begin_, end_})
    if (e.native) device_.release(e);
}

void Scope::open(TransferKind kind, Caller from) {
  if (!listening() || outermost) return;
  kind_ = kind;
  from_ = from;
  open_ = true;
  outermost = this;
}

void Scope::close() {
  report();
  outermost = nullptr;
}

void Scope::add_wait(Context waited_for, double seconds) {
  if (waited_ && !(context_ == waited_for)) report();
  waited_ = true;
  context_ = waited_for;
  seconds_ += seconds;
}

void Scope::report() {
  if (waited_)
    tell(listening() | kLog, [&](Listener& l) {
      l.call_waited({kind_, context_, bytes_, seconds_, 0, from_});
    });
  waited_ = false;
  seconds_ = 0;
  bytes_ = 0;
}

void Wait::open(Context c) {
  if (!listening()) return;
  open_ = true;
  context_ = c;
  start_ = now();
}

void Wait::close() {
  if (!outermost) return waited(TransferKind::op, context_, start_, {});
  const double end = now();
  outermost->add_wait(context_, end - start_);
  const WaitRecord wait{outermost->kind(), context_, 0, end - start_, end, outermost->caller()};
  tell(listening(), [&](Listener& l) { l.waited(wait); });
}

void waited(TransferKind kind, Context c, double start, Caller from) {
  const double end = now();
  const WaitRecord wait{kind, c, 0, end - start, end, from};
  tell(listening(), [&](Listener& l) {
    l.waited(wait);
    l.call_waited(wait);
  });
}

void traced_host_copy(Context from, Context to, size_t bytes, const std::function<void()>& copy) {
  if (!listening()) return copy();
  const Inside whole;
  const double start = now();
  copy();
  const CopyRecord record{from,  to,    bytes,  current_caller(), {to, 0, nullptr},
                          start, now(), nullptr};
  tell(listening(), [&](Listener& l) { l.copied(record); });
}

void traced_launch(Device& d, Kernel kernel, const Call& call, const char* name) {
  const unsigned whom = listening();
  const RangeScope range(listeners.load(std::memory_order_relaxed) & kRanges ? name : nullptr);
  if (whom & kProfile)
    tell(kProfile, [&](Listener& l) { l.launch(d, kernel, call, name); });
  else
    d.launch(kernel, call, name);
}

void traced_copy(Device& d, void* dst, Context to, const void* src, Context from, size_t bytes,
                 StreamView s) {
  const unsigned whom = listening();
  if (!whom) return d.copy(dst, to, src, from, bytes, s);
  CopyRecord copy{from, to, bytes, current_caller(), s, 0, 0, nullptr};
  {
    const auto lock = lock_stream(whom & kProfile ? s : StreamView{});
    copy.events = std::make_shared<Bracket>(d, s);
    copy.start = now();
    d.copy(dst, to, src, from, bytes, s);
    copy.end = now();
    copy.events->finish();
    if (!copy.events->timed()) copy.events = nullptr;
    tell(whom & kProfile, [&](Listener& l) { l.copied(copy); });
  }
  if (outermost) outermost->add_bytes(bytes);
  tell(whom & kLog, [&](Listener& l) { l.copied(copy); });
}

void Reads::open(Device& d, StreamView s, std::span<const Context> from,
                 std::vector<size_t> bytes) {
  if (!(listening() & kLog)) return;
  stream_ = s;
  from_.assign(from.begin(), from.end());
  bytes_ = std::move(bytes);
  events_ = std::make_shared<Bracket>(d, s);
  start_ = now();
}

void Reads::report() {
  events_->finish();
  for (size_t i = 0; i < from_.size(); ++i) {
    if (from_[i] == stream_.context || bytes_[i] == 0) continue;
    const CopyRecord record{
        from_[i], stream_.context, bytes_[i], current_caller(),
        stream_,  start_,          now(),     events_->timed() ? events_ : nullptr};
    if (outermost) outermost->add_bytes(bytes_[i]);
    tell(kLog, [&](Listener& l) { l.copied(record); });
  }
}

}  // namespace locus::tracing
