// Hooks that core calls when it enqueues work, allocates or waits, for recordings of a Capture
// (capture.h) and of a compiled function (compile.h). Most are called only while active(). Internal
// to core, except active(), find(), only_recorded(), RecordingPause, check(what, why), depends_on()
// and settings. In recording.cc.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <locus/core/caller.h>
#include <locus/core/kernel.h>
#include <locus/core/noncopyable.h>

namespace locus {

class Replay;
class Storage;
class Tensor;
struct GraphState;
struct Op;
struct ReplayCall;

namespace capture {

struct Recording;

inline constinit thread_local Recording* innermost = nullptr;
inline bool active() { return innermost != nullptr; }  // in this thread
bool find(Context c);
// Whether recorded calls also run at once. Only while active().
bool runs();
// Whether this thread's calls are recorded and do not run: results have no values yet.
inline bool only_recorded() { return active() && !runs(); }

// While it lives, calls are not recorded: for preparation that replays do not repeat.
class RecordingPause : NonCopyable {
 public:
  RecordingPause() : outer_(innermost) { innermost = nullptr; }
  ~RecordingPause() { innermost = outer_; }

 private:
  Recording* const outer_;
};

// If active() and `why` is given, throws CaptureError: `what` cannot be replayed.
void check(const std::string& what, const char* why);
// Throws CaptureError if c, or in a Capture the stream s, is not recorded.
void check(const std::string& what, Context c, const StreamView* s);

// The call recorded last.
struct RecordedCall {
  Replay* replay = nullptr;
  ReplayCall* call = nullptr;
};
RecordedCall note(Context c, ReplayCall call);
void touch(Context c, const std::shared_ptr<Storage>& storage, bool write);
// Before note(): throws CaptureError if no recorded call has written the memory that `who` reads.
void check_read(Context c, const std::string& who, const Storage& storage);
// The call noted last copied between two host contexts.
void copied(Context from, Context to, size_t bytes, Caller caller);
// Whether the memory belongs to a recording of this thread.
bool owns(const Storage& storage);
// New memory on c.
std::shared_ptr<Storage> allocate(Context c, size_t bytes, StreamView home);

// If the number changes, the compiled function is recorded anew.
void depends_on(std::shared_ptr<const uint64_t> generation);
// If the leaf, or tensor without a gradient, gets another gradient, the compiled function is
// recorded anew.
void depends_on(const Tensor& leaf);
// Throws CaptureError if the tape's node with this `order` was made before the recording.
void check_tape(uint64_t order);
// backward() writes a leaf's gradient.
void wrote(const std::shared_ptr<GraphState>& leaf);
// The program asks whether a leaf's gradient is new, or summed. Replays need the same answer.
void asked_fresh(const Tensor& leaf);
// Settings that kernels read at launch, such as the precision of products. A compiled function is
// recorded once for each value.
inline std::atomic<uint32_t> settings{0};

// Throws CaptureError if c, or any context, is recorded: the host is about to wait.
void refuse_wait(std::optional<Context> c, const char* what, Caller from);
inline void check_wait(std::optional<Context> c, const char* what, Caller from) {
  if (active()) [[unlikely]]
    refuse_wait(c, what, from);
}

}  // namespace capture
}  // namespace locus
