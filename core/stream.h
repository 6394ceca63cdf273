// Owning streams and events, for programs that overlap or time work. Ops run on the current stream
// of their inputs' context: the compute stream, unless a StreamScope names another. Tensors are
// ordered across streams automatically (storage.h). Threads: a Stream may be shared; a StreamScope
// belongs to one thread.
#pragma once

#include <locus/core/caller.h>
#include <locus/core/context.h>
#include <locus/core/device.h>

namespace locus {

// A point in a stream's work. Movable; keeps its context. A moved-from Event throws Error.
class Event {
 public:
  // Marks the end of the current work of s, without a time. For elapsed_ms() use Stream::record().
  explicit Event(StreamView s) : Event(locus::device(s.context).record(s)) {}
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  Context context() const { return opened("context").context; }
  EventView view() const { return opened("view"); }
  bool query() const;                        // true once the work before it is done
  void wait(Caller = Caller::here()) const;  // the host blocks
  // Milliseconds from this event to `later`; waits for both. Throws Error across contexts.
  double elapsed_ms(const Event& later, Caller = Caller::here()) const;

 private:
  friend class Stream;
  explicit Event(EventView view) : view_(view), owns_(true) {}
  const EventView& opened(const char* call) const;
  EventView view_;
  bool owns_ = false;
};

// An additional queue on a context. The destructor waits for the queue's work; reports attribute
// that wait to the line that opened the Stream. Tensors allocated on a Stream stay valid. A
// moved-from Stream throws Error.
class Stream {
 public:
  explicit Stream(Context c, Caller = Caller::here());
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();

  Context context() const { return opened("context").context; }
  StreamView view() const { return opened("view"); }
  Event record();
  // Later work on this stream waits for e, an event of any context. The host blocks if this stream
  // is a host's, or if the device cannot wait for e (Device::wait).
  void wait(const Event& e, Caller = Caller::here());
  void synchronize(Caller = Caller::here());  // the host blocks

 private:
  void close() noexcept;
  const StreamView& opened(const char* call) const;
  StreamView view_;
  Caller from_;
  bool owns_ = false;
};

// Makes `s` the current stream of its context in this thread, for ops and copies. Other contexts
// are unchanged. `s` must outlive the scope.
class [[nodiscard]] StreamScope : NonCopyable {
 public:
  explicit StreamScope(const Stream& s) : StreamScope(s.view()) {}
  explicit StreamScope(Stream&&) = delete;  // it would be closed at once
  ~StreamScope();

 private:
  explicit StreamScope(StreamView s);
  StreamView view_;
  StreamScope* outer_;
  friend StreamView current_stream(Context c);
  friend StreamView current_stream(Context c, Device& d);
};

// Whether this thread is in a StreamScope.
bool in_stream_scope();
// The stream on which ops on context c run in this thread.
StreamView current_stream(Context c);
StreamView current_stream(Context c, Device& d);

}  // namespace locus
