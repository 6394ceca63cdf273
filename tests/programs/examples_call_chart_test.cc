#include "common/call_chart.h"

#include <gmock/gmock.h>

namespace examples {
namespace {

using locus::CompiledCall;
using locus::Context;
using locus::cpu;
using locus::gpu;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

CompiledCall call(Context c, int part, int branch, double us, std::vector<int> after = {}) {
  return {.op = "relu",
          .context = c,
          .from = c,
          .to = c,
          .operands = "f32(2,) > f32(2,)",
          .bytes = 16,
          .after = std::move(after),
          .segment = part,
          .branch = branch,
          .us = us};
}
CompiledCall copy(Context from, Context to, int part, double us, std::vector<int> after) {
  CompiledCall c = call(to, part, 0, us, std::move(after));
  c.op = "copyto";
  c.from = from;
  return c;
}

// A call, two branches (the second takes longer), and a call that waits for both.
Calls forked() {
  return {call(gpu(0), 0, 0, 1), call(gpu(0), 0, 0, 2, {0}), call(gpu(0), 0, 1, 5, {0}),
          call(gpu(0), 0, 0, 1, {0, 1, 2})};
}

TEST(CallSchedule, BranchesRunSideBySideAndTheLongestPathIsCritical) {
  const Schedule s = schedule(forked());
  EXPECT_THAT(s.begin, ElementsAre(0, 1, 1, 6));
  EXPECT_THAT(s.critical, ElementsAre(0, 2, 3));
  EXPECT_EQ(s.end, 7);
  EXPECT_EQ(s.sum, 9);
}

TEST(CallSchedule, OneBranchRunsInOrder) {
  const Schedule s = schedule({call(cpu(), 0, 0, 2), call(cpu(), 0, 0, 3), call(cpu(), 0, 0, 4)});
  EXPECT_THAT(s.begin, ElementsAre(0, 2, 5));
  EXPECT_THAT(s.critical, ElementsAre(0, 1, 2));
}

TEST(CallSchedule, APartWaitsForWholeParts) {
  const Schedule s =
      schedule({call(gpu(0), 0, 0, 2), call(gpu(0), 0, 0, 3, {0}), copy(gpu(0), gpu(1), 1, 1, {0}),
                call(gpu(1), 2, 0, 4, {2}), call(gpu(0), 3, 0, 1, {1})});
  EXPECT_THAT(s.begin, ElementsAre(0, 2, 5, 6, 5));
  EXPECT_THAT(s.critical, ElementsAre(0, 1, 2, 3));
}

TEST(CallSchedule, GpusRunAtOnceAndTheHostHoldsUpWhatFollows) {
  EXPECT_THAT(schedule({call(gpu(0), 0, 0, 9), call(gpu(1), 1, 0, 9)}).begin, ElementsAre(0, 0));
  EXPECT_THAT(schedule({call(cpu(), 0, 0, 9), call(gpu(1), 1, 0, 9)}).begin, ElementsAre(0, 9));
}

TEST(CallSchedule, RowsOfAContextStandTogether) {
  const auto rows =
      rows_of({call(gpu(0), 0, 1, 1), copy(gpu(0), gpu(1), 1, 1, {}), call(gpu(1), 2, 0, 1),
               call(gpu(0), 3, 0, 1), copy(gpu(1), gpu(0), 4, 1, {})});
  std::vector<std::string> names;
  for (size_t i = 0; i < rows.size(); ++i) names.push_back(row_name(rows, i));
  EXPECT_THAT(names, ElementsAre("gpu(0), branch 0", "gpu(0), branch 1", "gpu(0) to gpu(1)",
                                 "gpu(1)", "gpu(1) to gpu(0)"));
}

TEST(CallSchedule, WaitsThatFollowFromOthersAreNotNeeded) {
  // 3 follows 1 on its branch, and 0 by way of 2.
  EXPECT_THAT(needed_waits(forked()), ElementsAre(Pair(0, 2), Pair(2, 3)));
}

TEST(CallChart, ShowsCallsWaitsAndWhatTheyTake) {
  const std::string s = call_chart("A step", "on a < b", forked());
  for (const char* part :
       {">A step<", ">on a &lt; b<", ">gpu(0), branch 1<", ">2 relu<", ">5.00 µs<", "16 B read",
        "4 calls, 9.00 µs one after the other, 7.00 µs in parallel",
        "The 3 calls on the critical path"})
    EXPECT_THAT(s, HasSubstr(part));
  const std::string one = call_chart("", "", {call(gpu(0), 0, 0, 1)});
  EXPECT_THAT(one, HasSubstr("1 call, 1.00 µs"));
  EXPECT_THAT(one, Not(HasSubstr("branch")));
}

TEST(CallChart, NamesWhatIsWideEnoughAndListsAll) {
  Calls calls{call(gpu(0), 0, 0, 1000), call(gpu(0), 0, 0, 0.5), copy(gpu(0), gpu(1), 1, 20, {1})};
  calls[1].op = "narrow";
  calls[1].operands = std::string(50, 'x');
  const std::string s = call_chart("", "", calls);
  EXPECT_THAT(s, HasSubstr(">0 relu<"));
  EXPECT_THAT(s, Not(HasSubstr(">1 narrow<")));
  EXPECT_THAT(s, HasSubstr(">narrow<"));
  EXPECT_THAT(s, HasSubstr(">" + calls[1].operands + "<"));
  EXPECT_THAT(s, HasSubstr(">gpu(0) to gpu(1)<"));
  EXPECT_THAT(s, HasSubstr(">copies<"));
}

TEST(CallChart, ListsAllOperandsOnSeveralLines) {
  Calls calls{call(gpu(0), 0, 0, 1)};
  calls[0].operands = "f32(256,784) f32(512,784) f32(512,) > f32(256,512)";
  const std::string s = call_chart("", "", calls);
  EXPECT_THAT(s, HasSubstr(">f32(256,784) f32(512,784) f32(512,) ><"));
  EXPECT_THAT(s, HasSubstr(">f32(256,512)<"));
}

TEST(CallChart, OfManyCallsTheCostliestAreListed) {
  Calls calls(300, call(gpu(0), 0, 0, 1));
  calls[200].op = "dear";
  calls[200].us = 2;
  calls.back().op = "cheap";
  const std::string s = call_chart("", "", calls);
  EXPECT_THAT(s, HasSubstr(">dear<"));
  EXPECT_THAT(s, Not(HasSubstr(">cheap<")));
  EXPECT_THAT(s, HasSubstr("the 100 longest calls"));
}

}  // namespace
}  // namespace examples
