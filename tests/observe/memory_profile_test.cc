// MemoryProfile, memory_summary, live blocks, and LOCUS_MEMORY.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <thread>

#include <locus/core/autograd.h>
#include <locus/core/base/table.h>
#include <locus/core/error.h>
#include <locus/core/memory_tools.h>
#include <locus/core/observe/memory_events.h>
#include <locus/devices/host/host_memory.h>
#include <locus/devices/pool.h>
#include <locus/nn/layers.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/join.h>
#include <locus/ops/matmul.h>
#include <locus/ops/reduce.h>
#include <nlohmann/json.hpp>
#include "tests/devices/fake_device.h"
#include "tests/support/contexts.h"
#include "tests/support/folder.h"

namespace locus::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::ExitedWithCode;
using testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;

std::vector<MemoryEntry> on(Context c, std::vector<MemoryEntry> list) {
  std::erase_if(list, [&](const MemoryEntry& e) { return e.context != c; });
  return list;
}
// The entry of this file's line, or an empty one.
MemoryEntry at_line(const MemoryProfile& profile, Context c, unsigned line) {
  const std::string name = text_of(__FILE__, ':', line);
  for (const MemoryEntry& e : profile.by_line())
    if (e.context == c && e.name == name) return e;
  return {};
}

class MemoryProfiles : public testing::Test {
 protected:
  void* take(size_t bytes) { return pool_.allocate(bytes, stream_); }
  void give(void* p, size_t bytes) { pool_.deallocate(p, bytes, stream_); }

  CachingPool pool_{std::make_unique<HostMemory>(512), {.context = fake(), .caching = true}};
  const StreamView stream_{fake(), 1};
};

TEST_F(MemoryProfiles, CountBlocksAndTheDriversMemoryByLine) {
  give(take(1024), 1024);
  MemoryProfile profile;
  void *a = nullptr, *b = nullptr;
  {
    const UserLine line(Caller::here("a.cc", 1));
    a = take(1024);
  }
  {
    const UserLine line(Caller::here("a.cc", 2));
    b = take(2 * kMiB);
  }
  give(a, 1024);
  const auto lines = on(fake(), profile.by_line());
  ASSERT_EQ(lines.size(), 3U);
  const auto expect = [](const MemoryEntry& e, const char* name, size_t current, size_t peak,
                         size_t total, size_t upstream, uint64_t blocks) {
    EXPECT_EQ(e.name, name);
    EXPECT_EQ(e.current, current) << name;
    EXPECT_EQ(e.peak, peak) << name;
    EXPECT_EQ(e.total, total) << name;
    EXPECT_EQ(e.upstream, upstream) << name;
    EXPECT_EQ(e.blocks, blocks) << name;
  };
  const size_t both = 2 * kMiB + 1024;
  expect(lines[0], "", 2 * kMiB, both, both, 32 * kMiB, 2);
  expect(lines[1], "a.cc:2", 2 * kMiB, 2 * kMiB, 2 * kMiB, 32 * kMiB, 1);
  expect(lines[2], "a.cc:1", 0, 1024, 1024, 0, 1);
  EXPECT_EQ(profile.live_blocks(),
            "1 live block, 2 MiB\n"
            "context  blocks  bytes  op  scope  line\n"
            "fake(0)       1  2 MiB  -   -      a.cc:2\n");
  give(b, 2 * kMiB);
  EXPECT_EQ(profile.live_blocks(), "no live blocks\n");
}

TEST_F(MemoryProfiles, AScopeIncludesInnerScopesAlsoIfTheyEndByAnException) {
  MemoryProfile profile;
  std::vector<void*> blocks;
  for (int i = 0; i < 2; ++i) {
    const MemoryScope step("step");
    try {
      const MemoryScope inner("a");
      blocks.push_back(take(512));
      throw Error("stop");
    } catch (const Error&) {
      blocks.push_back(take(1024));
    }
  }
  {
    const MemoryScope other("step-2");
    give(take(512), 512);
  }
  for (size_t i = 0; i < blocks.size(); ++i) give(blocks[i], i % 2 ? 1024 : 512);
  EXPECT_EQ(profile.table(),
            "context  scope     current     peak    total  from driver  blocks\n"
            "fake(0)  all           0 B  3.5 KiB  3.5 KiB        2 MiB       5\n"
            "fake(0)    step        0 B    3 KiB    3 KiB        2 MiB       4\n"
            "fake(0)      a         0 B    1 KiB    1 KiB        2 MiB       2\n"
            "fake(0)    step-2      0 B    512 B    512 B          0 B       1\n"
            "context  line              current     peak    total  from driver  blocks\n"
            "fake(0)  all                   0 B  3.5 KiB  3.5 KiB        2 MiB       5\n"
            "fake(0)  (line not known)      0 B  3.5 KiB  3.5 KiB        2 MiB       5\n");
}

