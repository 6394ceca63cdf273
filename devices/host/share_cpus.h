// CPUs of a process, and of those that share a machine. In thread_pool.cc.
#pragma once

namespace locus {

int num_cpus();  // that this process may use, at least 1

// This process is number `part` of `parts` on the machine: it keeps to its part of the CPUs that it
// may use, if there are as many, and computes with as many threads, unless LOCUS_PIN=0 and
// LOCUS_NUM_THREADS say otherwise. Before the pool is used. `bound`: it has CPUs of its own
// already.
void share_cpus(int part, int parts, bool bound);

}  // namespace locus
