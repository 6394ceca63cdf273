// Reports copies, launches and host waits to listeners: the ledger (TransferLog, LOCUS_TRANSFERS)
// and the profiler. Listeners register themselves. Without listeners a report costs one relaxed
// load. With LOCUS_NVTX=1 launches are also NVTX ranges (ranges.h). Internal to core.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <locus/core/caller.h>
#include <locus/core/device.h>
#include <locus/core/transfer_kind.h>

namespace locus::tracing {

class Bracket;

struct CopyRecord {
  Context from, to;
  size_t bytes = 0;
  Caller caller;
  StreamView stream;                // id 0: by the host
  double start = 0, end = 0;        // of the call, seconds on the host's clock
  std::shared_ptr<Bracket> events;  // around the copy on its stream; null: the call's time counts
};
struct WaitRecord {
  TransferKind kind = TransferKind::op;
  Context waited_for;
  size_t bytes = 0;  // copied meanwhile
  double seconds = 0, end = 0;
  Caller caller;
};

// Called on the thread that copies, waits or launches.
class Listener {
 public:
  virtual ~Listener() = default;
  // Before events are recorded on a stream of c.
  virtual void prepare(Context) {}
  virtual void copied(const CopyRecord&) {}
  virtual void waited(const WaitRecord&) {}       // each time that the host was blocked
  virtual void call_waited(const WaitRecord&) {}  // the sum of a user's call
  virtual void launch(Device& d, Kernel kernel, const Call& call, const char* name) {
    d.launch(kernel, call, name);
  }
};

inline constexpr unsigned kLog = 1, kProfile = 2;
inline constexpr unsigned kUnread = 4;  // LOCUS_TRANSFERS and LOCUS_NVTX are not read yet
inline constexpr unsigned kRanges = 8;  // LOCUS_NVTX=1
inline std::atomic<unsigned> listeners{kUnread};

inline bool off() { return listeners.load(std::memory_order_relaxed) == 0; }
// kLog and kProfile, if they listen. Reads LOCUS_TRANSFERS and LOCUS_NVTX the first time; throws
// Error for values that it does not know.
unsigned listening();
// `listener` gets reports as kLog or kProfile from now on; it lives as long as the process.
void start(unsigned which, Listener& listener);
void stop(unsigned which);
// Sets the function that reads LOCUS_TRANSFERS at the first copy, wait or launch.
void on_first_use(void (*read_environment)());

double now();  // seconds on the host's clock

// A call by the user, while it runs. Copies and waits inside are reported at the user's line. The
// outermost of a thread counts.
class Scope : NonCopyable {
 public:
  Scope(TransferKind kind, Caller from) {
    if (!off()) [[unlikely]]
      open(kind, from);
  }
  ~Scope() {
    if (open_) [[unlikely]]
      close();
  }

  Caller caller() const { return from_; }
  TransferKind kind() const { return kind_; }
  void add_wait(Context waited_for, double seconds);
  void add_bytes(size_t bytes) { bytes_ += bytes; }

 private:
  void open(TransferKind kind, Caller from);
  void close();
  void report();

  bool open_ = false, waited_ = false;
  TransferKind kind_ = TransferKind::op;
  Caller from_;
  Context context_;
  double seconds_ = 0;
  size_t bytes_ = 0;
};

// While it lives, the host is blocked by work of context c, if given.
class Wait : NonCopyable {
 public:
  explicit Wait(std::optional<Context> c) {
    if (c && !off()) [[unlikely]]
      open(*c);
  }
  ~Wait() {
    if (open_) [[unlikely]]
      close();
  }

 private:
  void open(Context c);
  void close();

  bool open_ = false;
  Context context_;
  double start_ = 0;
};

// Reports a wait from `start` until now, at line `from`.
void waited(TransferKind kind, Context c, double start, Caller from);

void traced_launch(Device& d, Kernel kernel, const Call& call, const char* name);
void traced_copy(Device& d, void* dst, Context to, const void* src, Context from, size_t bytes,
                 StreamView s);
void traced_host_copy(Context from, Context to, size_t bytes, const std::function<void()>& copy);

// Device::launch and Device::copy, reported.
inline void launch(Device& d, Kernel kernel, const Call& call, const char* name) {
  if (off()) [[likely]]
    return d.launch(kernel, call, name);
  traced_launch(d, kernel, call, name);
}
inline void copy(Device& d, void* dst, Context to, const void* src, Context from, size_t bytes,
                 StreamView s) {
  if (off()) [[likely]]
    return d.copy(dst, to, src, from, bytes, s);
  traced_copy(d, dst, to, src, from, bytes, s);
}
// A copy between two host contexts, by an op on the calling thread.
inline void host_copy(Context from, Context to, size_t bytes, const auto& copy) {
  if (off() || from == to) [[likely]]
    return copy();
  traced_host_copy(from, to, bytes, copy);
}

// Two events around work of a stream. Devices without events give none.
class Bracket : NonCopyable {
 public:
  Bracket(Device& d, StreamView s) : device_(d), stream_(s), begin_(d.record_time(s)) {}
  ~Bracket();

  void finish() { end_ = device_.record_time(stream_); }
  bool timed() const { return begin_.native != nullptr && end_.native != nullptr; }
  bool done() const { return device_.done(end_); }
  void wait() const { device_.wait_host(end_); }
  double seconds() const { return device_.elapsed_ms(begin_, end_) / 1e3; }  // once done
  // From `earlier`, an event of this device, to the begin.
  double seconds_since(EventView earlier) const {
    return device_.elapsed_ms(earlier, begin_) / 1e3;
  }
  EventView end() const { return end_; }

 private:
  Device& device_;
  StreamView stream_;
  EventView begin_, end_;
};

// Work that is about to be enqueued on s and reads bytes()[i] from context from[i]. done() reports
// these reads once the work is enqueued. Without done() there is no report.
class Reads : NonCopyable {
 public:
  Reads(Device& d, StreamView s, std::span<const Context> from, const auto& bytes) {
    if (!off()) [[unlikely]]
      open(d, s, from, bytes());
  }
  void done() {
    if (events_) [[unlikely]]
      report();
  }

 private:
  void open(Device& d, StreamView s, std::span<const Context> from, std::vector<size_t> bytes);
  void report();

  std::shared_ptr<Bracket> events_;
  StreamView stream_;
  std::vector<Context> from_;
  std::vector<size_t> bytes_;
  double start_ = 0;
};

// Whether the calling thread is in a host_copy, whose ops are reported as one copy.
bool recorded_as_a_whole();

// Locks a stream, so that work and the two events around it stay together.
std::unique_lock<std::mutex> lock_stream(StreamView s);

}  // namespace locus::tracing
