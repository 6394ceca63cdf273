// What core tells recordings, those of a Capture (capture.h) and of a compiled function
// (compile.h), when it enqueues work, takes memory or waits: mostly only while active(). Internal
// to core, but for active(), find(), only_recorded(), RecordingPause, check(what, why),
// depends_on() and settings. In recording.cc.
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
// Whether what is recorded runs at once, too; the calling thread records.
bool runs();
// Whether nothing is written yet that the calling thread computes, nor known of what will be there.
inline bool only_recorded() { return active() && !runs(); }

// What is done meanwhile is not recorded: it prepares what later runs find done.
class RecordingPause : NonCopyable {
 public:
  RecordingPause() : outer_(innermost) { innermost = nullptr; }
  ~RecordingPause() { innermost = outer_; }

 private:
  Recording* const outer_;
};

// Throws CaptureError when `what`, which is about to happen, cannot be replayed: because of `why`.
void check(const std::string& what, const char* why);
// Because it is enqueued on c, or on s, which is not recorded.
void check(const std::string& what, Context c, const StreamView* s);

// What was recorded last, to be run now.
struct RecordedCall {
  Replay* replay = nullptr;
  ReplayCall* call = nullptr;
};
RecordedCall note(Context c, ReplayCall call);
void touch(Context c, const std::shared_ptr<Storage>& storage, bool write);
// What was noted last copied between two contexts of the host.
void copied(Context from, Context to, size_t bytes, Caller asked);
// Whether the memory is that of a recording that the calling thread makes.
bool owns(const Storage& storage);
// New memory on c.
std::shared_ptr<Storage> allocate(Context c, size_t bytes, StreamView home);

// A compiled function is recorded anew when the number, of what changes seldom, is another.
void depends_on(std::shared_ptr<const uint64_t> generation);
// Likewise when a leaf, or a tensor without a gradient, was given another one.
void depends_on(const Tensor& leaf);
// Throws CaptureError when the tape was made before the compiled function was called: `order` is
// its node's.
void check_tape(uint64_t order);
// A leaf's gradient is written.
void wrote(const std::shared_ptr<GraphState>& leaf);
// A leaf is asked whether its gradient is new, or summed: a replay is for the same answer.
void asked_fresh(const Tensor& leaf);
// What kernels look up when they are launched, such as the precision of products: a compiled
// function is recorded once for each value.
inline std::atomic<uint32_t> settings{0};

// The host is about to wait for work of c, or of all contexts.
void refuse_wait(std::optional<Context> c, const char* what, Caller from);
inline void check_wait(std::optional<Context> c, const char* what, Caller from) {
  if (active()) [[unlikely]]
    refuse_wait(c, what, from);
}

}  // namespace capture
}  // namespace locus
