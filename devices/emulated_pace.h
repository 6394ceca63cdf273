// The pace of emulated GPUs under a link model: kernels that take the same time whether the other
// GPUs compute or not, so that placements can be compared on a machine with few cores.
//
// A kernel runs on one core, and takes kSlower times the core's time of the quickest of its first
// runs on views of the same shapes, or of a later one that is quicker by a fifth (the first may
// have met a neighbour); the rest is slept. So two GPUs compute at once, as real ones do, even
// where only one core is free, and what a neighbour does to a core's clock and caches does not
// show. Threads: any.
#pragma once

#include <chrono>

#include <locus/core/kernel.h>

namespace locus::emulated {

inline constexpr int kSlower = 2;

// Runs the kernel and returns when its time is over. What it throws passes at once.
void compute_at_pace(Kernel kernel, const Call& call);

// Sleeps, and looks at the clock at the end: the system wakes a sleeper late.
void sleep_until(std::chrono::steady_clock::time_point t);

}  // namespace locus::emulated
