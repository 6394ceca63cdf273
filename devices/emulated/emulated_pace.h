// Time of emulated GPUs under a link model. A kernel takes the same time whether other GPUs compute
// or not, so placements can be compared on a machine with few cores.
//
// Each queue has a clock. An operation begins when it is enqueued, its predecessor has ended and
// what it waits for has happened. A kernel runs as soon as a core is free. On the clock it takes
// slower() times the core time of its quickest early run with the same shapes and strides. A later
// run counts only if faster by a fifth.
// Threads: any.
#pragma once

#include <chrono>

#include <locus/core/kernel.h>

namespace locus::emulated {

using Clock = std::chrono::steady_clock;

// How many times longer a kernel takes than on a core: 2, or more if all GPUs together would keep
// more than half of the cores busy.
int slower();
// Sets slower() for so many GPUs and the process's cores, while the program starts.
void share_cores(int gpus);

// This thread's CPU time so far.
std::chrono::nanoseconds core_time();

// Runs the kernel and returns its modelled time. Passes on what the kernel throws.
std::chrono::nanoseconds compute(Kernel kernel, const Call& call);

// Sleeps, then spins at the end, because the system wakes sleepers late.
void sleep_until(Clock::time_point t);

// --- Details ---
//
// Events fire, and waiters go on, by the queue's clock. So late wake-ups and shared cores do not
// show, unless the cores cannot keep up with the model. Delays of the program's own threads do
// show: work begins no sooner than it is enqueued.

}  // namespace locus::emulated
