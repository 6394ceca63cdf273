// Queues of emulated GPUs across fork, exit, close and reopen.
#include <locus/devices/emulated/emulated_queue.h>

#include <cstdlib>
#include <string>

#include <locus/core/error.h>
#include <locus/core/scratch.h>
#include <locus/devices/emulated_link.h>
#include "tests/support/contexts.h"
#include "tests/support/slow.h"

namespace locus::test {
namespace {

void fail(const Call&) { throw IndexError("index 7 is out of range for axis 0"); }
void count(const Call& call) { ++*call.attributes<int*>(); }

void launch(StreamView s, Kernel kernel) {
  device(s.context).launch(kernel, Call{nullptr, nullptr, 0, 0, nullptr, 0, s}, "test_op");
}
void launch_count(StreamView s, int* counter) {
  device(s.context).launch(count, Call{nullptr, nullptr, 0, 0, &counter, sizeof counter, s},
                           "count");
}

class EmulatedQueue : public testing::Test {
 protected:
  void SetUp() override { LOCUS_NEEDS_EMULATED_GPUS(); }
  StreamView compute(int i = 0) { return device(gpu(i)).stream(Lane::compute); }
};
using EmulatedQueueDeathTest = EmulatedQueue;

TEST_F(EmulatedQueue, WaitAllWaitsForTheOthersOfAFailedOne) {
  LOCUS_NEEDS_ANY_GPUS(2);
  int ran = 0;
  launch(compute(0), fail);
  for (int i = 0; i < 200; ++i) delay(compute(1));
  launch_count(compute(1), &ran);
  EXPECT_THROW(wait_all(), IndexError);
  EXPECT_EQ(ran, 1);
}

TEST_F(EmulatedQueue, AClosedStreamIsReusedBeforeANewOneIsMade) {
  Device& d = device(gpu(0));
  const StreamView first = d.open_stream();
  d.close_stream(first);
  const StreamView second = d.open_stream();
  EXPECT_EQ(second.id, first.id);
  int ran = 0;
  launch_count(second, &ran);
  d.close_stream(second);
  EXPECT_EQ(ran, 1);
}

// Memory is handed out in the order of pushing; a kernel takes scratch memory when it runs.
TEST_F(EmulatedQueue, AKernelsScratchIsNotMemoryThatItsOperandsHoldUntilItRan) {
  MemoryPool& pool = memory_pool(gpu(0));
  View x;
  x.data = pool.allocate(1000, compute());
  delay(compute());
  const Kernel kernel = [](const Call& call) {
    const Scratch scratch(call, 1000);
    EXPECT_NE(scratch.data(), call.in[0].data);
  };
  device(gpu(0)).launch(kernel, Call{&x, nullptr, 1, 0, nullptr, 0, compute()}, "test_op");
  pool.deallocate(x.data, 1000, compute());
  device(gpu(0)).synchronize(compute());
}

TEST_F(EmulatedQueueDeathTest, AForkedChildGetsAnErrorThatNamesFork) {
  int ran = 0;
  launch_count(compute(), &ran);
  wait_all();
  EXPECT_EXIT(
      {
        const std::string text = message_of<DeviceError>([&] { launch(compute(), fail); });
        std::_Exit(text.find("fork()") != std::string::npos ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(EmulatedQueueDeathTest, AChildOfAForkMayCloseAStreamWhoseThreadStayedBehind) {
  const StreamView s = device(gpu(0)).open_stream();
  int ran = 0;
  launch_count(s, &ran);
  wait_all();
  EXPECT_EXIT(
      {
        device(gpu(0)).close_stream(s);
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), "");
  device(gpu(0)).close_stream(s);
}

TEST_F(EmulatedQueueDeathTest, AProgramMayEndWhileItsKernelsRunAtTheModelsPace) {
  const std::string style = GTEST_FLAG_GET(death_test_style);
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // the child starts anew
  EXPECT_EXIT(
      {
        emulated::set_link_model(emulated::LinkModel{});
        for (int i = 0; i < 2000; ++i) delay(compute());
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
  GTEST_FLAG_SET(death_test_style, style);
}

}  // namespace
}  // namespace locus::test
