// Internal steps on threads that parallel() left awake.
#include <atomic>
#include <chrono>
#include <thread>

#include <locus/core/error.h>
#include <locus/core/parallel.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include "tests/support/contexts.h"

namespace locus {
namespace {

using testing::HasSubstr;

const Contexts kTwo{cpu(0), cpu(1)};

// On awake threads; without awake threads, on this thread.
TEST(OnThreads, TheSecondPartRunsOnTheSameThreadsOnceAllFirstPartsAreDone) {
  const std::vector<Context> three{cpu(0), cpu(1), cpu(2)};
  ones({1}) + 1;  // the first op checks for listeners; until then all work is serial
  for (const bool awake : {true, false}) {
    int on_others = 0;
    for (int round = 0; round < (awake ? 2000 : 20) && on_others < 20; ++round) {
      std::this_thread::sleep_for(std::chrono::milliseconds(awake ? 0 : 2));
      if (awake) parallel(three, [](int) {});
      std::atomic<int> done{0};
      int seen[3] = {};
      std::thread::id first[3], second[3];
      on_threads(
          three,
          [&](int i) {
            first[i] = std::this_thread::get_id();
            if (i == round % 3) std::this_thread::sleep_for(std::chrono::microseconds(200));
            ++done;
          },
          [&](int i) {
            second[i] = std::this_thread::get_id();
            seen[i] = done;
          });
      EXPECT_THAT(seen, testing::Each(3));
      EXPECT_THAT(second, testing::ElementsAreArray(first));
      EXPECT_EQ(first[0], std::this_thread::get_id());
      on_others += first[1] != first[0];
    }
    EXPECT_TRUE(on_others > 0 || !awake);
  }
}

TEST(OnThreads, OthersContextsAreRefusedAsInsideOfIt) {
  ones({1}) + 1;
  for (const bool awake : {true, false})
    for (int round = 0; round < 50; ++round) {
      std::this_thread::sleep_for(std::chrono::milliseconds(awake ? 0 : 2));
      if (awake) parallel(kTwo, [](int) {});
      std::atomic<int> own{0};
      const auto call = [&] {
        on_threads(
            {cpu(0), cpu(1)}, [](int) {},
            [&](int i) {
              parallel({cpu(i)}, [&](int) { ++own; });
              if (i == 0) parallel(kTwo, [](int) {});
            });
      };
      EXPECT_THAT(test::message_of<Error>(call), HasSubstr("called on the thread of cpu(0)"));
      EXPECT_EQ(own, 2);
    }
}

TEST(OnThreads, TheSecondPartIsSkippedAfterAFailure) {
  for (const bool awake : {true, false})
    for (const bool before : {true, false}) {
      std::this_thread::sleep_for(std::chrono::milliseconds(awake ? 0 : 2));
      if (awake) parallel(kTwo, [](int) {});
      std::atomic<int> behind{0};
      const auto call = [&] {
        on_threads(
            {cpu(0), cpu(1)},
            [&](int i) {
              if (before && i == 1) throw IndexError("of ", i);
            },
            [&](int i) {
              ++behind;
              if (i == 0) throw ValueError("behind ", i);
            });
      };
      if (before)
        EXPECT_EQ(test::message_of<IndexError>(call), "of 1");
      else
        EXPECT_EQ(test::message_of<ValueError>(call), "behind 0");
      EXPECT_EQ(behind, before ? 0 : 2);
    }
}

}  // namespace
}  // namespace locus
