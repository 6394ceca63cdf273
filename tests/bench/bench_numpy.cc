// Functions that NumPy has: order, scans. Large tensors, beside a copy of as many
// bytes as a function of one pass must move.
#include <locus/ops/create.h>
#include <locus/ops/order.h>
#include <locus/ops/random.h>
#include <locus/ops/scan.h>
#include <locus/ops/search.h>

#include "tests/bench/bench.h"

namespace locus::bench {
namespace {

// Microseconds of make(context)(), and its ratio to a copy of `copied` bytes.
template <class F>
void measure(const std::string& name, Context c, int64_t copied, F make) {
  add_timed("numpy/" + name + "/" + to_string(c), [=](benchmark::State& state) {
    const auto call = make(c);
    const double ours = per_call(state, call);
    if (copied == 0) return;
    const Tensor from = random::randint(0, 100, {copied}, {c, u8}), to = zeros_like(from);
    constexpr int kCopies = 10;
    const double copy = timed([&] {
                          for (int i = 0; i < kCopies; ++i) from.copyto(to);
                          wait_all();
                        }) /
                        kCopies;
    state.counters["of_copy"] = copy / ours;
  });
}

}  // namespace

void add_numpy() {
  for (Context c : contexts()) {
    const bool large = c.type == DeviceType::gpu && real_gpu();
    const int64_t n = large ? 100'000'000 : 10'000'000, few = large ? 10'000'000 : 1'000'000;
    const std::string size = "_" + std::to_string(n), small = "_" + std::to_string(few);
    const auto numbers = [n](Context on) { return random::normal(0, 1, {n}, {on}); };
    measure("sort" + size, c, 0, [=](Context on) { return [x = numbers(on)] { sort(x); }; });
    measure("argsort" + size, c, 0, [=](Context on) { return [x = numbers(on)] { argsort(x); }; });
    measure("topk_100_of" + size, c, 0,
            [=](Context on) { return [x = numbers(on)] { topk(x, 100); }; });
    measure("unique" + small, c, 0, [=](Context on) {
      return [x = random::randint(0, few / 10, {few}, {on, i32})] { unique(x); };
    });
    measure("histogram_100" + size, c, 0,
            [=](Context on) { return [x = numbers(on)] { histogram(x, 100); }; });
    measure("cumsum" + size, c, 4 * n,
            [=](Context on) { return [x = numbers(on)] { cumsum(x); }; });
    measure("cumsum_rows_of_1000" + size, c, 4 * n, [=](Context on) {
      return [x = numbers(on).reshape({n / 1000, 1000})] { cumsum(x, 1); };
    });
    measure("cumsum_columns" + size, c, 4 * n, [=](Context on) {
      return [x = numbers(on).reshape({1000, n / 1000})] { cumsum(x, 0); };
    });
  }
}

}  // namespace locus::bench
