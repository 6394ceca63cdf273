// Measures a function: the time of the call on the host, and the time of its work on devices.
//
//   const Benchmark written = benchmark([&] { exp(x) / exp(x).sum(); }, {}, "written out");
//   const Benchmark built_in = benchmark([&] { softmax(x); }, {}, "built in");
//   std::cout << written.table() << comparison_table({written, built_in});
//
// Each run waits until its contexts are idle, records an event on each, calls the function, and
// records a second event. Threads: any; work of other threads on the contexts is measured, too.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <locus/core/caller.h>
#include <locus/core/context.h>

namespace locus {

struct BenchmarkOptions {
  std::vector<Context> contexts = {};  // timed; empty: all GPUs in use after the warm-up
  int warmup = 10;                     // calls before the measured ones
  int repeat = 100;                    // measured calls
  double max_seconds = 2;              // the warm-up, and the measured calls, each end after this
};

// Of all runs, in microseconds. Percentiles between two runs are interpolated.
struct Percentiles {
  double mean = 0, min = 0, p10 = 0, median = 0, p90 = 0, max = 0, deviation = 0;
};

struct Benchmark {
  std::string name;
  Percentiles host;  // of the call; includes waits only if the function waits
  // Between the two events on the context's current stream. On a host context: of the call.
  std::vector<std::pair<Context, Percentiles>> device = {};
  int runs = 0;  // at least 1; fewer than `repeat` if max_seconds were over

  // A row for the host and for each context.
  std::string table() const;
};

// Calls f warmup + repeat times. The default name is the line of the call. ValueError: f is empty,
// an option is out of range, or a context is named twice. DeviceError: a context does not exist, or
// a device has failed. CaptureError: work is being captured. Errors of f are passed on.
Benchmark benchmark(const std::function<void()>& f, const BenchmarkOptions& options = {},
                    std::string name = "", Caller = Caller::here());

// A row for each benchmark: its median times, and their ratios to the first benchmark's. ValueError
// if there is none.
std::string comparison_table(const std::vector<Benchmark>& all, Caller = Caller::here());

// --- Details ---

// A device time includes pauses in which the device waited for the host's next launch. Work that
// the function enqueues on other streams, such as non-blocking copies to the host, counts as far as
// the current stream waits for it.

}  // namespace locus
