// Reports events of memory pools to hooks (memory_tools.h), with the op, the scope and the user's
// line of the thread. Without hooks, a report costs one relaxed load and a branch. Internal.
//
//   if (!memory_events::off()) [[unlikely]]
//     memory_events::tell({.kind = MemoryEventKind::freed, ...});
#pragma once

#include <atomic>

#include <locus/core/memory_tools.h>
#include <locus/core/observe/trace.h>

namespace locus {
namespace memory_events {

inline constexpr unsigned kUnread = 1u << 31;       // LOCUS_MEMORY is not read yet
inline constexpr unsigned kRedZones = kUnread / 2;  // LOCUS_MEMORY=redzones
inline std::atomic<unsigned> hooks{kUnread};        // the number of hooks, and these bits

inline bool off() { return hooks.load(std::memory_order_relaxed) == 0; }
inline bool red_zones() { return (hooks.load(std::memory_order_relaxed) & kRedZones) != 0; }

// Reads LOCUS_MEMORY the first time. Throws Error for a value that makes no sense.
void read_environment();
// The event with op, scope and caller of this thread.
MemoryEvent described(MemoryEvent event);
// Calls all hooks with described(event).
void tell(const MemoryEvent& event) noexcept;

// The op that this thread runs, of name name(). The innermost counts.
class RunningOp : NonCopyable {
 public:
  explicit RunningOp(const auto& name) {
    if (!off()) [[unlikely]]
      open(name());
  }
  ~RunningOp() {
    if (outer_) [[unlikely]]
      close();
  }

 private:
  void open(const char* name);
  void close();

  const char* outer_ = nullptr;
};

}  // namespace memory_events

// The line of a call by the user, while the call runs. The innermost line of the user's code
// counts; lines of the library do not.
class UserLine : NonCopyable {
 public:
  explicit UserLine(Caller from) {
    if (!memory_events::off() || !tracing::off()) [[unlikely]]
      open(from);
  }
  ~UserLine() {
    if (open_) [[unlikely]]
      close();
  }

 private:
  void open(Caller from);
  void close();

  bool open_ = false;
  Caller outer_;
};
// `from`, or the user's line if `from` is a line of the library.
Caller users_line(Caller from);

}  // namespace locus
