// Microseconds of a training step, eager, captured and compiled, by batch size; steps follow each
// other without a wait. Also: a function of a large tensor, the host's time per call, the cost of
// recording, and compiled models on two GPUs against one.
#include <algorithm>

#include <locus/core/capture.h>
#include <locus/core/generator.h>
#include <locus/nn/train_step.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>

#include "tests/bench/bench.h"
#include "tests/bench/training.h"

namespace locus::bench {
namespace {

constexpr int64_t kLarge = int64_t{16} << 20;  // 64 MB

void eager(benchmark::State& state, Context c, int64_t samples) {
  Training t(c, samples);
  per_call(state, [&] { t.step(); });
}

// Compiles the network only.
void hybridized(benchmark::State& state, Context c, int64_t samples) {
  Training t(c, samples);
  t.net.hybridize();
  per_call(state, [&] { t.step(); });
}

void captured(benchmark::State& state, Context c, int64_t samples) {
  Training t(c, samples);
  t.step();
  Capture capture(c);
  t.step();
  Graph graph = capture.end();
  per_call(state, [&] { graph.replay(); });
}

void compiled(benchmark::State& state, Context c, int64_t samples) {
  Training t(c, samples);
  nn::TrainStep step(t.net, t.loss_fn, *t.trainer);
  per_call(state, [&] { step(t.image, t.label); });
}

// Alternates two batches, like a loader.
void compiled_batches(benchmark::State& state, Context c, int64_t samples) {
  Training t(c, samples);
  nn::TrainStep step(t.net, t.loss_fn, *t.trainer);
  const Tensor images[] = {t.image, t.image.copyto(c)}, labels[] = {t.label, t.label.copyto(c)};
  size_t i = 0;
  per_call(state, [&] { step(images[i % 2], labels[i % 2]), ++i; });
}

// A function of a large tensor: eager, compiled, and the copy of its input, which a compiled call
// makes as well as a copy of its result.
void large_eager(benchmark::State& state, Context c) {
  const Tensor x = ones({kLarge}, c);
  per_call(state, [&] { x + 1; });
}
void large_compiled(benchmark::State& state, Context c) {
  const Tensor x = ones({kLarge}, c);
  Compiled f([](const Tensors& in) { return Tensors{in[0] + 1}; });
  per_call(state, [&] { f({x}); });
}
void large_copy(benchmark::State& state, Context c) {
  const Tensor x = ones({kLarge}, c);
  per_call(state, [&] { x.copyto(c); });
}

// Alternates eager and compiled steps, so a disturbance slows both.
void beside(benchmark::State& state, Context c, int64_t samples) {
  Training plain(c, samples), replayed(c, samples);
  nn::TrainStep step(replayed.net, replayed.loss_fn, *replayed.trainer);
  Device& d = device(c);
  const int steps = static_cast<int>(std::max<int64_t>(1, 2048 / samples));
  const auto time_of = [&](auto&& once) {
    const double start = seconds();
    for (int i = 0; i < steps; ++i) once();
    d.synchronize({});
    return (seconds() - start) / steps;
  };
  std::vector<double> eager_times, ratios;
  rounds(state, [&] {
    eager_times.push_back(time_of([&] { plain.step(); }));
    const double time = time_of([&] { step(replayed.image, replayed.label); });
    ratios.push_back(time / eager_times.back());
    return time;
  });
  state.counters["eager_us"] = median(eager_times) * 1e6;
  state.counters["of_eager"] = median(ratios);
}

// The host's calls only.
void issue(benchmark::State& state, Context c) {
  Training t(c, 64);
  nn::TrainStep step(t.net, t.loss_fn, *t.trainer);
  Device& d = device(c);
  constexpr int kCalls = 50;
  for (int i = 0; i < kCalls; ++i) step(t.image, t.label);
  rounds(state, [&] {
    d.synchronize({});
    return timed([&] {
             for (int i = 0; i < kCalls; ++i) step(t.image, t.label);
           }) /
           kCalls;
  });
  d.synchronize({});
}

// The first call with its wait, less an eager step with its wait, in units of eager steps.
void recording(benchmark::State& state, Context c, int64_t samples) {
  Training t(c, samples);
  Device& d = device(c);
  const auto once = [&](auto&& step) {
    d.synchronize({});
    return timed([&] {
      step();
      d.synchronize({});
    });
  };
  std::vector<double> plain;
  for (int i = 0; i < 20; ++i) once([&] { t.step(); });
  nn::TrainStep step(t.net, t.loss_fn, *t.trainer);
  const double first = rounds(state, [&] {
    plain.push_back(once([&] { t.step(); }));
    step.compiled().clear();
    return once([&] { step(t.image, t.label); });
  });
  state.counters["eager_us"] = median(plain) * 1e6;
  state.counters["eager_steps"] = (first - median(plain)) / median(plain);
}

void two_models(benchmark::State& state) {
  Training a(gpu(0), 1024), b(gpu(1), 1024);
  nn::TrainStep first(a.net, a.loss_fn, *a.trainer), second(b.net, b.loss_fn, *b.trainer);
  constexpr int kSteps = 200;
  const auto run = [&](bool both) {
    return timed([&] {
             for (int i = 0; i < kSteps; ++i) {
               first(a.image, a.label);
               if (both) second(b.image, b.label);
             }
             wait_all();
           }) /
           kSteps;
  };
  run(true);
  std::vector<double> one;
  const double two = rounds(state, [&] {
    one.push_back(run(false));
    return run(true);
  });
  state.counters["speed_up"] = 2 * median(one) / two;
}

}  // namespace

void add_compile() {
  for (const Context c : contexts()) {
    const std::string where = "/" + to_string(c);
    for (const int64_t samples : {64, 256, 1024, 4096}) {
      const std::string of = "/" + std::to_string(samples) + where;
      add_timed("compile/eager" + of, [=](auto& state) { eager(state, c, samples); });
      add_timed("compile/hybridized" + of, [=](auto& state) { hybridized(state, c, samples); });
      if (is_host(c))
        add_timed("compile/beside" + of, [=](auto& state) { beside(state, c, samples); });
      if (!is_host(c))
        add_timed("compile/captured" + of, [=](auto& state) { captured(state, c, samples); });
      add_timed("compile/compiled" + of, [=](auto& state) { compiled(state, c, samples); });
      add_timed("compile/batches" + of, [=](auto& state) { compiled_batches(state, c, samples); });
    }
    add_timed("compile/large_eager" + where, [=](auto& state) { large_eager(state, c); });
    add_timed("compile/large_compiled" + where, [=](auto& state) { large_compiled(state, c); });
    add_timed("compile/large_copy" + where, [=](auto& state) { large_copy(state, c); });
    add_timed("compile/issue" + where, [=](auto& state) { issue(state, c); });
    add_timed("compile/recording/64" + where, [=](auto& state) { recording(state, c, 64); });
  }
  if (num_gpus() >= 2) add_timed("compile/two_models", two_models);
}

}  // namespace locus::bench
