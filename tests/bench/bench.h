// Benchmarks register themselves from main, once the machine's contexts are known.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <locus/core/context.h>

namespace locus::bench {

void add_eager();       // bench_eager.cc
void add_exercises();   // bench_exercises.cc
void add_matmul();      // bench_matmul.cc
void add_prefetch();    // bench_prefetch.cc
void add_runtime();     // bench_runtime.cc
void add_reduce();      // bench_reduce.cc
void add_train_step();  // bench_train_step.cc
void add_transfer();    // bench_transfer.cc

// cpu(0), and gpu(0) when there is one, emulated or not: the names say which.
inline std::vector<Context> contexts() {
  std::vector<Context> list{cpu(0)};
  if (num_gpus() > 0) list.push_back(gpu(0));
  return list;
}
inline bool real_gpu() { return num_gpus() > 0 && !context_info(gpu(0)).emulated; }

inline void add(const std::string& name, std::function<void(benchmark::State&)> body) {
  benchmark::RegisterBenchmark(name.c_str(), std::move(body));
}

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

#ifdef LOCUS_WITH_CUDA
// out = a + b of n floats, as a program without Locus writes it. stream: a cudaStream_t.
void bare_add(const float* a, const float* b, float* out, int n, void* stream);
#endif

}  // namespace locus::bench
