#include <locus/core/generator.h>

#include <optional>
#include <random>

#include <locus/core/capture_check.h>
#include <locus/core/mutex.h>

namespace locus::random {
namespace {

Mutex mutex;
std::optional<PhiloxKey> state LOCUS_GUARDED_BY(mutex);

}  // namespace

void seed(uint64_t value) {
  capture::check("random::seed", "numbers are drawn anew at each replay; call it before");
  const MutexLock lock(mutex);
  state = PhiloxKey{value, 0};
}

PhiloxKey reserve(uint64_t n) {
  const MutexLock lock(mutex);
  if (!state) {
    std::random_device entropy;
    state = PhiloxKey{(uint64_t{entropy()} << 32) | entropy(), 0};
  }
  const PhiloxKey start = *state;
  state->offset += (n + 3) / 4;
  return start;
}

}  // namespace locus::random
