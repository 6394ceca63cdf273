// One eager training step of training.h's network, 64 samples: record, forward, loss, backward,
// update. Steps run without waits; the time includes the wait at the end, spread over all steps.
#include <locus/core/generator.h>
#include <locus/ops/reduce.h>

#include "tests/bench/bench.h"
#include "tests/bench/training.h"

namespace locus::bench {
namespace {

constexpr int64_t kSamples = 64;

// Seconds per step, with the wait for the last.
double per_step(Training& t, int steps) {
  Device& d = device(t.where);
  d.synchronize({});
  return timed([&] {
           for (int i = 0; i < steps; ++i) t.step();
           d.synchronize({});
         }) /
         steps;
}

void train_step(benchmark::State& state, Context c, int steps) {
  random::seed(1);
  Training t(c, kSamples);
  per_step(t, 50);
  rounds(state, [&] { return per_step(t, steps); });
  state.counters["loss"] = static_cast<double>(t.forward().mean().item<float>());
}

// The host's time in each part, without waits.
void train_parts(benchmark::State& state, Context c) {
  random::seed(1);
  Training t(c, kSamples);
  per_step(t, 50);
  Device& d = device(c);
  std::vector<double> forward, backward, update;
  rounds(state, [&] {
    const double t0 = seconds();
    Tensor loss;
    {
      const autograd::Record record;
      loss = t.forward();
    }
    const double t1 = seconds();
    loss.backward();
    const double t2 = seconds();
    t.trainer->step(kSamples);
    const double t3 = seconds();
    d.synchronize({});
    forward.push_back((t1 - t0) * 1e6);
    backward.push_back((t2 - t1) * 1e6);
    update.push_back((t3 - t2) * 1e6);
    return t3 - t0;
  });
  state.counters["forward_us"] = median(forward);
  state.counters["backward_us"] = median(backward);
  state.counters["update_us"] = median(update);
}

void inference(benchmark::State& state, Context c) {
  Training t(c, kSamples);
  per_call(state, [&] { t.net(t.image); });
}

}  // namespace

void add_train_step() {
  for (const Context c : contexts()) {
    const std::string where = "/" + to_string(c);
    for (const int steps : {1, 100})
      add_timed("train_step/" + std::to_string(steps) + where,
                [=](benchmark::State& state) { train_step(state, c, steps); });
    add_timed("train_step/parts" + where, [=](benchmark::State& state) { train_parts(state, c); });
    add_timed("train_step/inference" + where,
              [=](benchmark::State& state) { inference(state, c); });
  }
}

}  // namespace locus::bench
