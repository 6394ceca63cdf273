// Watches what a thread reads of memory that was there before (recompute_reads.h). Internal to
// core. A recording's own memory is watched only while that recording is made.
#pragma once

#include <atomic>
#include <cstdint>

#include <locus/core/noncopyable.h>

namespace locus {

class Storage;
struct GraphState;

namespace reads {

// Runs that have begun: Storage::born() is the number at its allocation.
inline std::atomic<uint64_t> runs{0};

// Is told of every read of its thread while it lives.
class Watch : NonCopyable {
 public:
  Watch();
  virtual ~Watch();
  virtual void read(const Storage& storage) = 0;
  // Whether the run may use a tensor of a graph.
  virtual bool expects(const GraphState* state) const = 0;

  Watch* const outer;
  const uint64_t run;  // memory with this number, or a greater one, is the run's own
};
inline constinit thread_local Watch* innermost = nullptr;
inline bool watched() { return innermost != nullptr; }
void tell(const Storage& storage);  // all of them
bool expects(const GraphState* state);

}  // namespace reads
}  // namespace locus
