#include <locus/core/generator.h>

#include <optional>
#include <random>

#include <locus/core/capture_check.h>
#include <locus/core/mutex.h>

namespace locus::random {
namespace {

Mutex mutex;
std::optional<PhiloxKey> next LOCUS_GUARDED_BY(mutex);

}  // namespace

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
