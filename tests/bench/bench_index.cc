// Masks and index tensors: elements of the result a second.
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/index.h>
#include <locus/ops/random.h>

#include "tests/bench/bench.h"

namespace locus::bench {
namespace {

template <class F>
void measure(const std::string& name, Context c, int64_t results, F f) {
  add_timed(name + "/" + to_string(c), [=](benchmark::State& state) {
    state.counters["elements/s"] = static_cast<double>(results) / per_call(state, f(c));
  });
}

Tensor random_values(Context c, int64_t n) { return random::uniform(-1, 1, {n}, {c}); }

}  // namespace

void add_index() {
  for (Context c : contexts()) {
    const bool large = c.type == DeviceType::gpu && real_gpu();
    const int64_t n = large ? 100'000'000 : 10'000'000, few = n / 10;
    measure("take_tenth_of_" + std::to_string(n), c, few, [=](Context on) {
      return [x = random_values(on, n), ids = random::randint(0, n, {few}, {on, i64})] {
        return take(x, ids);
      };
    });
    measure("x[x > 0]_" + std::to_string(n), c, n / 2,
            [=](Context on) { return [x = random_values(on, n)] { return x[x > 0].gather(); }; });
  }
}

}  // namespace locus::bench
