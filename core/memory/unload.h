// The end of the process, when a device's library unloads itself while other threads may still use
// the device. Internal to core and devices.
#pragma once

#include <atomic>

namespace locus {

// True from shortly before the first such library unloads itself. A destructor then leaves what it
// owns on a device to the system: a thread that has stopped may hold the locks.
inline std::atomic<bool> devices_unload{false};

}  // namespace locus
