// The random number generator: Philox 4x32-10, counter-based (Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", 2011). A draw is a pure function of (seed, offset, element), so the
// same seed gives the same numbers on every context.
//
// The process has one generator, and a program may have others (random::Generator, ops/random.h).
// Draws advance a generator in program order. Each thread of a parallel() (core/parallel.h) draws
// from its own sequence. The sequence depends only on the generator's state at the call, so runs
// repeat. Without random::seed() the generator starts from the operating system's entropy.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <locus/core/base/mutex.h>
#include <locus/core/noncopyable.h>

namespace locus {

struct PhiloxKey {
  uint64_t seed = 0;
  uint64_t offset = 0;  // in blocks of four 32-bit numbers
};

namespace random {
void seed(uint64_t value);
// Get and set where the next draw starts, to resume a program's sequence.
PhiloxKey state();
void set_state(PhiloxKey key);
// Reserves the part of the sequence for n elements and returns its start. Thread-safe.
PhiloxKey reserve(uint64_t n);
// For ops: a function that returns the key of a draw; each replay calls the function anew.
std::function<PhiloxKey()> source(uint64_t n);

// The start of the sequence of thread i, derived from `state`.
PhiloxKey key_of(PhiloxKey state, uint64_t i);
// While this object lives, draws of this thread start at *next and advance it. With a null pointer
// they use the process's sequence. A DrawFrom takes precedence.
class [[nodiscard]] Sequence : NonCopyable {
 public:
  explicit Sequence(PhiloxKey* next);
  ~Sequence();

 private:
  PhiloxKey* const outer_;
};

// Where the next draw of a generator starts. Before set() that is a seed from the operating
// system's entropy. Thread-safe.
class GeneratorState : NonCopyable {
 public:
  PhiloxKey take(uint64_t n);  // as reserve(n)
  void set(PhiloxKey key);

 private:
  Mutex mutex_;
  std::optional<PhiloxKey> next_ LOCUS_GUARDED_BY(mutex_);
};
// A scope: the thread draws from `state`, and so do replays of what it captures here.
class [[nodiscard]] DrawFrom : NonCopyable {
 public:
  explicit DrawFrom(const std::shared_ptr<GeneratorState>& state);
  ~DrawFrom();

 private:
  const std::shared_ptr<GeneratorState>* const outer_;
};

// The keys of a part of the program, to draw the same numbers again.
using Draws = std::vector<std::shared_ptr<PhiloxKey>>;
// A scope: notes the thread's draws in `draws`.
class [[nodiscard]] NoteDraws : NonCopyable {
 public:
  explicit NoteDraws(Draws& draws);
  ~NoteDraws();

 private:
  Draws* const outer_;
};
// A scope: the thread repeats `draws` in order. Error for more draws, ValueError for a null one.
class [[nodiscard]] RepeatDraws : NonCopyable {
 public:
  explicit RepeatDraws(const Draws& draws);
  ~RepeatDraws();

 private:
  const Draws* const outer_;
  Draws* const noted_;
  const size_t outer_next_;
};
// Whether the thread is in a NoteDraws or RepeatDraws scope.
bool notes_or_repeats();
}  // namespace random
}  // namespace locus
