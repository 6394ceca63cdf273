#include <locus/core/trace.h>

#include <chrono>
#include <mutex>

#include <locus/core/profiler_record.h>

namespace locus::trace {
namespace {

thread_local Scope* outermost = nullptr;

Caller current_caller() { return outermost ? outermost->caller() : Caller{}; }

}  // namespace

unsigned listening() {
  const unsigned now = listeners.load(std::memory_order_relaxed);
  return now & kUnread ? read_environment() : now;
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
  if (waited_) log_wait(kind_, context_, bytes_, seconds_, from_);
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
  const double end = now();
  if (outermost) {
    outermost->add_wait(context_, end - start_);
  } else {
    log_wait(TransferKind::op, context_, 0, end - start_, {});
  }
  if (listening() & kProfile)
    profiler::add_wait(outermost ? outermost->kind() : TransferKind::op, context_, start_, end,
                       current_caller());
}

void waited(TransferKind kind, Context c, double start, Caller from) {
  const unsigned to_whom = listening();
  const double end = now();
  if (to_whom) log_wait(kind, c, 0, end - start, from);
  if (to_whom & kProfile) profiler::add_wait(kind, c, start, end, from);
}

void HostCopy::open(Context from, Context to, size_t bytes) {
  if (!listening()) return;
  from_ = from;
  to_ = to;
  bytes_ = bytes;
  open_ = true;
  profiler::pause_thread(true);
  start_ = now();
}

void HostCopy::close() { profiler::pause_thread(false); }

void HostCopy::report() {
  const double end = now();
  const CopyRecord copy{from_, to_, bytes_, current_caller(), end - start_, nullptr};
  const unsigned to_whom = listening();
  if (to_whom & kLog) log_copy(copy);
  if (to_whom & kProfile) profiler::add_copy(copy, {to_, 0, nullptr}, start_, end);
}

void traced_launch(Device& d, Kernel kernel, const Call& call, const char* name) {
  if (listening() & kProfile) {
    profiler::launch(d, kernel, call, name);
  } else {
    d.launch(kernel, call, name);
  }
}

void traced_copy(Device& d, void* dst, Context to, const void* src, Context from, size_t bytes,
                 StreamView s) {
  const unsigned to_whom = listening();
  if (!to_whom) return d.copy(dst, to, src, from, bytes, s);
  CopyRecord copy{from, to, bytes, current_caller(), 0, nullptr};
  double start = 0, end = 0;
  {
    const profiler::StreamLock lock(s, to_whom & kProfile);
    copy.events = std::make_shared<Bracket>(d, s);
    start = now();
    d.copy(dst, to, src, from, bytes, s);
    end = now();
    copy.events->finish();
    if (!copy.events->timed()) copy.events = nullptr;
    copy.host_seconds = end - start;
    if (to_whom & kProfile) profiler::add_copy(copy, s, start, end);
  }
  if (outermost) outermost->add_bytes(bytes);
  if (to_whom & kLog) log_copy(copy);
}

}  // namespace locus::trace
