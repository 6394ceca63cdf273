#include <locus/devices/emulated/emulated_pace.h>

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <unordered_map>

#include <locus/core/base/mutex.h>
#include <locus/devices/host/share_cpus.h>

namespace locus::emulated {
namespace {

using std::chrono::nanoseconds;

int times = 2;
constexpr auto kLate = std::chrono::microseconds(120);  // how late a sleeper may wake
constexpr size_t kKinds = 1 << 16;                      // kinds of work remembered
constexpr int kLearned = 12;                            // runs that set the pace

// A hash of the kernel and its operands' shapes and strides.
uint64_t kind_of(Kernel kernel, const Call& call) {
  uint64_t hash = reinterpret_cast<uintptr_t>(kernel);
  const auto mix = [&](int64_t v) {
    hash = (hash ^ static_cast<uint64_t>(v)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  };
  const auto mix_views = [&](const View* views, int n) {
    for (int i = 0; i < n; ++i) {
      const View& v = views[i];
      mix(v.meta.rank);
      for (int axis = 0; axis < v.meta.rank; ++axis) {
        mix(v.meta.shape[axis]);
        mix(v.stride[axis]);
      }
    }
  };
  mix_views(call.in, call.n_in);
  mix_views(call.out, call.n_out);
  return hash;
}

struct Pace {
  nanoseconds quickest = nanoseconds::max();
  int runs = 0;
};

// Never destroyed: queues still work while the process ends.
struct Paces {
  Mutex mutex;
  std::unordered_map<uint64_t, Pace> of_kind LOCUS_GUARDED_BY(mutex);
};
Paces& paces() {
  static Paces& p = *new Paces;
  return p;
}

// First runs touch new memory and are slow. Later, only a run faster by a fifth changes the pace,
// so measurements stay comparable.
nanoseconds pace_of(uint64_t kind, nanoseconds now) {
  Paces& all = paces();
  const MutexLock lock(all.mutex);
  if (all.of_kind.size() >= kKinds) all.of_kind.clear();
  Pace& pace = all.of_kind[kind];
  const bool learning = pace.runs++ < kLearned;
  if (now < (learning ? pace.quickest : pace.quickest * 4 / 5)) pace.quickest = now;
  return pace.quickest;
}

}  // namespace

int slower() { return times; }

void share_cores(int gpus) {
  const int cores = num_cpus();
  times = std::max(2, (2 * gpus + cores - 1) / cores);
}

nanoseconds core_time() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + nanoseconds(t.tv_nsec);
}

nanoseconds compute(Kernel kernel, const Call& call) {
  const nanoseconds before = core_time();
  kernel(call);
  return times * pace_of(kind_of(kernel, call), core_time() - before);
}

void sleep_until(Clock::time_point t) {
  if (t - Clock::now() > kLate) std::this_thread::sleep_until(t - kLate);
  while (Clock::now() < t) {
  }
}

}  // namespace locus::emulated