TEST_F(MemoryProfiles, OlderBlocksDoNotCount) {
  void* const old = take(512);
  MemoryProfile profile;
  give(old, 512);
  EXPECT_TRUE(on(fake(), profile.by_scope()).size() <= 1);
  void* const p = take(512);
  EXPECT_EQ(on(fake(), profile.by_scope())[0].current, 512U);
  give(p, 512);
}

TEST_F(MemoryProfiles, CountThreadsTogether) {
  MemoryProfile profile;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      const MemoryScope scope("worker");
      for (int n = 0; n < 200; ++n) give(take(100), 100);
    });
  for (std::thread& t : threads) t.join();
  const auto scopes = on(fake(), profile.by_scope());
  ASSERT_EQ(scopes.size(), 2U);
  EXPECT_EQ(scopes[1].name, "worker");
  EXPECT_EQ(scopes[1].blocks, 800U);
  EXPECT_EQ(scopes[1].total, 800U * 512);
  EXPECT_EQ(scopes[1].current, 0U);
}

Tensor doubled(const Tensor& x, unsigned& line) {
  line = __LINE__ + 1;
  return x + x;
}

TEST(MemoryLines, AreTheInnermostOfTheUsersCodeOnEveryContext) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    MemoryProfile profile;
    unsigned lines[8] = {};
    nn::Dense layer(4, {}, {.in_units = 4});
    lines[0] = __LINE__ + 1;
    layer.initialize(init::Zero(), c);
    lines[1] = __LINE__ + 1;
    const Tensor x = ones({4, 4}, c);
    const Tensor twice = doubled(x, lines[2]);
    lines[3] = __LINE__ + 1;
    const Tensor y = layer(x);
    lines[4] = __LINE__ + 1;
    const Tensor z = concat({x, y});
    lines[5] = __LINE__ + 1;
    const Tensor sum = z.sum();
    lines[6] = __LINE__ + 1;
    const Tensor there = x.copyto(c);
    Tensor l;
    x.attach_grad();
    {
      const autograd::Record record;
      l = (x * x).sum();
    }
    lines[7] = __LINE__ + 1;
    l.backward();
    for (const unsigned line : lines) {
      const MemoryEntry e = at_line(profile, c, line);
      EXPECT_GT(e.total, 0U) << "line " << line << " of\n" << profile.table();
    }
    EXPECT_GE(at_line(profile, c, lines[2]).current, 64U);
    EXPECT_GE(at_line(profile, c, lines[4]).current, 128U);
  }
}

TEST(MemoryLines, OfFreedTensorsAreEmptyAgain) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    MemoryProfile profile;
    unsigned line = 0;
    for (int i = 0; i < 3; ++i) {
      line = __LINE__ + 1;
      const Tensor x = full({100}, i, c);
    }
    const MemoryEntry e = at_line(profile, c, line);
    EXPECT_EQ(e.current, 0U);
    EXPECT_GE(e.peak, 400U);
    EXPECT_EQ(e.total, 3 * e.peak);
    EXPECT_EQ(e.blocks, 3U);
  }
}

TEST(MemorySummary, HasThePartsOfEveryContext) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = ones({1 << 20}, c);
    wait_all();
    const std::string text = memory_summary(c);
    const MemoryStats stats = memory_pool(c).stats();
    EXPECT_THAT(text, HasSubstr(text_of(c, ", ", context_info(c).name, ": ")));
    EXPECT_THAT(text, HasSubstr("live blocks"));
    EXPECT_THAT(text, HasSubstr(memory_text(stats.in_use) + "  peak " + memory_text(stats.peak)));
    EXPECT_THAT(text, HasSubstr(memory_text(stats.reserved - stats.in_use) +
                                text_of("  memory_pool(", c, ").release_cached()")));
    EXPECT_THAT(text, HasSubstr(is_host(c) ? "all else of this and other programs"
                                           : "driver, loaded code, libraries, other programs"));
  }
}

