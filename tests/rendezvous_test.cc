// Threads of a parallel() that meet, and what becomes of those that wait for one that does not
// come.
#include <locus/core/rendezvous.h>

#include <locus/core/error.h>
#include <locus/core/parallel.h>
#include "tests/contexts.h"

namespace locus {
namespace {

using testing::HasSubstr;

const Contexts kThree{cpu(0), cpu(1), cpu(2)};

// The sum of what all threads bring.
int sum_here(int mine, uint64_t number = 1) {
  Rendezvous::Seat::here()->meet({"the sum", number}, &mine, [](std::span<void* const> all) {
    int sum = 0;
    for (void* each : all) sum += *static_cast<int*>(each);
    for (void* each : all) *static_cast<int*>(each) = sum;
  });
  return mine;
}

TEST(Rendezvous, EachThreadGetsWhatAllBrought) {
  for (int round = 0; round < 50; ++round) {
    int sums[3] = {};
    parallel(kThree, [&](int i) { sums[i] = sum_here(sum_here(i + 1) + i, 2); });
    for (int sum : sums) EXPECT_EQ(sum, 3 * 6 + 3);
  }
  EXPECT_EQ(Rendezvous::Seat::here(), nullptr);
}

TEST(Rendezvous, AThreadThatFailsWakesTheOthersAndIsTheOneThatIsHeardOf) {
  for (int failing = 0; failing < 3; ++failing) {
    std::atomic<int> woken{0};
    const auto call = [&] {
      parallel(kThree, [&](int i) {
        if (i == failing) throw ShapeError("of ", i);
        try {
          sum_here(i);
        } catch (const Error& e) {
          ++woken;
          EXPECT_THAT(e.what(), HasSubstr("ended without"));
          throw;
        }
      });
    };
    EXPECT_EQ(test::message_of<ShapeError>(call), "of " + std::to_string(failing));
    EXPECT_EQ(woken, 2);
  }
}

TEST(Rendezvous, AThreadThatEndsWithoutComingIsNamed) {
  const auto call = [&] {
    parallel(kThree, [&](int i) {
      if (i != 1) sum_here(i);
    });
  };
  EXPECT_EQ(test::message_of<Error>(call),
            "parallel: cpu(0) came to the sum #1, and cpu(1) ended without; expected every context "
            "to come there");
}

TEST(Rendezvous, NoThreadMeetsWhatOneThatEndedHadBrought) {
  std::atomic<int> refused{0};
  parallel(kThree, [&](int i) {
    for (int again = 0; again < (i == 1 ? 1 : 3); ++again) {
      try {
        EXPECT_EQ(sum_here(i), 3);
      } catch (const Error& e) {
        EXPECT_THAT(e.what(), HasSubstr("cpu(1) ended without"));  // and not another one
        ++refused;
      }
    }
  });
  EXPECT_EQ(refused, 4);
}

TEST(Rendezvous, DifferentPlacesAreFoundOnEveryThread) {
  std::atomic<int> found{0};
  parallel(kThree, [&](int i) {
    for (int again = 0; again < 2; ++again) {
      const std::string text = test::message_of<Error>([&] { sum_here(i, i == 2 ? 7 : 1); });
      EXPECT_THAT(text, HasSubstr("cpu(0) came to the sum #1, cpu(2) to the sum #7"));
      ++found;
    }
  });
  EXPECT_EQ(found, 6);
}

TEST(Rendezvous, WeightsOfAPlaceAreNotWhatIsSummedThere) {
  parallel(kThree, [&](int i) {
    double weight = 1;
    const auto meet = [&] {
      Rendezvous::Seat::here()->meet({.what = "the sum", .number = 1, .weights = i == 2}, &weight,
                                     [](std::span<void* const>) { FAIL(); });
    };
    EXPECT_THAT(test::message_of<Error>(meet),
                HasSubstr("cpu(0) came to the sum #1, cpu(2) to the weights of the sum #1"));
  });
}

TEST(Rendezvous, WhatTheLastThreadThrowsIsThrownOnAll) {
  std::atomic<int> thrown{0};
  parallel(kThree, [&](int i) {
    const auto meet = [&] {
      Rendezvous::Seat::here()->meet({"a failure", 1}, &i,
                                     [](std::span<void* const>) { throw DTypeError("all of it"); });
    };
    EXPECT_EQ(test::message_of<DTypeError>(meet), "all of it");
    ++thrown;
  });
  EXPECT_EQ(thrown, 3);
}

}  // namespace
}  // namespace locus
