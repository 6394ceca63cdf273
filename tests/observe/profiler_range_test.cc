// profiler::Range in the trace, and the calls of NVTX.
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <locus/core/error.h>
#include <locus/core/observe/ranges.h>
#include <locus/core/profiler.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <nlohmann/json.hpp>
#include "tests/support/contexts.h"
#include "tests/support/folder.h"

namespace {

using namespace locus;
using nlohmann::json;

// Replaces NVTX: notes names, and ")" for the end of a range.
std::string noted;
constexpr tracing::RangeCalls kNotes{[](const char* name) { noted += std::string(name) + "("; },
                                     [] { noted += ")"; }};

class ProfilerRange : public testing::Test {
 protected:
  ProfilerRange() { noted.clear(); }
  ~ProfilerRange() override { tracing::set_range_calls(before_); }

 private:
  const tracing::RangeCalls* const before_ = tracing::range_calls();
};

json bar(const json& events, const std::string& name) {
  json found;
  for (const json& e : events)
    if (e["ph"] == "X" && e["name"] == name) {
      EXPECT_TRUE(found.is_null()) << "two bars " << name;
      found = e;
    }
  EXPECT_FALSE(found.is_null()) << "no bar " << name;
  return found;
}

TEST_F(ProfilerRange, IsABarAroundTheThreadsOps) {
  const test::Folder folder;
  const std::string path = folder / "trace.json";
  const Tensor x = ones({4});
  profiler::start(path);
  {
    const profiler::Range epoch("epoch 1");
    const profiler::Range step(std::string("st\"ep"));
    x + 1;
  }
  profiler::stop();
  const json events = json::parse(std::ifstream(path)).at("traceEvents");
  const json outer = bar(events, "epoch 1"), inner = bar(events, "st\"ep"), op = bar(events, "add");
  EXPECT_EQ(outer["cat"], "range");
  const auto within = [](const json& a, const json& b) {
    const double a0 = a["ts"], a1 = a0 + a["dur"].get<double>(), b0 = b["ts"],
                 b1 = b0 + b["dur"].get<double>();
    return b0 <= a0 && a1 <= b1 + 1e-3 && a["tid"] == b["tid"] && a["pid"] == b["pid"];
  };
  EXPECT_TRUE(within(inner, outer)) << events;
  EXPECT_TRUE(within(op, inner)) << events;
}

TEST_F(ProfilerRange, IsNotInTheTraceUnlessWhollyRecorded) {
  const test::Folder folder;
  const std::string path = folder / "trace.json";
  { const profiler::Range unseen("no trace"); }
  {
    const profiler::Range early("early");
    profiler::start(path);
  }
  {
    const profiler::Range late("late");
    profiler::stop();
  }
  EXPECT_TRUE(json::parse(std::ifstream(path)).at("traceEvents").empty());
}

TEST_F(ProfilerRange, CallsNvtx) {
  tracing::set_range_calls(&kNotes);
  {
    const profiler::Range outer("epoch");
    const profiler::Range inner("step");
    ones({2}) + 1;
  }
  EXPECT_EQ(noted, "epoch(step())");
}

// LOCUS_NVTX is read once per process.
using ProfilerRangeDeathTest = ProfilerRange;

TEST_F(ProfilerRangeDeathTest, OfEveryOpIfAsked) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  setenv("LOCUS_NVTX", "1", 1);
  EXPECT_EXIT(
      {
        tracing::set_range_calls(&kNotes);
        const Tensor x = ones({2}, test::contexts().back());
        {
          const profiler::Range range("mine");
          x + 1;
          x * 2;
        }
        std::fputs(noted.c_str(), stderr);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "mine.add..multiply...$");
  EXPECT_EXIT(
      {
        tracing::set_range_calls(nullptr);
        try {
          ones({2});
        } catch (const Error& e) {
          std::fputs(e.what(), stderr);
          std::exit(3);
        }
      },
      testing::ExitedWithCode(3), "LOCUS_NVTX=1: there is no NVTX here");
  setenv("LOCUS_NVTX", "yes", 1);
  EXPECT_EXIT(
      {
        try {
          ones({2});
        } catch (const Error& e) {
          std::fputs(e.what(), stderr);
          std::exit(3);
        }
      },
      testing::ExitedWithCode(3), "LOCUS_NVTX=yes: expected");
  unsetenv("LOCUS_NVTX");
}

}  // namespace
