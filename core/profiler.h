// Writes a timeline of a program as a Chrome trace, for ui.perfetto.dev or chrome://tracing.
//
//   profiler::start("trace.json");
//   train();
//   profiler::stop();
//
// Each process in the trace is a context. Its rows are the context's streams, or the host's
// threads. Ops show shapes and dtypes of inputs and results. Copies show bytes, the user's line,
// and an arrow between contexts. Counters show each context's memory. Device times come from device
// events, other times from the host's clock; emulated contexts are marked. Each op uses a few
// hundred bytes of memory until stop(). Any thread may call these functions.
#pragma once

#include <string>

namespace locus::profiler {

// Starts recording the whole process. Throws Error if `path` cannot be written or a profile is
// being recorded already. The end of the program also stops the recording.
void start(const std::string& path);
// Waits for the recorded work, writes the trace to a temporary file, and renames the file to
// `path`. Throws Error if no profile was started or the disk is full, DeviceError if a device has
// failed.
void stop();

}  // namespace locus::profiler
