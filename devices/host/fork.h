// What devices do in a child of fork(): the child has none of the parent's threads, and CUDA does
// not work there.
#pragma once

#include <locus/core/context.h>

namespace locus {

// The number of forks between this process and the one that asked first. Any thread may call it.
int fork_count();

// Throws the DeviceError of a device that the parent used.
[[noreturn]] void throw_used_before_fork(Context c);

}  // namespace locus
