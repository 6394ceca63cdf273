// Reductions and softmax: bandwidth over the bytes that must move.
#include <locus/ops/create.h>
#include <locus/ops/reduce.h>
#include <locus/ops/softmax.h>

#include "tests/bench/bench.h"

namespace locus::bench {
namespace {

template <class F>
void measure(const std::string& name, Context c, const Shape& shape, double passes, F f) {
  add_timed(name + "/" + to_string(c), [=](benchmark::State& state) {
    const Tensor x = sample_values(c, f32, shape);
    const double bytes = passes * 4 * static_cast<double>(shape.size());
    state.counters["GB/s"] = 1e-9 * bytes / per_call(state, [&] { f(x); });
  });
}

}  // namespace

void add_reduce() {
  for (Context c : contexts()) {
    measure("sum_1e7", c, {10'000'000}, 1, [](const Tensor& x) { return sum(x); });
    measure("sum_16K", c, {16384}, 1, [](const Tensor& x) { return sum(x); });
    measure("sum_rows_8192x1000", c, {8192, 1000}, 1,
            [](const Tensor& x) { return sum(x, {.axis = 1}); });
    measure("sum_columns_8192x1000", c, {8192, 1000}, 1,
            [](const Tensor& x) { return sum(x, {.axis = 0}); });
    measure("sum_columns_1000000x8", c, {1000000, 8}, 1,
            [](const Tensor& x) { return sum(x, {.axis = 0}); });
    measure("sum_short_rows_1000000x8", c, {1000000, 8}, 1,
            [](const Tensor& x) { return sum(x, {.axis = 1}); });
    measure("bias_gradient_64x256", c, {64, 256}, 1,
            [](const Tensor& x) { return sum_to(x, {256}); });
    measure("argmax_rows_8192x1000", c, {8192, 1000}, 1,
            [](const Tensor& x) { return argmax(x, {.axis = 1}); });
    if (c.type == DeviceType::gpu && real_gpu())
      measure("softmax_10000x10000", c, {10000, 10000}, 2,
              [](const Tensor& x) { return softmax(x); });
    measure("softmax_8192x1000", c, {8192, 1000}, 2, [](const Tensor& x) { return softmax(x); });
    measure("softmax_256x10", c, {256, 10}, 2, [](const Tensor& x) { return softmax(x); });
    measure("log_softmax_columns_1000x8192", c, {1000, 8192}, 2,
            [](const Tensor& x) { return log_softmax(x, {.axis = 0}); });
  }
}

}  // namespace locus::bench
