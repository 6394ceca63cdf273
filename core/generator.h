// The source of random numbers: Philox 4x32-10, counter based (Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", 2011). A draw is a pure function of (seed, offset, element), so the
// same seed gives the same numbers on every context.
//
// One process-wide generator; draws advance it in program order. Each thread of a parallel()
// (core/parallel.h) draws from a sequence of its own, which follows from the generator's state when
// that was called, so these are the same numbers each time as well. Without random::seed() it
// starts from the operating system's entropy.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <locus/core/noncopyable.h>

namespace locus {

struct PhiloxKey {
  uint64_t seed = 0;
  uint64_t offset = 0;  // in blocks of four 32-bit numbers
};

namespace random {
void seed(uint64_t value);
// Where the next draw starts, and draws from there on: to resume a program's sequence.
PhiloxKey state();
void set_state(PhiloxKey key);
// Reserves enough of the sequence for n elements and returns where it starts. Thread-safe.
PhiloxKey reserve(uint64_t n);
// For an op that draws: what gives its key, at each replay if it is captured.
std::function<PhiloxKey()> source(uint64_t n);

// The start of a sequence for thread i of those that begin at `state`.
PhiloxKey key_of(PhiloxKey state, uint64_t i);
// While it lives, the thread draws from *next on; null: from the process-wide sequence.
class [[nodiscard]] Sequence : NonCopyable {
 public:
  explicit Sequence(PhiloxKey* next);
  ~Sequence();

 private:
  PhiloxKey* const outer_;
};

// The keys of a stretch of the program, so that it can draw the same numbers again.
using Draws = std::vector<std::shared_ptr<PhiloxKey>>;
// While it lives, the thread's draws are noted.
class [[nodiscard]] NoteDraws : NonCopyable {
 public:
  explicit NoteDraws(Draws& draws);
  ~NoteDraws();

 private:
  Draws* const outer_;
};
// While it lives, the thread's draws are those, in their order. Error for more of them.
class [[nodiscard]] RepeatDraws : NonCopyable {
 public:
  explicit RepeatDraws(const Draws& draws);
  ~RepeatDraws();

 private:
  Draws* const noted_;
  const Draws* const outer_;
  const size_t outer_next_;
};
// Whether the thread has one of these.
bool notes_or_repeats();
}  // namespace random
}  // namespace locus
