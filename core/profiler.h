// Shows where a program's time goes: a timeline for ui.perfetto.dev or chrome://tracing, totals by
// op, and named ranges.
//
//   profiler::start("trace.json");
//   {
//     profiler::Range epoch("epoch 1");
//     train();
//   }
//   profiler::stop();
//
//   profiler::start_totals();
//   train();
//   std::cout << profiler::dumps();
//
// Device times come from device events, other times from the host's clock; emulated contexts are
// marked. Any thread may call these functions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <locus/core/noncopyable.h>
#include <locus/core/op_totals.h>

namespace locus::profiler {

// Starts recording the whole process as a Chrome trace (see Details). Throws Error if `path` cannot
// be written or a profile is being recorded already. The end of the program also stops the
// recording.
void start(const std::string& path);
// Waits for the recorded work, writes the trace to a temporary file, and renames the file to
// `path`. Throws Error if no profile was started or the disk is full, DeviceError if a device has
// failed.
void stop();

// Starts counting ops and copies of the whole process, from zero. Finished calls take little
// memory. Throws Error if they are being counted already.
void start_totals();
// Stops counting; totals() and dumps() keep their values. Throws Error if nothing is being counted.
void stop_totals();
// The totals so far, by context, the longest time first. Waits for the recorded work. Throws Error
// if start_totals() was never called, DeviceError if a device has failed.
std::vector<OpTotals> totals();
// totals() as a table with the columns of MXNet's profiler.dumps(). `reset`: afterwards, counts
// start again from zero.
std::string dumps(bool reset = false);

// A named part of the program on this thread, while it lives: a bar in the trace around the
// thread's ops, and an NVTX range in a build with CUDA. End a thread's ranges in reverse order of
// their begin.
class [[nodiscard]] Range : NonCopyable {
 public:
  explicit Range(std::string name);
  ~Range();

 private:
  struct Open;
  std::unique_ptr<Open> open_;  // null: nothing records
};

// --- Details ---

// The trace:
//   - Each process in the trace is a context. Its rows are the context's streams, or the host's
//     threads.
//   - Ops show shapes and dtypes of inputs and results. Copies show bytes, the user's line, and an
//     arrow between contexts. Counters show each context's memory.
//   - Each op uses a few hundred bytes of memory until stop().
//   - A Range that began before start(), or ends after stop(), is not in the trace.

// While a trace or totals are recorded, compiled functions run call by call, and every op of a
// device has two events around it. With LOCUS_NVTX=1 the launch of every op is an NVTX range.

}  // namespace locus::profiler
