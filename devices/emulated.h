// gpu(i) on a machine without one: LOCUS_EMULATED_GPUS=N. Each has memory and in-order queues of
// its own, runs the CPU's kernels on them asynchronously, and refuses what a real GPU would refuse.
//
// Copies take the time they take, and kernels share the CPU's thread pool: several emulated GPUs
// that compute at once are no faster than one. LOCUS_EMULATED_LINK changes both, to study
// placement: copies take the time of a modelled link (emulated_link.h), and every queue computes on
// one thread of its own at half the speed of a core or less, whatever the others do
// (emulated_pace.h): N GPUs then compute N times as much. context_info(c).modelled says that it is
// so. LOCUS_EMULATED_MEMORY="2G" sets the memory of each; unset, 4 GiB or what there is.
#pragma once

namespace locus {

// Registers gpu when LOCUS_EMULATED_GPUS is a number >= 1 (it then wins over real GPUs), and
// returns whether it did. When a variable makes no sense, the first use of a gpu throws Error.
bool register_emulated();

// Registers gpu for a machine that has none: the error of its first use says how to emulate some.
void register_no_gpus();

}  // namespace locus
