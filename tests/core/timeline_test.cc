// The order between streams, on a fake device.
#include <locus/core/memory/timeline.h>

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include <locus/core/device.h>
#include <locus/core/error.h>
#include <tests/devices/fake_device.h>

namespace locus {
namespace {

using test::fake_calls;
using Waits = std::vector<std::pair<uint32_t, uint32_t>>;  // waiter, stream waited for

StreamView new_stream() { return {test::fake(), new_stream_id(), nullptr}; }

class TimelineTest : public testing::Test {
 protected:
  TimelineTest() { fake_calls.clear(); }
  const StreamView a_ = new_stream(), b_ = new_stream(), c_ = new_stream();
  Timeline& line_ = Timeline::of(a_);
};

constexpr StreamView kHost{};

TEST_F(TimelineTest, AStreamHasOneTimeline) {
  EXPECT_EQ(&Timeline::of(a_), &line_);
  EXPECT_NE(&Timeline::of(b_), &line_);
  EXPECT_EQ(line_.stream.id, a_.id);
  EXPECT_THROW(Timeline::of(kHost), Error);
}

TEST_F(TimelineTest, NumbersCostNoEvent) {
  for (uint64_t i = 1; i <= 100; ++i) EXPECT_EQ(line_.advance(), i);
  EXPECT_EQ(line_.now(), 100u);
  EXPECT_EQ(fake_calls.recorded, 0);
}

TEST_F(TimelineTest, AnEventServesAllNumbersUpToIt) {
  const uint64_t first = line_.advance(), second = line_.advance();
  line_.wait(second, b_);
  line_.wait(first, c_);
  EXPECT_EQ(fake_calls.recorded, 1);
  EXPECT_EQ(fake_calls.waits, (Waits{{b_.id, a_.id}, {c_.id, a_.id}}));
}

TEST_F(TimelineTest, AStreamWaitsForANumberOnce) {
  const uint64_t first = line_.advance(), second = line_.advance();
  EXPECT_FALSE(line_.precedes(first, b_.id));
  line_.wait(second, b_);
  line_.wait(first, b_);
  line_.wait(second, b_);
  EXPECT_TRUE(line_.precedes(second, b_.id));
  EXPECT_FALSE(line_.precedes(second, c_.id));
  EXPECT_EQ(fake_calls.waits.size(), 1u);
  line_.wait(line_.advance(), b_);
  EXPECT_EQ(fake_calls.waits.size(), 2u);
}

TEST_F(TimelineTest, WorkNumberedAfterAnEventNeedsANewOne) {
  line_.wait(line_.advance(), b_);
  line_.wait(line_.advance(), c_);
  EXPECT_EQ(fake_calls.recorded, 2);
}

TEST_F(TimelineTest, NothingToWaitForBeforeTheFirstNumber) {
  line_.wait(0, b_);
  line_.wait(line_.now(), kHost);
  EXPECT_EQ(fake_calls.recorded, 0);
  EXPECT_TRUE(line_.done(0));
}

TEST_F(TimelineTest, NoStreamWaitsForWorkThatTheHostWaitedFor) {
  const uint64_t n = line_.advance();
  EXPECT_FALSE(line_.done(n));
  line_.wait(n, kHost);
  line_.wait(n, kHost);
  line_.wait(n, b_);
  EXPECT_TRUE(line_.done(n));
  EXPECT_EQ(fake_calls.host_waits, 1);
  EXPECT_TRUE(fake_calls.waits.empty());
}

TEST_F(TimelineTest, FinishedByOtherMeans) {
  const uint64_t first = line_.advance(), second = line_.advance();
  line_.finished(first);
  line_.wait(first, b_);
  EXPECT_TRUE(fake_calls.waits.empty());
  EXPECT_FALSE(line_.done(second));
}

TEST_F(TimelineTest, AnExpectedWaiterIsNotHeldUpByALaterKernel) {
  const uint64_t copy = line_.advance();
  line_.expect_waiters();
  line_.before_launch();
  EXPECT_EQ(fake_calls.recorded, 1);
  line_.advance();  // the kernel
  line_.wait(copy, b_);
  EXPECT_EQ(fake_calls.recorded, 1) << "the waiter waits for the kernel";
  line_.before_launch();
  EXPECT_EQ(fake_calls.recorded, 1) << "nobody is expected any more";
}

TEST_F(TimelineTest, SmallCopiesShareAnEvent) {
  for (int i = 0; i < 160; ++i) {
    line_.before_copy(4096);
    line_.advance();
    line_.expect_waiters();
  }
  EXPECT_GE(fake_calls.recorded, 9);
  EXPECT_LE(fake_calls.recorded, 10);
}

TEST_F(TimelineTest, AnExpectedWaiterIsNotHeldUpByALargeCopy) {
  const uint64_t small = line_.advance();
  line_.expect_waiters();
  line_.before_copy(size_t{1} << 20);
  line_.advance();
  line_.wait(small, b_);
  EXPECT_EQ(fake_calls.recorded, 1);
}

TEST_F(TimelineTest, FinishedEventsAreReleased) {
  fake_calls.fire_at_once = true;
  const int before = fake_calls.live_events;
  for (int i = 0; i < 10000; ++i) line_.wait(line_.advance(), b_);
  EXPECT_EQ(fake_calls.recorded, 10000);
  EXPECT_LT(fake_calls.live_events - before, 150);
}

TEST_F(TimelineTest, EventsOfWorkUnderWayAreKept) {
  const uint64_t first = line_.advance();
  line_.wait(first, b_);
  for (int i = 0; i < 1000; ++i) line_.wait(line_.advance(), b_);
  fake_calls.waits.clear();
  fake_calls.recorded = 0;
  line_.wait(first, c_);
  EXPECT_EQ(fake_calls.recorded, 0);
  EXPECT_EQ(fake_calls.waits.size(), 1u);
}

}  // namespace
}  // namespace locus
