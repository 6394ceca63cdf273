// Streams and events that own, for programs that order work themselves. Ops run on the current
// stream of their inputs' context: its compute stream, unless a StreamScope names another.
// Tensors are ordered across streams by themselves (storage.h); these add overlap and timing.
// Threads: a Stream may be shared; a StreamScope belongs to one thread.
#pragma once

#include <locus/core/caller.h>
#include <locus/core/context.h>
#include <locus/core/device.h>

namespace locus {

// A point in a stream's work. Movable; keeps its context.
class Event {
 public:
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  Context context() const { return view_.context; }
  bool query() const;                        // true once the work before it is done
  void wait(Caller = Caller::here()) const;  // the host blocks
  // Milliseconds from this event to `later`; waits for both. Throws Error across contexts.
  double elapsed_ms(const Event& later, Caller = Caller::here()) const;

 private:
  friend class Stream;
  explicit Event(EventView view) : view_(view) {}
  EventView view_;
};

// A queue of its own on a context. Destroying it waits for its work.
class Stream {
 public:
  explicit Stream(Context c);
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();

  Context context() const { return view_.context; }
  StreamView view() const { return view_; }
  Event record();
  void wait(const Event& e);                  // later work here waits for e; the host goes on
  void synchronize(Caller = Caller::here());  // the host blocks

 private:
  void close() noexcept;
  StreamView view_;
  bool owns_ = false;
};

// Makes `s` the current stream of its context in this thread.
class StreamScope {
 public:
  explicit StreamScope(const Stream& s);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  StreamView view_;
  StreamScope* outer_;
  friend StreamView current_stream(Context c);
  friend StreamView current_stream(Context c, Device& d);
};

// The stream an op on context c runs on in this thread.
StreamView current_stream(Context c);
StreamView current_stream(Context c, Device& d);

}  // namespace locus
