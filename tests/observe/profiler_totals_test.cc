// Totals by op: profiler::start_totals(), totals() and dumps().
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include <locus/core/compile.h>
#include <locus/core/error.h>
#include <locus/core/observe/totals.h>
#include <locus/core/profiler.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/matmul.h>
#include <locus/ops/trigonometry.h>
#include <nlohmann/json.hpp>
#include "tests/support/contexts.h"
#include "tests/support/folder.h"
#include "tests/support/slow.h"

namespace {

using namespace locus;
using profiler::OpTotals;
using testing::HasSubstr;

class ProfilerTotals : public testing::Test {
 protected:
  template <class F>
  static std::vector<OpTotals> totals_of(F&& f) {
    profiler::start_totals();
    f();
    profiler::stop_totals();
    return profiler::totals();
  }
};

// An entry with count 0 if there is none.
OpTotals find(const std::vector<OpTotals>& all, const std::string& name, Context c) {
  for (const OpTotals& t : all)
    if (t.name == name && t.context == c) return t;
  return {.name = name, .context = c};
}

TEST_F(ProfilerTotals, CountAndTimeOpsOnEveryContext) {
  for (const Context c : test::distinct_contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor a = ones({64, 64}, c);
    const std::vector<OpTotals> all = totals_of([&] {
      for (int i = 0; i < 20; ++i) dot(a, a) + 1;
    });
    EXPECT_EQ(find(all, "add", c).count, 20u);
    const OpTotals product = find(all, "matmul", c);
    EXPECT_EQ(product.count, 20u);
    EXPECT_GT(product.min_ms, 0);
    EXPECT_LE(product.min_ms, product.mean_ms);
    EXPECT_LE(product.mean_ms, product.max_ms);
    EXPECT_NEAR(product.mean_ms * 20, product.total_ms, 1e-9 * product.total_ms);
  }
}

TEST_F(ProfilerTotals, AreOfEachContextTheLongestFirst) {
  const std::vector<Context> contexts = test::distinct_contexts();
  std::vector<Tensor> x;
  for (const Context c : contexts) x.push_back(ones({200, 200}, c));
  const std::vector<OpTotals> all = totals_of([&] {
    for (int i = 0; i < 5; ++i)
      for (const Tensor& t : x) dot(t, t) + 1;
  });
  for (const Context c : contexts) EXPECT_EQ(find(all, "matmul", c).count, 5u) << c;
  for (size_t i = 1; i < all.size(); ++i) {
    EXPECT_LE(all[i - 1].context, all[i].context);
    if (all[i - 1].context == all[i].context) {
      EXPECT_GE(all[i - 1].total_ms, all[i].total_ms);
    }
  }
}

TEST_F(ProfilerTotals, TimesAreThoseOfTheDevice) {
  LOCUS_NEEDS_EMULATED_GPUS();
  const test::LinkModelScope slow(test::kSlow);
  const Tensor h = full({test::kMegabyte}, 1, cpu_pinned());
  const OpTotals copy = find(totals_of([&] { h.copyto(gpu(0), {.blocking = false}); }),
                             "copy cpu_pinned(0) to gpu(0)", gpu(0));
  EXPECT_EQ(copy.count, 1u);
  EXPECT_GE(copy.total_ms, 50);
}

TEST_F(ProfilerTotals, CountCopies) {
  const Tensor x = ones({10}, cpu(0));
  for (const Context c : test::distinct_contexts()) {
    if (c == cpu(0)) continue;
    const std::vector<OpTotals> all = totals_of([&] { x.copyto(c); });
    EXPECT_EQ(find(all, "copy cpu(0) to " + to_string(c), c).count, 1u) << c;
  }
}

// More than the events that are kept; from several threads.
TEST_F(ProfilerTotals, MissNoCall) {
  for (const Context c : test::contexts()) {
    const std::vector<OpTotals> all = totals_of([&] {
      std::vector<std::thread> threads;
      for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
          Tensor x = ones({4}, c);
          for (int i = 0; i < 1500; ++i) x = x + 1;
        });
      for (std::thread& t : threads) t.join();
    });
    EXPECT_EQ(find(all, "add", c).count, 6000u) << c;
  }
}

