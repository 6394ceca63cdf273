// The host's thread pool, memory and instruction sets.
#include <locus/devices/cpu.h>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/core/kernel_list.h>
#include <locus/ops/register.h>
#include <tests/support/contexts.h>

namespace locus {
namespace {

// Four threads, because this machine may have one.
class ThreadPool : public testing::Test {
 protected:
  ThreadPool() : before_(num_threads()) { set_num_threads(4); }
  ~ThreadPool() override { set_num_threads(before_); }

 private:
  int before_;
};

using Ranges = std::vector<std::pair<int64_t, int64_t>>;

Ranges ranges_of(int64_t n, int64_t grain) {
  Ranges ranges;
  std::mutex mutex;
  parallel_ranges(n, grain, [&](int64_t begin, int64_t end) {
    std::lock_guard lock(mutex);
    ranges.emplace_back(begin, end);
  });
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

TEST_F(ThreadPool, CutsCoverTheRangeOnceInMultiplesOfTheGrain) {
  for (int64_t n : {1, 2, 3, 7, 64, 65, 1000, 4097}) {
    for (int64_t grain : {1, 3, 64, 5000}) {
      SCOPED_TRACE(std::to_string(n) + " by " + std::to_string(grain));
      const Ranges ranges = ranges_of(n, grain);
      int64_t expected = 0;
      for (auto [begin, end] : ranges) {
        EXPECT_EQ(begin, expected);
        EXPECT_EQ(begin % grain, 0);
        EXPECT_LT(begin, end);
        expected = end;
      }
      EXPECT_EQ(expected, n);
      EXPECT_LE(ranges.size(), 4u);
    }
  }
}

TEST_F(ThreadPool, AnEmptyRangeCallsNothing) {
  EXPECT_TRUE(ranges_of(0, 1).empty());
  EXPECT_TRUE(ranges_of(-5, 1).empty());
}

TEST_F(ThreadPool, CutsAreTheSameEveryTimeAndWhenThePoolIsBusy) {
  const Ranges first = ranges_of(1000, 10);
  EXPECT_EQ(first.size(), 4u);
  EXPECT_EQ(ranges_of(1000, 10), first);
  std::vector<Ranges> nested(4);
  parallel_ranges(4, 1, [&](int64_t begin, int64_t) {
    nested[static_cast<size_t>(begin)] = ranges_of(1000, 10);
  });
  for (const Ranges& r : nested) EXPECT_EQ(r, first);
}

TEST_F(ThreadPool, WorkIsSpreadOverThreads) {
  std::atomic<int> inside{0};
  std::atomic<bool> met{false};
  // Ranges that wait for each other need several threads to finish.
  parallel_ranges(2, 1, [&](int64_t, int64_t) {
    ++inside;
    const auto start = std::chrono::steady_clock::now();
    while (inside < 2 && std::chrono::steady_clock::now() - start < std::chrono::seconds(10)) {
      std::this_thread::yield();
    }
    if (inside == 2) met = true;
  });
  EXPECT_TRUE(met);
}

TEST_F(ThreadPool, AnExceptionOfAnyRangeReachesTheCallerAndThePoolStillWorks) {
  for (int64_t bad = 0; bad < 4; ++bad) {
    std::atomic<int> ran{0};
    try {
      parallel_ranges(4, 1, [&](int64_t begin, int64_t) {
        ++ran;
        if (begin == bad) throw IndexError("range " + std::to_string(begin));
      });
      ADD_FAILURE() << "no exception";
    } catch (const IndexError& e) {
      EXPECT_EQ(e.what(), "range " + std::to_string(bad));
    }
    EXPECT_EQ(ran, 4);
  }
  EXPECT_EQ(ranges_of(4, 1).size(), 4u);
}

TEST_F(ThreadPool, TheFirstRangesExceptionWins) {
  for (int round = 0; round < 100; ++round) {
    EXPECT_EQ(test::message_of<std::runtime_error>([] {
                parallel_ranges(4, 1, [](int64_t begin, int64_t) {
                  throw std::runtime_error(std::to_string(begin));
                });
              }),
              "0");
  }
}

TEST_F(ThreadPool, ManyCallersAtOnceAllComplete) {
  std::vector<std::thread> callers;
  std::vector<int64_t> sums(8);
  for (size_t c = 0; c < sums.size(); ++c) {
    callers.emplace_back([&sums, c] {
      for (int round = 0; round < 200; ++round) {
        std::atomic<int64_t> sum{0};
        parallel_ranges(1000, 10, [&](int64_t begin, int64_t end) {
          int64_t part = 0;
          for (int64_t i = begin; i < end; ++i) part += i;
          sum += part;
        });
        sums[c] += sum;
      }
    });
  }
  for (std::thread& t : callers) t.join();
  for (int64_t sum : sums) EXPECT_EQ(sum, 200 * 499500);
}

TEST_F(ThreadPool, WritesOfWorkersAreSeenByTheCallerAfterLongPauses) {
  std::vector<int> data(1000);
  for (int round = 1; round <= 20; ++round) {
    parallel_ranges(1000, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) data[static_cast<size_t>(i)] += round;
    });
    EXPECT_EQ(data, std::vector<int>(1000, round * (round + 1) / 2));
    // Lets the workers go to sleep.
    if (round % 4 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST_F(ThreadPool, TheNumberOfThreadsCanChange) {
  set_num_threads(1);
  EXPECT_EQ(num_threads(), 1);
  EXPECT_EQ(ranges_of(100, 1).size(), 1u);
  set_num_threads(7);
  EXPECT_EQ(ranges_of(700, 1).size(), 7u);
  set_num_threads(2);
  EXPECT_EQ(ranges_of(700, 1).size(), 2u);
  EXPECT_THROW(set_num_threads(0), Error);
}

TEST(Isa, BestIsaFollowsTheProcessor) {
  const KernelList base, v3, v4;
  const KernelList* const lists[] = {&base, &v3, &v4};
  EXPECT_EQ(&best_isa({{Isa::base, base}, {Isa::v3, v3}, {Isa::v4, v4}}),
            lists[static_cast<int>(cpu_isa())]);
  EXPECT_EQ(std::string(name(cpu_isa())).substr(0, 6), "x86-64");
}

TEST(Isa, IsTheWidestThatIsBuiltAndAllowed) {
  constexpr Isa all[] = {Isa::base, Isa::v3, Isa::v4}, ends[] = {Isa::base, Isa::v4};
  for (const Isa most : all) EXPECT_EQ(widest_isa(all, most), most);
  EXPECT_EQ(widest_isa(ends, Isa::v3), Isa::base);
  EXPECT_EQ(widest_isa(built_isas(), cpu_isa()), cpu_isa());
}

TEST(Isa, ABuildWithoutOneThatIsAllowedSaysWhichItHas) {
  constexpr Isa wide[] = {Isa::v3, Isa::v4};
  EXPECT_EQ(
      test::message_of<Error>([&] { (void)widest_isa(wide, Isa::base); }),
      "cpu kernels: this build has them for x86-64-v3 and x86-64-v4 alone, and this processor "
      "or LOCUS_ISA allows x86-64 at most; build Locus with -DLOCUS_ISAS=all");
}

TEST(IsaDeathTest, AnUnknownNameIsAnErrorAtTheFirstUseOfTheHost) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const char* const before = std::getenv("LOCUS_ISA");
  const std::string kept = before ? before : "";
  setenv("LOCUS_ISA", "v5", 1);
  EXPECT_EXIT(
      {
        std::cerr << test::message_of<Error>([] { device(cpu(0)); });
        std::exit(0);
      },
      testing::ExitedWithCode(0), "LOCUS_ISA=v5: expected base or v3 or v4");
  if (before)
    setenv("LOCUS_ISA", kept.c_str(), 1);
  else
    unsetenv("LOCUS_ISA");
}

TEST(CpuDevice, MemoryIsAlignedAndCopied) {
  for (Context c : {cpu(0), cpu(1), cpu_pinned(0)}) {
    SCOPED_TRACE(to_string(c));
    Device& d = device(c);
    const StreamView s = d.stream(Lane::compute);
    EXPECT_EQ(s.id, 0u);
    for (size_t bytes : {size_t{0}, size_t{1}, size_t{100}, size_t{3000000}, size_t{40000000}}) {
      auto* a = static_cast<char*>(d.allocator().allocate(bytes, s));
      auto* b = static_cast<char*>(d.allocator().allocate(bytes, s));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 64, 0u);
      for (size_t i = 0; i < bytes; ++i) a[i] = static_cast<char>(i * 31);
      d.copy(b, c, a, cpu(0), bytes, s);
      EXPECT_EQ(std::memcmp(a, b, bytes), 0);
      d.allocator().deallocate(a, bytes, s);
      d.allocator().deallocate(b, bytes, s);
    }
  }
}

TEST(CpuDevice, DescribesTheMachine) {
  EXPECT_FALSE(context_info(cpu(0)).name.empty());
  EXPECT_FALSE(context_info(cpu(0)).emulated);
  const MemoryInfo memory = device(cpu(0)).memory();
  EXPECT_GT(memory.free, size_t{1} << 20);
  EXPECT_GE(memory.total, memory.free);
}

TEST(CpuDevice, EachContextCountsItsMemory) {
  const size_t before = memory_pool(cpu(3)).stats().in_use;
  void* p = memory_pool(cpu(2)).allocate(1000, {cpu(2)});
  EXPECT_EQ(memory_pool(cpu(3)).stats().in_use, before);
  EXPECT_GE(memory_pool(cpu(2)).stats().in_use, 1000u);
  memory_pool(cpu(2)).deallocate(p, 1000, {cpu(2)});
}

TEST(CpuDevice, RefusesIndicesThatAreNotThere) {
  EXPECT_THROW(device(cpu(-1)), DeviceError);
  EXPECT_THROW(device(cpu(100000)), DeviceError);
}

}  // namespace
}  // namespace locus
