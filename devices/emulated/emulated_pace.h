// Time of emulated GPUs under a link model: kernels take the same time whether the other GPUs
// compute or not, so that placements can be compared on a machine with few cores.
//
// Each queue has a clock of its own. An operation begins when the one before it has ended, what it
// waits for has happened, and it was enqueued. A kernel runs as soon as a core is free and takes,
// on that clock, slower() times the core's time of the quickest of its first runs on views of the
// same shapes, or of a later one that is quicker by a fifth (the first may have met a neighbour).
// Events happen, and who waits for them goes on, when that clock says so: how late a queue's thread
// woke, how often its core went to others, and what a neighbour does to a core's clock and caches
// do not show, unless the cores cannot keep up with the model at all. What the program's own
// threads lose does: work begins no sooner than it is enqueued. Threads: any.
#pragma once

#include <chrono>

#include <locus/core/kernel.h>

namespace locus::emulated {

using Clock = std::chrono::steady_clock;

// How many times longer than on a core a kernel takes: 2, and more where there are fewer cores than
// GPUs, so that all of these together keep half of them busy.
int slower();
// Sets that, for so many GPUs and the cores that the process has, while the program starts.
void share_cores(int gpus);

// What this thread has computed so far, in time of a core.
std::chrono::nanoseconds core_time();

// Runs the kernel, and returns what the GPU takes for it. What it throws passes.
std::chrono::nanoseconds compute(Kernel kernel, const Call& call);

// Sleeps, and looks at the clock at the end: the system wakes a sleeper late.
void sleep_until(Clock::time_point t);

}  // namespace locus::emulated