TEST_F(ProfilerTotals, GoOnAfterTheyAreRead) {
  for (const Context c : test::contexts()) {
    const Tensor x = ones({4}, c);
    profiler::start_totals();
    x + 1;
    EXPECT_EQ(find(profiler::totals(), "add", c).count, 1u);
    x + 1;
    EXPECT_THAT(profiler::dumps(), HasSubstr("add"));
    EXPECT_THAT(profiler::dumps(true), HasSubstr("add"));
    EXPECT_TRUE(profiler::totals().empty());
    EXPECT_EQ(profiler::dumps(), "Profile Statistics: no ops and no copies.\n");
    x + 1;
    profiler::stop_totals();
    x + 1;
    EXPECT_EQ(find(profiler::totals(), "add", c).count, 1u);
    EXPECT_EQ(find(totals_of([&] { x * 2; }), "add", c).count, 0u);
  }
}

TEST_F(ProfilerTotals, WithATrace) {
  const test::Folder folder;
  const std::string path = folder / "trace.json";
  const Context c = test::contexts().back();
  const Tensor x = ones({4}, c);
  profiler::start(path);
  profiler::start_totals();
  x + 1;
  profiler::stop();
  x + 1;  // still counted
  profiler::stop_totals();
  EXPECT_EQ(find(profiler::totals(), "add", c).count, 2u);
  int bars = 0;
  const auto trace = nlohmann::json::parse(std::ifstream(path));
  for (const auto& event : trace.at("traceEvents")) bars += event["name"] == "add";
  EXPECT_EQ(bars, 1);
}

TEST_F(ProfilerTotals, ReplaysCountEachOfTheirCalls) {
  for (const Context c : test::contexts()) {
    const Tensor x = ones({100}, c);
    Compiled f([](const Tensors& in) { return Tensors{cos(in[0]) * 2}; });
    for (int i = 0; i < 2; ++i) f({x});
    const std::vector<OpTotals> all = totals_of([&] {
      for (int i = 0; i < 3; ++i) f({x});
    });
    EXPECT_EQ(find(all, "cos", c).count, 3u) << c;
    EXPECT_EQ(find(all, "multiply", c).count, 3u) << c;
  }
}

TEST_F(ProfilerTotals, Table) {
  EXPECT_EQ(
      profiler::format_totals(
          {{"matmul", cpu(0), 10, 25, 1, 4, 2.5}, {"add", cpu(1), 2, .0003, .0001, .0002, .00015}}),
      "Profile Statistics\n"
      "Name    Context  Total Count  Time (ms)  Min Time (ms)  Max Time (ms)  Avg Time (ms)\n"
      "matmul  cpu(0)            10    25.0000         1.0000         4.0000         2.5000\n"
      "add     cpu(1)             2     0.0003         0.0001         0.0002         0.0001\n");
}

TEST_F(ProfilerTotals, Refuse) {
  EXPECT_THAT(test::message_of<Error>([] { profiler::stop_totals(); }),
              HasSubstr("profiler::start_totals()"));
  profiler::start_totals();
  EXPECT_THAT(test::message_of<Error>([] { profiler::start_totals(); }),
              HasSubstr("already counting"));
  profiler::stop_totals();
}

using ProfilerTotalsDeathTest = ProfilerTotals;

TEST_F(ProfilerTotalsDeathTest, AreNotReadBeforeTheStart) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        for (const auto f : {+[] { profiler::totals(); }, +[] { profiler::dumps(); }}) try {
            f();
          } catch (const Error& e) {
            std::fputs(e.what(), stderr);
          }
        std::exit(0);
      },
      testing::ExitedWithCode(0), "totals: nothing was counted; .*dumps: nothing was counted; ");
}

}  // namespace
