// Emulated GPUs: gpu(i) on a machine without a GPU, for tests and studies of placement.
//
//   LOCUS_EMULATED_GPUS=2 ./program
//
// Each emulated GPU has memory and in-order queues, runs the CPU's kernels asynchronously, and
// refuses what a real GPU would refuse.
//
// Kernels share the CPU's thread pool: several emulated GPUs that compute at once are no faster
// than one. LOCUS_EMULATED_MEMORY="2G" sets the memory of each. Unset: 4 GiB, or less if the
// machine has less.
#pragma once

namespace locus {

// If LOCUS_EMULATED_GPUS is a number >= 1, registers gpu in place of real GPUs. Returns whether it
// did. If a variable is malformed, the first use of a gpu throws Error.
bool register_emulated();

// Registers gpu on a machine without GPUs. The first use of a gpu then throws an Error that says
// how to emulate GPUs.
void register_no_gpus();

// --- Details ---
//
// LOCUS_EMULATED_LINK models time, to study placement:
// - Copies take the time of a modelled link (emulated_link.h).
// - Every queue computes on one thread, at half the speed of a core or less (emulated_pace.h).
//   Other GPUs do not slow it down: N GPUs compute N times as much.
// - context_info(c).modelled is true.

}  // namespace locus
