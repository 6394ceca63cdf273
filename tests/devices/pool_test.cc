// The caching pool, with a source and events under the test's control.
#include <locus/devices/pool.h>

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <locus/core/error.h>
#include <locus/core/stream.h>
#include <locus/devices/host/host_memory.h>
#include <locus/ops/create.h>
#include <tests/devices/fake_device.h>
#include <tests/support/contexts.h>

namespace locus {
namespace {

using test::fake;
using test::fake_calls;
using test::FakeEvent;

constexpr size_t kMiB = size_t{1} << 20;

constexpr uint32_t kStreams = 16;
StreamView on(uint32_t i) {  // of no other use
  static const uint32_t first = [] {
    const uint32_t id = new_stream_id();
    for (uint32_t n = 1; n < kStreams; ++n) new_stream_id();
    return id;
  }();
  return {fake(), first + i, nullptr};
}
EventView new_event() { return device(fake()).record(on(9)); }

// Host memory with a limit and a list of live blocks.
class Source final : public MemorySource {
 public:
  explicit Source(size_t ceiling) : ceiling_(ceiling) {}
  ~Source() override { EXPECT_TRUE(blocks_.empty()) << "memory was not given back"; }
  void* allocate(size_t bytes) override {
    std::lock_guard lock(mutex_);
    if (used_ + bytes > ceiling_) return nullptr;
    void* p = host_allocate(bytes, 512);
    blocks_[p] = bytes;
    used_ += bytes;
    return p;
  }
  void release(void* p, size_t bytes) noexcept override {
    std::lock_guard lock(mutex_);
    EXPECT_EQ(blocks_[p], bytes);
    used_ -= bytes;
    blocks_.erase(p);
    host_free(p);
  }

 private:
  std::mutex mutex_;
  std::map<void*, size_t> blocks_;
  size_t ceiling_, used_ = 0;
};

class Pool : public testing::Test {
 protected:
  Pool() { fake_calls.clear(); }
  ~Pool() override {
    EXPECT_EQ(fake_calls.live_events, events_before_) << "events were not released";
  }
  CachingPool make(size_t limit = 0, size_t ceiling = 1000 * kMiB, bool caching = true) {
    return CachingPool(std::make_unique<Source>(ceiling),
                       {.context = fake(), .limit = limit, .caching = caching});
  }

