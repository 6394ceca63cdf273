// One eager training step of a 784-256-128-10 network, 64 samples, SGD with momentum: record,
// forward, loss, backward, update. Steps follow each other without a wait; the wait at the end of a
// run is inside the time and spread over all steps.
#include <locus/core/autograd.h>
#include <locus/core/device.h>
#include <locus/core/generator.h>
#include <locus/nn/layers.h>
#include <locus/nn/loss.h>
#include <locus/nn/trainer.h>
#include <locus/ops/create.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>

#include "tests/bench/bench.h"

namespace locus::bench {
namespace {

constexpr int64_t kSamples = 64, kInputs = 784, kClasses = 10;

struct Training {
  explicit Training(Context c)
      : where(c),
        image(random::uniform(0, 1, {kSamples, kInputs}, c)),
        label(random::randint(0, kClasses, {kSamples}, c)) {
    net.add(nn::Dense(256, nn::relu), nn::Dense(128, nn::relu), nn::Dense(kClasses));
    net.initialize(init::Xavier(), c);
    net(image);
    trainer.emplace(net.parameters(), optim::SGD({.learning_rate = 0.01, .momentum = 0.9}));
  }
  Tensor forward() { return loss_fn(net(image), label); }
  void step() {
    Tensor loss;
    {
      const autograd::Record record;
      loss = forward();
    }
    loss.backward();
    trainer->step(kSamples);
  }

  Context where;
  nn::Sequential net;
  nn::SoftmaxCrossEntropyLoss loss_fn;
  std::optional<nn::Trainer> trainer;
  Tensor image, label;
};

// Microseconds a step over `steps` of them and the wait for the last.
double per_step(Training& t, int steps) {
  Device& d = device(t.where);
  d.synchronize({});
  const double start = seconds();
  for (int i = 0; i < steps; ++i) t.step();
  d.synchronize({});
  return (seconds() - start) * 1e6 / steps;
}

void train_step(benchmark::State& state, Context c, int steps) {
  random::seed(1);
  Training t(c);
  per_step(t, 50);
  std::vector<double> times;
  for (auto _ : state) {
    times.push_back(per_step(t, steps));
    state.SetIterationTime(times.back() * 1e-6 * steps);
  }
  state.counters["step_us"] = median(times);
  state.counters["loss"] = static_cast<double>(t.forward().mean().item<float>());
}

// Where the host's time goes: the calls of each part alone, without a wait in between.
void train_parts(benchmark::State& state, Context c) {
  random::seed(1);
  Training t(c);
  per_step(t, 50);
  Device& d = device(c);
  std::vector<double> forward, backward, update;
  for (auto _ : state) {
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
    state.SetIterationTime(t3 - t0);
  }
  state.counters["forward_us"] = median(forward);
  state.counters["backward_us"] = median(backward);
  state.counters["update_us"] = median(update);
}

void inference(benchmark::State& state, Context c) {
  Training t(c);
  Device& d = device(c);
  constexpr int kBatch = 200;
  std::vector<double> times;
  for (auto _ : state) {
    d.synchronize({});
    const double start = seconds();
    for (int i = 0; i < kBatch; ++i) t.net(t.image);
    d.synchronize({});
    times.push_back((seconds() - start) * 1e6 / kBatch);
    state.SetIterationTime(times.back() * 1e-6 * kBatch);
  }
  state.counters["forward_us"] = median(times);
}

void add_timed(const std::string& name, std::function<void(benchmark::State&)> body) {
  benchmark::RegisterBenchmark(name.c_str(), std::move(body))
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace

void add_train_step() {
  for (const Context c : contexts()) {
    const std::string where = "/" + to_string(c);
    for (const int steps : {1, 500})
      add_timed("train_step/" + std::to_string(steps) + where,
                [=](benchmark::State& state) { train_step(state, c, steps); });
    add_timed("train_step/parts" + where, [=](benchmark::State& state) { train_parts(state, c); });
    add_timed("train_step/inference" + where,
              [=](benchmark::State& state) { inference(state, c); });
  }
}

}  // namespace locus::bench
