#include <locus/core/generator.h>

#include <random>
#include <utility>

#include <locus/core/base/recording_hooks.h>
#include <locus/core/error.h>

namespace locus::random {
namespace {

GeneratorState& process_state() {
  static GeneratorState* const state = new GeneratorState;  // draws may outlive static objects
  return *state;
}

thread_local const std::shared_ptr<GeneratorState>* chosen = nullptr;  // of a DrawFrom, or null
thread_local PhiloxKey* own = nullptr;  // the thread's own sequence, or null
thread_local Draws* noted = nullptr;
thread_local const Draws* repeated = nullptr;
thread_local size_t next_repeated = 0;

void check_capture(const char* who) {
  capture::check(who, "numbers are drawn anew at each replay; call it before");
}

PhiloxKey advance(PhiloxKey& key, uint64_t n) {
  return std::exchange(key, {key.seed, key.offset + (n + 3) / 4});
}

const Draws& checked(const Draws& draws) {
  for (size_t i = 0; i < draws.size(); ++i)
    if (!draws[i])
      throw ValueError("random::RepeatDraws: draw ", i, " of ", draws.size(),
                       " is a null pointer; expected the draws of a NoteDraws");
  return draws;
}

}  // namespace

NoteDraws::NoteDraws(Draws& draws) : outer_(std::exchange(noted, &draws)) {}
NoteDraws::~NoteDraws() {
  if (outer_) outer_->insert(outer_->end(), noted->begin(), noted->end());
  noted = outer_;
}

RepeatDraws::RepeatDraws(const Draws& draws)
    : outer_(std::exchange(repeated, &checked(draws))),
      noted_(std::exchange(noted, nullptr)),
      outer_next_(std::exchange(next_repeated, 0)) {}
RepeatDraws::~RepeatDraws() {
  noted = noted_;
  repeated = outer_;
  next_repeated = outer_next_;
}

bool notes_or_repeats() { return noted || repeated; }

std::function<PhiloxKey()> source(uint64_t n) {
  if (repeated) {
    if (next_repeated == repeated->size())
      throw Error("random numbers are drawn that were not when this ran first, after ",
                  repeated->size(), " draws; a recomputed function must do the same each time");
    const std::shared_ptr<PhiloxKey>& key = (*repeated)[next_repeated++];
    if (noted) noted->push_back(key);
    return [key] { return *key; };
  }
  const auto take = [n, state = chosen ? *chosen : nullptr] {
    return state ? state->take(n) : reserve(n);
  };
  if (!noted) return take;
  return [take, key = noted->emplace_back(std::make_shared<PhiloxKey>())] { return *key = take(); };
}

void seed(uint64_t value) {
  check_capture("random::seed");
  process_state().set({value, 0});
}

void set_state(PhiloxKey key) {
  check_capture("random::set_state");
  process_state().set(key);
}

PhiloxKey state() { return reserve(0); }

PhiloxKey reserve(uint64_t n) {
  if (chosen) return (*chosen)->take(n);
  return own ? advance(*own, n) : process_state().take(n);
}

PhiloxKey GeneratorState::take(uint64_t n) {
  const MutexLock lock(mutex_);
  if (!next_) {
    std::random_device entropy;
    next_ = PhiloxKey{(uint64_t{entropy()} << 32) | entropy(), 0};
  }
  return advance(*next_, n);
}

void GeneratorState::set(PhiloxKey key) {
  const MutexLock lock(mutex_);
  next_ = key;
}

DrawFrom::DrawFrom(const std::shared_ptr<GeneratorState>& state)
    : outer_(std::exchange(chosen, &state)) {}
DrawFrom::~DrawFrom() { chosen = outer_; }

// SplitMix64's mixing (Steele, Lea and Flood, "Fast splittable pseudorandom number generators").
PhiloxKey key_of(PhiloxKey state, uint64_t i) {
  uint64_t mixed = state.seed;
  for (const uint64_t part : {state.offset, i}) {
    mixed += 0x9e3779b97f4a7c15 * (part + 1);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    mixed ^= mixed >> 31;
  }
  return {mixed, 0};
}

Sequence::Sequence(PhiloxKey* next) : outer_(std::exchange(own, next)) {}
Sequence::~Sequence() { own = outer_; }

}  // namespace locus::random
