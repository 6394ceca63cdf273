// Watches a thread's reads of older memory (recompute_reads.h). Internal to core. Memory of a
// recording is watched only during that recording.
#pragma once

#include <atomic>
#include <cstdint>

#include <locus/core/noncopyable.h>

namespace locus {

class Storage;
struct GraphState;

namespace reads {

// Number of runs that have begun. Storage::born() is its value at allocation.
inline std::atomic<uint64_t> runs{0};

// While it lives, gets its thread's reads of memory older than the run.
class Watch : NonCopyable {
 public:
  Watch();
  virtual ~Watch();
  virtual void read(const Storage& storage) = 0;
  // Whether the run may use a tensor with this graph state.
  virtual bool expects(const GraphState* state) const = 0;

  Watch* const outer;
  const uint64_t run;  // memory with this number, or a greater one, is the run's own
};
inline constinit thread_local Watch* innermost = nullptr;
inline bool watched() { return innermost != nullptr; }
void tell(const Storage& storage);  // calls read() of all watches
bool expects(const GraphState* state);

}  // namespace reads
}  // namespace locus
