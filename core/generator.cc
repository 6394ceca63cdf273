#include <locus/core/generator.h>

#include <optional>
#include <random>
#include <utility>

#include <locus/core/capture_check.h>
#include <locus/core/error.h>
#include <locus/core/mutex.h>

namespace locus::random {
namespace {

Mutex mutex;
std::optional<PhiloxKey> next LOCUS_GUARDED_BY(mutex);

thread_local Draws* noted = nullptr;
thread_local const Draws* repeated = nullptr;
thread_local size_t next_repeated = 0;

}  // namespace

NoteDraws::NoteDraws(Draws& draws) : outer_(std::exchange(noted, &draws)) {}
NoteDraws::~NoteDraws() {
  if (outer_) outer_->insert(outer_->end(), noted->begin(), noted->end());
  noted = outer_;
}

RepeatDraws::RepeatDraws(const Draws& draws)
    : noted_(std::exchange(noted, nullptr)),
      outer_(std::exchange(repeated, &draws)),
      outer_next_(std::exchange(next_repeated, 0)) {}
RepeatDraws::~RepeatDraws() {
  noted = noted_;
  repeated = outer_;
  next_repeated = outer_next_;
}

std::function<PhiloxKey()> source(uint64_t n) {
  if (repeated) {
    if (next_repeated == repeated->size())
      throw Error("random numbers are drawn that were not when this ran first, after ",
                  repeated->size(), " draws; a recomputed function must do the same each time");
    const std::shared_ptr<PhiloxKey>& key = (*repeated)[next_repeated++];
    if (noted) noted->push_back(key);
    return [key] { return *key; };
  }
  if (!noted) return [n] { return reserve(n); };
  return
      [n, key = noted->emplace_back(std::make_shared<PhiloxKey>())] { return *key = reserve(n); };
}

void seed(uint64_t value) { set_state({value, 0}); }

void set_state(PhiloxKey key) {
  capture::check("random::seed", "numbers are drawn anew at each replay; call it before");
  const MutexLock lock(mutex);
  next = key;
}

PhiloxKey state() { return reserve(0); }

PhiloxKey reserve(uint64_t n) {
  const MutexLock lock(mutex);
  if (!next) {
    std::random_device entropy;
    next = PhiloxKey{(uint64_t{entropy()} << 32) | entropy(), 0};
  }
  const PhiloxKey start = *next;
  next->offset += (n + 3) / 4;
  return start;
}

}  // namespace locus::random
