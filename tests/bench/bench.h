// Helpers of the benchmarks. main.cc registers them, because names depend on the machine's
// contexts.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <locus/core/context.h>
#include <locus/core/device.h>

namespace locus::bench {

void add_collective();   // bench_collective.cc
void add_compile();      // bench_compile.cc
void add_convolution();  // bench_convolution.cc
void add_dnn();          // bench_dnn.cc
void add_eager();        // bench_eager.cc
void add_exercises();    // bench_exercises.cc
void add_fuse();         // bench_fuse.cc
void add_index();        // bench_index.cc
void add_kernels();      // bench_user_kernels.cc
void add_matmul();       // bench_matmul.cc
void add_networks();     // bench_networks.cc
void add_norm();         // bench_norm.cc
void add_numpy();        // bench_numpy.cc
void add_optim();        // bench_optim.cc
void add_prefetch();     // bench_prefetch.cc
void add_random();       // bench_random.cc
void add_reduce();       // bench_reduce.cc
void add_runtime();      // bench_runtime.cc
void add_train_step();   // bench_train_step.cc
void add_transfer();     // bench_transfer.cc

void serve_calls();  // bench_calls.cc

// cpu(0), and gpu(0) if it exists, real or emulated. Benchmark names say which.
inline std::vector<Context> contexts() {
  std::vector<Context> list{cpu(0)};
  if (num_gpus() > 0) list.push_back(gpu(0));
  return list;
}
inline bool real_gpu() { return num_gpus() > 0 && !context_info(gpu(0)).emulated; }

// Rates use real time, because one thread's processor time leaves out the other threads.
inline void add(const std::string& name, std::function<void(benchmark::State&)> body) {
  benchmark::RegisterBenchmark(name.c_str(), std::move(body))
      ->UseRealTime()
      ->MinTime(0.1)
      ->Unit(benchmark::kMicrosecond);
}

// Runs `body` once. The body measures with rounds(), which sets the benchmark's time.
inline void add_timed(const std::string& name, std::function<void(benchmark::State&)> body) {
  benchmark::RegisterBenchmark(name.c_str(), std::move(body))
      ->UseManualTime()
      ->Iterations(1)
      ->Unit(benchmark::kMicrosecond);
}

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The mean of the middle two if the number of values is even. `v` is not empty.
inline double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return (v[(v.size() - 1) / 2] + v[v.size() / 2]) / 2;
}

template <class F>
double timed(const F& f) {
  const double start = seconds();
  f();
  return seconds() - start;
}

// Calls `round` for a tenth of a second, at least five times. A round returns the seconds of one
// measured call. Returns their median, the benchmark's time.
template <class F>
double rounds(benchmark::State& state, const F& round) {
  constexpr double kSeconds = 0.1;
  constexpr size_t kLeast = 5;
  std::vector<double> times;
  for (auto _ : state) {
    const double start = seconds();
    while (times.size() < kLeast || seconds() - start < kSeconds) times.push_back(round());
    state.SetIterationTime(median(times));
  }
  return median(times);
}

// Seconds per call of calls in sequence with one wait at the end: as many calls as take 20 ms, at
// most 200.
template <class F>
double per_call(benchmark::State& state, const F& call) {
  constexpr double kRound = 0.02;
  constexpr int kMost = 200;
  const auto run = [&](int calls) {
    return timed([&] {
             for (int i = 0; i < calls; ++i) call();
             wait_all();
           }) /
           calls;
  };
  run(1);
  const int calls = static_cast<int>(std::clamp(kRound / run(2), 1.0, double{kMost}));
  return rounds(state, [&] { return run(calls); });
}

// Median seconds of two calls that alternate. `time` measures one call once. The benchmark's time
// is that of `ours`.
struct Turns {
  double ours, raw;
};
template <class Ours, class Raw, class Time>
Turns take_turns(benchmark::State& state, int warm_up, const Ours& ours, const Raw& raw,
                 const Time& time) {
  std::vector<double> them;
  for (int i = 0; i < warm_up; ++i) time(ours), time(raw);
  const double us = rounds(state, [&] {
    them.push_back(time(raw));
    return time(ours);
  });
  return {us, median(them)};
}
template <class Ours, class Raw>
Turns take_turns(benchmark::State& state, int warm_up, const Ours& ours, const Raw& raw) {
  return take_turns(state, warm_up, ours, raw, [](const auto& f) { return timed(f); });
}

// The host's seconds per call, in batches of `calls` that start with empty queues. drain() waits
// for the queues and is not timed.
template <class Ours, class Raw, class Drain>
void issue(benchmark::State& state, int calls, const Ours& ours, const Raw& raw,
           const Drain& drain) {
  const auto batch = [&](const auto& call) {
    drain();
    return timed([&] {
             for (int i = 0; i < calls; ++i) call();
           }) /
           calls;
  };
  const Turns t = take_turns(state, 3, ours, raw, batch);
  drain();
  state.counters["raw_us"] = t.raw * 1e6;
  state.counters["ratio"] = t.ours / t.raw;
}

#ifdef LOCUS_WITH_CUDA
// out = a + b of n floats without Locus. stream: a cudaStream_t.
void bare_add(const float* a, const float* b, float* out, int n, void* stream);
#endif

}  // namespace locus::bench
