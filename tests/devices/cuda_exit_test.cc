// The end of a process whose other threads use CUDA. Needs a build with CUDA, but no GPU.
#ifdef LOCUS_WITH_CUDA
#include <locus/devices/cuda/exit.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace locus {
namespace {

using testing::ExitedWithCode;
using testing::KilledBySignal;

class CudaExitDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void TearDown() override { GTEST_FLAG_SET(death_test_style, style_); }

 private:
  const std::string style_ = GTEST_FLAG_GET(death_test_style);
};

void fail() { throw DeviceError("gone"); }

// Exits with 7, while another thread throws an uncaught E during exit handlers.
template <class E>
[[noreturn]] void exit_while_a_thread_throws() {
  std::atexit([] { std::this_thread::sleep_for(std::chrono::milliseconds(200)); });
  cuda::watch_exit();
  cuda::watch_exit();
  std::thread([] {
    while (!devices_unload) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    throw E("gone");
  }).detach();
  std::exit(7);
}

TEST_F(CudaExitDeathTest, ADeviceErrorOfAnotherThreadLeavesTheExitCodeAsItIs) {
  EXPECT_EXIT(exit_while_a_thread_throws<DeviceError>(), ExitedWithCode(7), "");
}

TEST_F(CudaExitDeathTest, AnyOtherErrorEndsTheProcessAsBefore) {
  EXPECT_EXIT(exit_while_a_thread_throws<ValueError>(), KilledBySignal(SIGABRT), "");
}

TEST_F(CudaExitDeathTest, ADeviceErrorOfTheThreadThatExitsEndsTheProcessAsBefore) {
  const auto program = [] {
    std::atexit([]() noexcept { fail(); });
    cuda::watch_exit();
    std::exit(7);
  };
  EXPECT_EXIT(program(), KilledBySignal(SIGABRT), "");
}

TEST_F(CudaExitDeathTest, ADeviceErrorBeforeTheProcessExitsEndsIt) {
  const auto program = [] {
    cuda::watch_exit();
    std::thread(fail).join();
  };
  EXPECT_EXIT(program(), KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace locus
#endif
