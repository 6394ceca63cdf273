// gpu(i) on a machine without one: LOCUS_EMULATED_GPUS=N. Each has memory and in-order queues of
// its own, runs the CPU's kernels on them asynchronously, and refuses what a real GPU would refuse.
#pragma once

namespace locus {

// Registers gpu when LOCUS_EMULATED_GPUS is a number >= 1 (it then wins over real GPUs), and
// returns whether it did. When the variable is not a number, the first use of a gpu throws Error.
bool register_emulated();

}  // namespace locus
