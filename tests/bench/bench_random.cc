// Random numbers: elements a second, and bytes stored.
#include <locus/ops/random.h>

#include "tests/bench/bench.h"

namespace locus::bench {
namespace {

template <class F>
void measure(const std::string& name, Context c, int64_t n, F draw) {
  add_timed(name + "_" + std::to_string(n) + "/" + to_string(c), [=](benchmark::State& state) {
    const double seconds = per_call(state, [&] { draw(Shape{n}, c); });
    state.counters["elements/s"] = static_cast<double>(n) / seconds;
    state.counters["GB/s"] = 4e-9 * static_cast<double>(n) / seconds;
  });
}

}  // namespace

void add_random() {
  using S = const Shape&;
  for (Context c : contexts()) {
    const bool large = c.type == DeviceType::gpu && real_gpu();
    const int64_t n = large ? 100'000'000 : 1'000'000;
    measure("uniform", c, n, [](S s, Context on) { random::uniform(0, 1, s, on); });
    measure("normal", c, n, [](S s, Context on) { random::normal(0, 1, s, on); });
    measure("exponential", c, n, [](S s, Context on) { random::exponential(1, s, on); });
    measure("gamma(2)", c, n, [](S s, Context on) { random::gamma(2, 1, s, on); });
    measure("gamma(.5)", c, n, [](S s, Context on) { random::gamma(.5, 1, s, on); });
    measure("poisson(3)", c, n, [](S s, Context on) { random::poisson(3, s, {on, i32}); });
    measure("poisson(100)", c, n, [](S s, Context on) { random::poisson(100, s, {on, i32}); });
    measure("choice", c, n, [](S s, Context on) { random::choice(1000, s, {}, {on, i32}); });
    if (!large)
      measure("permutation", c, n, [](S s, Context on) {
        random::permutation(s.size(), {on, i32});
      });
  }
}

}  // namespace locus::bench
