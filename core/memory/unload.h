// For the end of the process: a device's library unloads itself while other threads may still use
// the device. Internal to core and devices.
#pragma once

#include <atomic>

namespace locus {

// True from shortly before the first such library unloads itself. Destructors then leave device
// resources to the system: a stopped thread may hold the locks.
inline std::atomic<bool> devices_unload{false};

}  // namespace locus