TEST(MemorySummary, OfAContextThatIsMissingThrows) {
  EXPECT_THROW(memory_summary(gpu(63)), DeviceError);
}

// The child starts the program anew, with LOCUS_MEMORY.
class MemoryVariableDeathTest : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "the program's leaks are errors of AddressSanitizer";
#endif
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
  void TearDown() override {
    unsetenv("LOCUS_MEMORY");
    GTEST_FLAG_SET(death_test_style, style_);
  }

 private:
  const std::string style_ = GTEST_FLAG_GET(death_test_style);
};

Context last_context() { return contexts().back(); }

// Exits with 7 if live_blocks() knows whether a block is lost.
[[noreturn]] void exit_with_globals(bool leaks) {
  static const Tensor global = ones({10}, last_context());  // freed after main()
  {
    const Tensor sum = global + global;
    const MemoryScope scope("lost");
    if (leaks) new Tensor(zeros({1000}, last_context()));
    wait_all();
  }
  const std::string live = std::string(getenv("LOCUS_MEMORY")) == "leaks" ? live_blocks() : "";
  std::exit(leaks == (live.find(" lost ") != live.npos) ? 7 : 1);
}

TEST_F(MemoryVariableDeathTest, LeaksAreListedAtTheEnd) {
  setenv("LOCUS_MEMORY", "leaks", 1);
  EXPECT_EXIT(exit_with_globals(true), ExitedWithCode(7),
              AllOf(HasSubstr("LOCUS_MEMORY=leaks: 1 live block, "), HasSubstr(" fill "),
                    HasSubstr(" lost "), HasSubstr("memory_profile_test.cc:")));
  EXPECT_EXIT(exit_with_globals(false), ExitedWithCode(7),
              HasSubstr("LOCUS_MEMORY=leaks: no live blocks"));
}

TEST_F(MemoryVariableDeathTest, AFileHasEveryEvent) {
  std::optional<Folder> folder;
  if (!std::getenv("LOCUS_MEMORY")) {  // the child has the variable
    folder.emplace();
    setenv("LOCUS_MEMORY", (*folder / "memory.jsonl").c_str(), 1);
  }
  const std::string file = std::getenv("LOCUS_MEMORY");
  EXPECT_EXIT(exit_with_globals(false), ExitedWithCode(7), "");
  std::ifstream in(file);
  int served = 0, freed = 0;
  for (std::string line; std::getline(in, line);) {
    const auto event = nlohmann::json::parse(line);
    served += event.at("event") == "served";
    freed += event.at("event") == "freed";
    if (event.contains("line")) {
      EXPECT_THAT(std::string(event["line"]), HasSubstr("memory_profile_test.cc:"));
    }
  }
  EXPECT_GE(served, 2);
  EXPECT_EQ(served, freed);
}

[[noreturn]] void print_error(const std::function<void()>& f) {
  std::fputs(message_of<Error>(f).c_str(), stderr);
  std::exit(7);
}

TEST_F(MemoryVariableDeathTest, AValueThatMakesNoSenseThrowsAtEveryAllocation) {
  const auto ones_twice = [] {
    EXPECT_THROW(ones({2}), Error);
    ones({2});
  };
  setenv("LOCUS_MEMORY", "leak", 1);
  EXPECT_EXIT(
      print_error(ones_twice), ExitedWithCode(7),
      HasSubstr("LOCUS_MEMORY=leak: expected leaks, redzones, or a file such as memory.jsonl"));
  setenv("LOCUS_MEMORY", "/nowhere/memory.jsonl", 1);
  EXPECT_EXIT(print_error(ones_twice), ExitedWithCode(7),
              HasSubstr("LOCUS_MEMORY=/nowhere/memory.jsonl: the file cannot be written"));
}

TEST(LiveBlocks, AreKnownOnlyIfTheProgramAskedForThem) {
  if (const char* const set = std::getenv("LOCUS_MEMORY"); set && *set)
    GTEST_SKIP() << "needs a run without LOCUS_MEMORY";
  EXPECT_EQ(message_of<Error>([] { live_blocks(); }),
            "live_blocks: the blocks were not recorded; run the program with LOCUS_MEMORY=leaks, "
            "or call MemoryProfile::live_blocks()");
}

}  // namespace
}  // namespace locus::test
