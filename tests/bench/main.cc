// Runs the benchmarks and prints one table: microseconds per call, then counters. Takes Google
// Benchmark's flags, such as --benchmark_filter=train_step and --benchmark_out=FILE. Times of
// emulated GPUs say nothing about real ones. With --calls it times the calls that standard input
// describes (bench_calls.cc) and runs nothing else.
#include <cstdio>
#include <iostream>
#include <string_view>

#include <locus/ops/register.h>

#include "tests/bench/bench.h"

namespace {

class Table : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override {
    std::printf("%-64s %13s\n", "benchmark", "µs");
    return true;
  }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      std::printf("%-64s %12.2f", run.run_name.function_name.c_str(), run.GetAdjustedRealTime());
      for (const auto& [name, counter] : run.counters)
        std::printf("  %s %.4g", name.c_str(), counter.value);
      std::printf("%s%s\n", run.report_label.empty() ? "" : "  ", run.report_label.c_str());
      std::fflush(stdout);
    }
    count_ += runs.size();
  }
  void Finalize() override {
    std::printf("%zu benchmarks in %.0f s\n", count_, locus::bench::seconds() - start_);
  }

 private:
  size_t count_ = 0;
  double start_ = locus::bench::seconds();
};

}  // namespace

int main(int argc, char** argv) {
  locus::register_builtins();
  if (argc == 2 && std::string_view(argv[1]) == "--calls") {
    locus::bench::serve_calls();
    return 0;
  }
  locus::bench::add_collective();
  locus::bench::add_compile();
  locus::bench::add_convolution();
  locus::bench::add_dnn();
  locus::bench::add_eager();
  locus::bench::add_exercises();
  locus::bench::add_fuse();
  locus::bench::add_index();
  locus::bench::add_kernels();
  locus::bench::add_matmul();
  locus::bench::add_networks();
  locus::bench::add_norm();
  locus::bench::add_numpy();
  locus::bench::add_optim();
  locus::bench::add_prefetch();
  locus::bench::add_random();
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
  Table table;
  benchmark::RunSpecifiedBenchmarks(&table);
  benchmark::Shutdown();
}
