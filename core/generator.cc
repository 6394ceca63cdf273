#include <locus/core/generator.h>

#include <mutex>
#include <optional>
#include <random>

namespace locus::random {
namespace {

std::mutex mutex;
std::optional<PhiloxKey> state;

}  // namespace

void seed(uint64_t value) {
  std::lock_guard lock(mutex);
  state = PhiloxKey{value, 0};
}

PhiloxKey reserve(uint64_t n) {
  std::lock_guard lock(mutex);
  if (!state) {
    std::random_device entropy;
    state = PhiloxKey{(uint64_t{entropy()} << 32) | entropy(), 0};
  }
  const PhiloxKey start = *state;
  state->offset += (n + 3) / 4;
  return start;
}

}  // namespace locus::random
