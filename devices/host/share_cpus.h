// CPUs of a process, and of processes that share a machine. In thread_pool.cc.
#pragma once

namespace locus {

int num_cpus();  // that this process may use, at least 1

// This process is number `part` of `parts` on the machine. If it may use at least `parts` CPUs,
// pins it to its part of them, unless LOCUS_PIN=0. Sets as many threads, unless LOCUS_NUM_THREADS
// is set. If `bound`, the process already has separate CPUs and keeps them. Call before the pool is
// used.
void share_cpus(int part, int parts, bool bound);

}  // namespace locus
