// Fused functions beside a copy of as many bytes and beside the same ops one by one; the host's
// time for a call.
#include <string>

#include <locus/core/autograd.h>
#include <locus/core/stream.h>
#include <locus/core/tensor.h>
#include <locus/ops/activation.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/fuse.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
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

Tensor softmax_of(const Tensor& x) {
  const Tensor e = exp(x - max(x, {.axis = 1, .keepdims = true}));
  return e / sum(e, {.axis = 1, .keepdims = true});
}
Tensor layer_norm_of(const Tensor& x) {
  const Tensor d = x - mean(x, {.axis = 1, .keepdims = true});
  return d / sqrt(mean(d * d, {.axis = 1, .keepdims = true}) + 1e-5);
}

// Counters: a copy that reads and writes `tensors` / 2 tensors, and the plain function.
template <class Ours, class Plain>
void beside_copy(benchmark::State& state, Context c, int64_t n, int tensors, const Ours& ours,
                 const Plain& plain) {
  const Tensor from = ones({tensors * n / 2}, c), to = zeros({tensors * n / 2}, c);
  const auto measure = [](const auto& f) {
    f();
    wait_all();
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

// Rows of 1000, forward, or forward and backward. A copy moves as many bytes as must be moved: x
// and y; then x, y's gradient and x's gradient.
void rows(benchmark::State& state, Context c, int64_t n, Tensor (*plain)(const Tensor&),
          const std::string& name, bool backward) {
  const Fused f = fuse(plain, name);
  const Tensor x = random::normal(0, 1, {n / 1000, 1000}, {c}), dy = ones_like(x);
  if (backward) x.attach_grad();
  const auto run = [&](const auto& g) {
    if (!backward) return void(g(x));
    Tensor y;
    {
      const autograd::Record record;
      y = g(x);
    }
    y.backward({.head_gradient = dy});
  };
  beside_copy(
      state, c, n, backward ? 5 : 2, [&] { run(f); }, [&] { run(plain); });
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
    const std::string shape = "/" + std::to_string(n / 1000) + "x1000";
    for (const bool backward : {false, true}) {
      const std::string with = (backward ? "_backward" : "") + shape + at;
      add_timed("fuse/softmax" + with, [c, n, backward](benchmark::State& s) {
        rows(s, c, n, &softmax_of, "softmax_of", backward);
      });
      add_timed("fuse/layer_norm" + with, [c, n, backward](benchmark::State& s) {
        rows(s, c, n, &layer_norm_of, "layer_norm_of", backward);
      });
    }
    add_timed("fuse/call" + at, [c](benchmark::State& s) { call(s, c); });
  }
}

}  // namespace locus::bench
