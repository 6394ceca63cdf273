// Internal to devices/cuda: the end of the process. exit() unloads CUDA and its libraries while
// detached threads may still compute. Their next call fails with a DeviceError.
#pragma once

#include <locus/core/error.h>
#include <locus/core/memory/unload.h>
#include <locus/devices/cuda/driver.h>
#include <locus/devices/host/fork.h>

namespace locus::cuda {

// After this call: if a thread does not catch a DeviceError while the process exits, the thread
// stops, and the process ends with exit()'s status. Call it again after another library has
// started: exit handlers run in reverse order, and this one must be first.
void watch_exit();

// For destructors: calls f() with `device` current. If that is impossible, as at exit or in a child
// of fork(), the system releases what f() would have released.
void release_on(int device, const auto& f) noexcept {
  if (devices_unload || fork_count() > 0) return;
  try {
    const Guard guard(device);
    f();
  } catch (const Error&) {
  }
}

}  // namespace locus::cuda
