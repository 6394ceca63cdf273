#include <locus/devices/host/fork.h>

#include <pthread.h>

#include <atomic>

#include <locus/core/error.h>

namespace locus {

int fork_count() {
  static std::atomic<int> forks{0};
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
  return forks.load(std::memory_order_relaxed);
}

void throw_used_before_fork(Context c) {
  throw DeviceError(c,
                    " was used before fork(), and does not work in the child; use it in one of "
                    "the two processes only");
}

}  // namespace locus
