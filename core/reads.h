// What a function that runs twice (recompute.h) reads of memory that it did not make: noted at its
// first run, checked at its second. Internal to core.
//
// Memory counts as the function's own when it was allocated since the run began, and as a compiled
// function's when an arena has it; neither is noted. A run is one thread's.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include <locus/core/noncopyable.h>

namespace locus {

class Storage;
struct GraphState;
class Ref;

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

// What is read meanwhile is told to nobody: it is done for several threads.
class Aside : NonCopyable {
 public:
  Aside() : outer_(innermost) { innermost = nullptr; }
  ~Aside() { innermost = outer_; }

 private:
  Watch* const outer_;
};

struct Noted {
  uint64_t run = 0;                                      // the first one
  std::unordered_map<const Storage*, uint64_t> version;  // at the first read
};
class First final : public Watch {
 public:
  // `operands`: what it may use of a graph.
  First(Noted& noted, std::span<const Ref> operands);
  void read(const Storage& storage) override;
  bool expects(const GraphState* state) const override;

 private:
  Noted& noted_;
  std::vector<const GraphState*> operands_;
};
// Throws Error for a read of what the first run did not read, or what was written since.
class Second final : public Watch {
 public:
  explicit Second(const Noted& noted) : noted_(noted) {}
  void read(const Storage& storage) override;
  bool expects(const GraphState*) const override { return true; }  // it is recorded

 private:
  const Noted& noted_;
};

}  // namespace reads
}  // namespace locus
