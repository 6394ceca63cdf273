#include <locus/core/stream.h>

#include <string>
#include <utility>

#include <locus/core/base/at_line.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/observe/red_zones.h>
#include <locus/core/observe/trace.h>

namespace locus {
namespace {

thread_local StreamScope* innermost = nullptr;

}  // namespace

Event::Event(Event&& other) noexcept
    : view_(other.view_), owns_(std::exchange(other.owns_, false)) {}
Event& Event::operator=(Event&& other) noexcept {
  std::swap(view_, other.view_);
  std::swap(owns_, other.owns_);
  return *this;
}
Event::~Event() {
  if (owns_ && view_.native) device(view_.context).release(view_);
}

const EventView& Event::opened(const char* call) const {
  if (!owns_)
    throw Error("Event::", call, ": the event of ", view_.context,
                " was moved from; use the event it was moved to, or record another");
  return view_;
}

bool Event::query() const { return !opened("query").native || device(view_.context).done(view_); }
void Event::wait(Caller caller) const {
  if (!opened("wait").native) return;
  capture::check_wait(view_.context, "Event::wait", caller);
  const tracing::Scope scope(TransferKind::event, caller);
  const tracing::Wait traced(view_.context);
  device(view_.context).wait_host(view_);
}

double Event::elapsed_ms(const Event& later, Caller caller) const {
  const EventView &from = opened("elapsed_ms"), &to = later.opened("elapsed_ms");
  if (!(from.context == to.context))
    throw Error("Event::elapsed_ms: events of different contexts, ", from.context, " and ",
                to.context, "; expected two events of one context");
  if (!from.native)
    throw Error("Event::elapsed_ms: ", from.context,
                " records no times; use a clock around the calls");
  const tracing::Scope scope(TransferKind::event, caller);
  wait(caller);
  later.wait(caller);
  return device(from.context).elapsed_ms(from, to);
}

Stream::Stream(Context c, Caller from) : view_(device(c).open_stream()), from_(from), owns_(true) {}
Stream::Stream(Stream&& other) noexcept
    : view_(other.view_), from_(other.from_), owns_(std::exchange(other.owns_, false)) {}
Stream& Stream::operator=(Stream&& other) noexcept {
  if (this == &other) return *this;
  close();
  view_ = other.view_;
  from_ = other.from_;
  owns_ = std::exchange(other.owns_, false);
  return *this;
}
Stream::~Stream() { close(); }

void Stream::close() noexcept {
  if (!std::exchange(owns_, false)) return;
  const double start = tracing::now();
  device(view_.context).close_stream(view_);
  if (tracing::off() || view_.id == 0) return;
  try {
    tracing::waited(TransferKind::stream, view_.context, start, from_);
  } catch (const std::exception&) {
    // The report lacks this line, but the program goes on.
  }
}

const StreamView& Stream::opened(const char* call) const {
  if (!owns_)
    throw Error("Stream::", call, ": the stream of ", view_.context,
                " was moved from; use the Stream it was moved to, or open another: Stream(",
                view_.context, ")");
  return view_;
}

Event Stream::record() { return Event(device(opened("record").context).record_time(view_)); }
void Stream::wait(const Event& e, Caller caller) {
  const EventView& event = e.opened("wait");
  if (!opened("wait").native) return e.wait(caller);
  if (event.native) device(view_.context).wait(view_, event);
}
void Stream::synchronize(Caller caller) {
  if (opened("synchronize").id == 0) return;
  capture::check_wait(view_.context, "Stream::synchronize", caller);
  const tracing::Scope scope(TransferKind::stream, caller);
  const tracing::Wait traced(view_.context);
  device(view_.context).synchronize(view_);
}

StreamScope::StreamScope(StreamView s) : view_(s), outer_(innermost) { innermost = this; }
// Not always the innermost: scopes in a container end in the order they began.
StreamScope::~StreamScope() {
  for (StreamScope** at = &innermost; *at; at = &(*at)->outer_) {
    if (*at != this) continue;
    *at = outer_;
    return;
  }
}

bool in_stream_scope() { return innermost != nullptr; }
StreamView current_stream(Context c, Device& d) {
  for (const StreamScope* s = innermost; s; s = s->outer_)
    if (s->view_.context == c) return s->view_;
  return d.stream(Lane::compute);
}
StreamView current_stream(Context c) { return current_stream(c, device(c)); }

void wait_all(Caller from) {
  const tracing::Scope scope(TransferKind::wait_all, from);
  capture::check_wait({}, "wait_all", from);
  std::exception_ptr first;
  std::string others;  // what other devices found
  for (const Context c : opened_devices()) {
    if (is_host(c)) continue;
    const tracing::Wait wait(c);
    try {
      device(c).synchronize({});
    } catch (const std::exception& e) {
      if (first) others += text_of("; and ", e.what());
      if (!first) first = std::current_exception();
    }
  }
  if (first) try {
      std::rethrow_exception(first);
    } catch (const Error&) {
      std::rethrow_exception(
          reworded([&](const std::string& text) { return with_line(text + others, from); }));
    }
  if (memory_events::red_zones()) [[unlikely]]
    red_zones::check(from);
}

}  // namespace locus
