// What core asks of captures (capture.h) whenever it enqueues work or waits. Implemented in
// capture.cc. Internal to core.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <locus/core/caller.h>
#include <locus/core/kernel.h>

namespace locus {

class Storage;

namespace capture {

struct Recording;

inline constinit thread_local Recording* innermost = nullptr;
inline bool active() { return innermost != nullptr; }  // in this thread
bool find(StreamView s);
bool find(Context c);
inline bool on(StreamView s) { return active() && find(s); }

// `what` is about to enqueue on s. Throws CaptureError when it cannot be replayed: because of `why`
// (null: nothing speaks against it), or because s is not recorded.
void check(const std::string& what, const char* why, StreamView s);
// It reads or writes this storage; s is recorded.
void use(StreamView s, const std::shared_ptr<Storage>& storage, bool write);
// The host is about to wait for work of c, or of all contexts.
void refuse_wait(std::optional<Context> c, const char* what, Caller from);
inline void check_wait(std::optional<Context> c, const char* what, Caller from) {
  if (active()) [[unlikely]]
    refuse_wait(c, what, from);
}

}  // namespace capture
}  // namespace locus
