// Fused functions beside a copy of as many bytes and beside the same ops one by one; the host's
// time for a call.
#include <string>

#include <locus/core/stream.h>
#include <locus/core/tensor.h>
#include <locus/ops/activation.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/fuse.h>
#include <locus/ops/unary.h>

#include "tests/bench/bench.h"

namespace locus::bench {
namespace {

Tensor ten_ops(const Tensor& x) {
  const Tensor a = relu(x * 2 + 1), b = square(a - .5f) * .25f;
  return abs(maximum(b - 3, x * .1f) + 1);
}
Tensor softplus_of(const Tensor& x) { return maximum(x, 0) + log1p(exp(-abs(x))); }
Tensor xy_z(const Tensor& x, const Tensor& y, const Tensor& z) { return x * y + z; }

// Counters: a copy that reads and writes `tensors` / 2 tensors, and the plain function.
template <class Ours, class Plain>
void beside_copy(benchmark::State& state, Context c, int64_t n, int tensors, const Ours& ours,
                 const Plain& plain) {
  const Tensor from = ones({tensors * n / 2}, c), to = zeros({tensors * n / 2}, c);
  const auto measure = [](const auto& f) {
    f();
    return timed([&] {
             for (int i = 0; i < 5; ++i) f();
             wait_all();
           }) /
           5;
  };
  std::vector<double> eager;
  const Turns t = take_turns(
      state, 3, ours, [&] { from.copyto(to); },
      [&](const auto& f) {
        eager.push_back(measure(plain));
        return measure(f);
      });
  state.counters["copy_us"] = t.raw * 1e6;
  state.counters["ratio"] = t.ours / t.raw;
  state.counters["eager_us"] = median(eager) * 1e6;
}

void call(benchmark::State& state, Context c) {
  const Fused f = fuse(&softplus_of, "call");
  const Tensor x = ones({10}, c);
  f(x);
  issue(
      state, 1000, [&] { f(x); }, [&] { softplus_of(x); }, [c] { device(c).synchronize({}); });
}

}  // namespace

void add_fuse() {
  for (Context c : contexts()) {
    const std::string at = "/" + to_string(c);
    const int64_t n = c.type == DeviceType::gpu && real_gpu() ? 100'000'000 : 10'000'000;
    const std::string size = "/" + std::to_string(n);
    add_timed("fuse/ten_ops" + size + at, [c, n](benchmark::State& s) {
      const Fused f = fuse(&ten_ops, "ten_ops");
      const Tensor x = ones({n}, c);
      beside_copy(
          s, c, n, 2, [&] { f(x); }, [&] { ten_ops(x); });
    });
    add_timed("fuse/softplus" + size + at, [c, n](benchmark::State& s) {
      const Fused f = fuse(&softplus_of, "softplus_of");
      const Tensor x = ones({n}, c);
      beside_copy(
          s, c, n, 2, [&] { f(x); }, [&] { softplus_of(x); });
    });
    add_timed("fuse/xy+z" + size + at, [c, n](benchmark::State& s) {
      const Fused f = fuse(&xy_z, "xy_z");
      const Tensor x = ones({n}, c), y = ones({n}, c), z = ones({n}, c);
      beside_copy(
          s, c, n, 4, [&] { f(x, y, z); }, [&] { xy_z(x, y, z); });
    });
    add_timed("fuse/call" + at, [c](benchmark::State& s) { call(s, c); });
  }
}

}  // namespace locus::bench
