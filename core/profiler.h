// A timeline of a program, as a Chrome trace: open it in ui.perfetto.dev or chrome://tracing.
//
//   profiler::start("trace.json");
//   train();
//   profiler::stop();
//
// A process of the trace is a context; its rows are the context's streams, on the host the threads.
// Ops show the shapes and dtypes of what they read and made, copies their bytes, their line and an
// arrow from context to context, counters the memory of each context. Times on devices are those of
// their events, everything else the host's clock; an emulated context says so. Each op takes some
// hundred bytes of memory until stop(). Threads: any.
#pragma once

#include <string>

namespace locus::profiler {

// Starts recording the whole process. Throws Error when `path` cannot be written or a profile is
// being recorded already. The end of the program stops it, too.
void start(const std::string& path);
// Waits for the recorded work and writes the trace: beside `path` first, then renamed to it. Throws
// Error when nothing was started or the disk is full, DeviceError when a device has failed.
void stop();

}  // namespace locus::profiler