 private:
  const int events_before_ = fake_calls.live_events;
};

TEST_F(Pool, ABlockIsReusedAtOnceOnItsStreamAndNotOnAnother) {
  for (size_t bytes : {size_t{1}, size_t{100}, 70000 * size_t{1}, 3 * kMiB, 50 * kMiB}) {
    SCOPED_TRACE(bytes);
    CachingPool pool = make();
    void* a = pool.allocate(bytes, on(1));
    pool.deallocate(a, bytes, on(1));
    void* other = pool.allocate(bytes, on(2));
    EXPECT_NE(other, a);
    EXPECT_EQ(pool.allocate(bytes, on(1)), a);
    EXPECT_TRUE(fake_calls.waits.empty());
    pool.deallocate(a, bytes, on(1));
    pool.deallocate(other, bytes, on(2));
  }
}

TEST_F(Pool, BlocksAreDisjointAndAligned) {
  CachingPool pool = make();
  std::map<char*, size_t> live;
  for (size_t bytes : {0, 1, 511, 512, 513, 4096, 5000, 100000, 1048576, 1048577, 33554432}) {
    auto* p = static_cast<char*>(pool.allocate(bytes, on(1)));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 512, 0u);
    live[p] = bytes;
  }
  for (auto a = live.begin(), b = std::next(a); b != live.end(); ++a, ++b) {
    EXPECT_LE(a->first + std::max<size_t>(a->second, 1), b->first);
  }
  for (auto [p, bytes] : live) pool.deallocate(p, bytes, on(1));
}

TEST_F(Pool, ADeferredBlockIsNotReusedBeforeItsEvents) {
  CachingPool pool = make();
  void* a = pool.allocate(5 * kMiB, on(1));
  const EventView first = new_event(), second = new_event();
  const EventView pending[] = {first, second};
  pool.deallocate_after(a, 5 * kMiB, on(1), pending);
  EXPECT_GE(pool.stats().in_use, 5 * kMiB);
  std::vector<void*> others;
  const auto take_all = [&] {
    // 6 blocks of 5 MiB fill a 32 MiB segment; more open another.
    for (int i = 0; i < 6; ++i) others.push_back(pool.allocate(5 * kMiB, on(1)));
  };
  take_all();
  EXPECT_EQ(std::count(others.begin(), others.end(), a), 0);
  static_cast<FakeEvent*>(first.native)->fired = true;
  take_all();
  EXPECT_EQ(std::count(others.begin(), others.end(), a), 0) << "one event is still pending";
  static_cast<FakeEvent*>(second.native)->fired = true;
  take_all();
  EXPECT_EQ(std::count(others.begin(), others.end(), a), 1);
  for (void* p : others) pool.deallocate(p, 5 * kMiB, on(1));
  EXPECT_EQ(pool.stats().in_use, 0u);
}

TEST_F(Pool, SmallAllocationsAlsoFindDeferredBlocks) {
  CachingPool pool = make();
  void* a = pool.allocate(100, on(1));
  const EventView event = new_event();
  pool.deallocate_after(a, 100, on(1), {&event, 1});
  static_cast<FakeEvent*>(event.native)->fired = true;
  std::set<void*> live;
  for (int i = 0; i < 5000 && live.count(a) == 0; ++i) live.insert(pool.allocate(100, on(1)));
  EXPECT_EQ(live.count(a), 1u);
  for (void* p : live) pool.deallocate(p, 100, on(1));
}

TEST_F(Pool, FreeNeighboursMerge) {
  CachingPool pool = make();
  std::vector<void*> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(pool.allocate(2 * kMiB, on(1)));
  EXPECT_EQ(pool.stats().reserved, 32 * kMiB);
  // Every other block first, so that the rest merges on both sides.
  for (size_t i = 0; i < 16; i += 2) pool.deallocate(blocks[i], 2 * kMiB, on(1));
  for (size_t i = 1; i < 16; i += 2) pool.deallocate(blocks[i], 2 * kMiB, on(1));
  void* all = pool.allocate(32 * kMiB, on(1));
  EXPECT_EQ(pool.stats().reserved, 32 * kMiB);
  pool.deallocate(all, 32 * kMiB, on(1));
}

TEST_F(Pool, TheBestFitIsTaken) {
  CachingPool pool = make();
  void* big = pool.allocate(20 * kMiB, on(1));
  void* wall = pool.allocate(2 * kMiB, on(1));
  void* fit = pool.allocate(6 * kMiB, on(1));
  void* end = pool.allocate(4 * kMiB, on(1));
  pool.deallocate(big, 20 * kMiB, on(1));
  pool.deallocate(fit, 6 * kMiB, on(1));
  EXPECT_EQ(pool.allocate(5 * kMiB, on(1)), fit);
  pool.deallocate(fit, 5 * kMiB, on(1));
  pool.deallocate(wall, 2 * kMiB, on(1));
  pool.deallocate(end, 4 * kMiB, on(1));
}

TEST_F(Pool, TheLimitHoldsAndTheProgramContinuesAfterOutOfMemory) {
  CachingPool pool = make(10 * kMiB);
  void* a = pool.allocate(8 * kMiB, on(1));
  const std::string text =
      test::message_of<OutOfMemory>([&] { (void)pool.allocate(4 * kMiB, on(1)); });
  for (const char* part : {"fake(0)", "4 MiB requested", "in use 8 MiB", "reserved 8 MiB",
                           "limit 10 MiB", "largest free block"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
  }
  EXPECT_EQ(pool.stats().in_use, 8 * kMiB);
  pool.deallocate(a, 8 * kMiB, on(1));
  // The cached 8 MiB must be returned first.
  void* b = pool.allocate(10 * kMiB, on(1));
  EXPECT_EQ(pool.stats().reserved, 10 * kMiB);
  pool.deallocate(b, 10 * kMiB, on(1));
  pool.set_limit(0);
  void* c = pool.allocate(100 * kMiB, on(1));
  pool.deallocate(c, 100 * kMiB, on(1));
  EXPECT_THROW((void)pool.allocate(SIZE_MAX, on(1)), OutOfMemory);
  EXPECT_THROW((void)pool.allocate(SIZE_MAX / 4, on(1)), OutOfMemory);
}

TEST_F(Pool, ADriverWithoutMemoryIsOutOfMemoryToo) {
  CachingPool pool = make(0, 40 * kMiB);
  void* a = pool.allocate(36 * kMiB, on(1));
  EXPECT_THROW((void)pool.allocate(5 * kMiB, on(1)), OutOfMemory);
  void* small = pool.allocate(3 * kMiB, on(1));  // a whole 32 MiB segment no longer fits
  pool.deallocate(a, 36 * kMiB, on(1));
  pool.deallocate(small, 3 * kMiB, on(1));
}

TEST_F(Pool, WhenMemoryIsShortTheHostWaitsForDeferredBlocks) {
  CachingPool pool = make(10 * kMiB);
  void* a = pool.allocate(8 * kMiB, on(1));
  const EventView event = new_event();
  pool.deallocate_after(a, 8 * kMiB, on(1), {&event, 1});
  void* b = pool.allocate(9 * kMiB, on(1));  // wait_host fires the event
  pool.deallocate(b, 9 * kMiB, on(1));
}

TEST_F(Pool, WhenMemoryIsShortAnotherStreamsBlockIsTakenAfterAnEvent) {
  CachingPool pool = make(10 * kMiB);
  void* keep = pool.allocate(kMiB, on(1));
  void* a = pool.allocate(8 * kMiB, on(1));
  pool.deallocate(a, 8 * kMiB, on(1));
  void* b = pool.allocate(8 * kMiB, on(2));
  EXPECT_EQ(b, a);
  ASSERT_EQ(fake_calls.waits.size(), 1u);
  EXPECT_EQ(fake_calls.waits[0], std::make_pair(on(2).id, on(1).id));
  pool.deallocate(b, 8 * kMiB, on(2));
  pool.deallocate(keep, kMiB, on(1));
}

TEST_F(Pool, BlocksOfARetiredStreamGoToAnyStreamWithoutWaiting) {
  CachingPool pool = make();
  void* before = pool.allocate(5 * kMiB, on(1));
  void* after = pool.allocate(100, on(1));
  pool.deallocate(before, 5 * kMiB, on(1));
  pool.retire(on(1));
  EXPECT_EQ(pool.allocate(5 * kMiB, on(2)), before);
  pool.deallocate(after, 100, on(1));
  EXPECT_EQ(pool.allocate(100, on(2)), after);
  EXPECT_TRUE(fake_calls.waits.empty());
  // Blocks freed on stream 2 belong to stream 2.
  pool.deallocate(before, 5 * kMiB, on(2));
  pool.deallocate(after, 100, on(2));
  EXPECT_NE(pool.allocate(5 * kMiB, on(3)), before);
  pool.deallocate(before = pool.allocate(5 * kMiB, on(2)), 5 * kMiB, on(2));
}

TEST(PoolOfAGpu, HasTheBlocksOfAClosedStream) {
  LOCUS_NEEDS_POOL();
  LOCUS_NEEDS_ANY_GPUS(1);
  const Context c = gpu(0);
  constexpr int64_t kLong = 100 << 20;  // in a separate segment
  {
    const Stream stream(c);
    const StreamScope scope(stream);
    zeros({kLong}, {c, u8});
  }
  const uint64_t before = memory_pool(c).stats().driver_allocations;
  zeros({kLong}, {c, u8});
  EXPECT_EQ(memory_pool(c).stats().driver_allocations, before);
}

TEST_F(Pool, StatsCountWhatIsLive) {
  CachingPool pool = make();
  void* a = pool.allocate(1000, on(1));
  void* b = pool.allocate(3 * kMiB, on(1));
  MemoryStats s = pool.stats();
  EXPECT_EQ(s.in_use, 1024 + 3 * kMiB);
  EXPECT_EQ(s.reserved, 34 * kMiB);
  EXPECT_EQ(s.allocations, 2u);
  EXPECT_EQ(s.driver_allocations, 2u);
  pool.deallocate(b, 3 * kMiB, on(1));
  pool.deallocate(a, 1000, on(1));
  s = pool.stats();
  EXPECT_EQ(s.in_use, 0u);
  EXPECT_EQ(s.peak, 1024 + 3 * kMiB);
  EXPECT_EQ(s.reserved, 34 * kMiB);
  pool.release_cached();
  EXPECT_EQ(pool.stats().reserved, 0u);
}

TEST_F(Pool, ReleaseCachedKeepsSegmentsInUse) {
  CachingPool pool = make();
  auto* a = static_cast<char*>(pool.allocate(100, on(1)));
  std::memset(a, 7, 100);
  void* b = pool.allocate(3 * kMiB, on(1));
  pool.deallocate(b, 3 * kMiB, on(1));
  pool.release_cached();
  EXPECT_EQ(pool.stats().reserved, 2 * kMiB);
  EXPECT_EQ(a[99], 7);
  pool.deallocate(a, 100, on(1));
}

TEST_F(Pool, WithoutCachingEveryBlockIsTheDrivers) {
  CachingPool pool = make(10 * kMiB, 1000 * kMiB, false);
  void* a = pool.allocate(1000, on(1));
  EXPECT_EQ(pool.stats().reserved, 1000u);
  EXPECT_THROW((void)pool.allocate(11 * kMiB, on(1)), OutOfMemory);
  const EventView event = new_event();
  pool.deallocate_after(a, 1000, on(1), {&event, 1});
  EXPECT_EQ(pool.stats().reserved, 1000u);
  void* b = pool.allocate(10 * kMiB, on(1));  // waits for the event
  EXPECT_EQ(pool.stats().in_use, 10 * kMiB);
  pool.deallocate(b, 10 * kMiB, on(1));
  EXPECT_EQ(pool.stats().reserved, 0u);
}

// Random traffic: live blocks must not overlap.
void churn(CachingPool& pool, uint32_t stream, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::pair<unsigned char*, size_t>> live;
  const auto check_and_free = [&](size_t i) {
    const auto [p, bytes] = live[i];
    const auto mark = static_cast<unsigned char>(bytes ^ seed);
    ASSERT_EQ(p[0], mark);
    ASSERT_EQ(p[bytes / 2], mark);
    ASSERT_EQ(p[bytes - 1], mark);
    pool.deallocate(p, bytes, on(stream));
    live[i] = live.back();
    live.pop_back();
  };
  for (int step = 0; step < 3000; ++step) {
    if (live.size() > 30 || (!live.empty() && random() % 2 == 0)) {
      check_and_free(random() % live.size());
    } else {
      const size_t bytes = 1 + random() % (size_t{1} << (random() % 23));
      auto* p = static_cast<unsigned char*>(pool.allocate(bytes, on(stream)));
      p[0] = p[bytes / 2] = p[bytes - 1] = static_cast<unsigned char>(bytes ^ seed);
      live.emplace_back(p, bytes);
    }
    if (step % 1000 == 999) pool.release_cached();
  }
  while (!live.empty()) check_and_free(live.size() - 1);
}

TEST_F(Pool, ThreadsShareItOnOneStreamAndOnSeveral) {
  CachingPool pool = make();
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] { churn(pool, t / 2, t + 1); });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(pool.stats().in_use, 0u);
  pool.release_cached();
  EXPECT_EQ(pool.stats().reserved, 0u);
}

TEST_F(Pool, CountsNothingThatItsSourceFailedToGive) {
  class Broken final : public MemorySource {
    void* allocate(size_t) override { throw DeviceError("lost"); }
    void release(void*, size_t) noexcept override {}
  };
  for (bool caching : {true, false}) {
    CachingPool pool(std::make_unique<Broken>(), {.context = fake(), .caching = caching});
    EXPECT_THROW(pool.allocate(100, on(1)), DeviceError);
    EXPECT_EQ(pool.stats().reserved, 0u);
  }
}

}  // namespace
}  // namespace locus
