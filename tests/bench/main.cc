// Sets up every benchmark; Google Benchmark's own flags apply (--benchmark_filter=train_step,
// --benchmark_format=json). Times of emulated GPUs say nothing about real ones.
#include <iostream>

#include <locus/ops/register.h>

#include "tests/bench/bench.h"

int main(int argc, char** argv) {
  locus::register_builtins();
  locus::bench::add_collective();
  locus::bench::add_compile();
  locus::bench::add_convolution();
  locus::bench::add_dnn();
  locus::bench::add_eager();
  locus::bench::add_exercises();
  locus::bench::add_index();
  locus::bench::add_matmul();
  locus::bench::add_networks();
  locus::bench::add_norm();
  locus::bench::add_optim();
  locus::bench::add_prefetch();
  locus::bench::add_reduce();
  locus::bench::add_runtime();
  locus::bench::add_train_step();
  locus::bench::add_transfer();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  for (const locus::Context c : locus::bench::contexts()) {
    const locus::ContextInfo info = locus::context_info(c);
    std::cerr << to_string(c) << ": " << info.name << (info.emulated ? " (emulated)" : "") << "\n";
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
