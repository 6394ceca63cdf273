// For devices in a child of fork(): the child has none of the parent's threads, and CUDA does not
// work there.
#pragma once

#include <locus/core/context.h>

namespace locus {

// The number of forks from the process that called this first to this process. Threads: any.
int fork_count();

// Throws the DeviceError for a device that the parent used.
[[noreturn]] void throw_used_before_fork(Context c);

}  // namespace locus
