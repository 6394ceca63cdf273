#include <locus/devices/cuda/exit.h>

#include <unistd.h>

#include <cstdlib>
#include <exception>

namespace locus::cuda {
namespace {

thread_local bool exits = false;  // this thread called exit()
std::terminate_handler handler_before = nullptr;

// std::terminate calls it on the thread of an uncaught exception.
void stop_thread_or_terminate() {
  try {
    if (const std::exception_ptr error = std::current_exception(); error && !exits)
      std::rethrow_exception(error);
  } catch (const DeviceError&) {
    for (;;) pause();  // until the process has ended
  } catch (...) {
  }
  handler_before();
  std::abort();
}

}  // namespace

void watch_exit() {
  static_cast<void>(std::atexit([] {
    if (devices_unload) return;
    exits = true;
    handler_before = std::get_terminate();
    std::set_terminate(&stop_thread_or_terminate);
    devices_unload = true;
  }));
}

}  // namespace locus::cuda
