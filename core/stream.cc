#include <locus/core/stream.h>

#include <utility>

#include <locus/core/error.h>
#include <locus/core/trace.h>

namespace locus {
namespace {

thread_local StreamScope* innermost = nullptr;

}  // namespace

Event::Event(Event&& other) noexcept : view_(std::exchange(other.view_, {})) {}
Event& Event::operator=(Event&& other) noexcept {
  std::swap(view_, other.view_);
  return *this;
}
Event::~Event() {
  if (view_.native) device(view_.context).release(view_);
}

bool Event::query() const { return !view_.native || device(view_.context).done(view_); }
void Event::wait(Caller from) const {
  if (!view_.native) return;
  const trace::Scope scope(TransferKind::event, from);
  const trace::Wait wait(view_.context);
  device(view_.context).wait_host(view_);
}

double Event::elapsed_ms(const Event& later, Caller from) const {
  if (!(context() == later.context()))
    throw Error("Event::elapsed_ms: events of different contexts, " + to_string(context()) +
                " and " + to_string(later.context()) + "; expected two events of one context");
  if (!view_.native) throw Error("Event::elapsed_ms: a host context records no times");
  const trace::Scope scope(TransferKind::event, from);
  wait(from);
  later.wait(from);
  return device(context()).elapsed_ms(view_, later.view_);
}

Stream::Stream(Context c) : view_(device(c).open_stream()), owns_(true) {}
Stream::Stream(Stream&& other) noexcept
    : view_(other.view_), owns_(std::exchange(other.owns_, false)) {}
Stream& Stream::operator=(Stream&& other) noexcept {
  close();
  view_ = other.view_;
  owns_ = std::exchange(other.owns_, false);
  return *this;
}
Stream::~Stream() { close(); }

void Stream::close() noexcept {
  if (std::exchange(owns_, false)) device(view_.context).close_stream(view_);
}

Event Stream::record() { return Event(device(context()).record(view_)); }
void Stream::wait(const Event& e) {
  if (e.view_.native) device(context()).wait(view_, e.view_);
}
void Stream::synchronize(Caller from) {
  if (view_.id == 0) return;
  const trace::Scope scope(TransferKind::stream, from);
  const trace::Wait wait(context());
  device(context()).synchronize(view_);
}

StreamScope::StreamScope(const Stream& s) : view_(s.view()), outer_(innermost) { innermost = this; }
StreamScope::~StreamScope() { innermost = outer_; }

StreamView current_stream(Context c, Device& d) {
  for (const StreamScope* s = innermost; s; s = s->outer_)
    if (s->view_.context == c) return s->view_;
  return d.stream(Lane::compute);
}
StreamView current_stream(Context c) { return current_stream(c, device(c)); }

}  // namespace locus
