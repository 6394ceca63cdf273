// Hooks on memory pools: events, scopes, threads, JSON lines.
#include <locus/core/memory_tools.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <sstream>
#include <thread>

#include <locus/core/error.h>
#include <locus/devices/host/host_memory.h>
#include <locus/devices/pool.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/matmul.h>
#include <nlohmann/json.hpp>
#include "tests/devices/fake_device.h"
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::ElementsAre;
using testing::Pair;
using Kind = MemoryEventKind;

constexpr size_t kMiB = size_t{1} << 20;

// Keeps the events of one context.
class Recorder final : public MemoryHook {
 public:
  explicit Recorder(Context c) : context_(c) {}
  void on(const MemoryEvent& e) noexcept override {
    if (e.context != context_) return;
    const std::lock_guard lock(mutex_);
    events_.push_back(e);
  }
  std::vector<MemoryEvent> events(Kind kind) const {
    std::vector<MemoryEvent> list = events_;
    std::erase_if(list, [&](const MemoryEvent& e) { return e.kind != kind; });
    return list;
  }
  // Kinds and sizes of blocks.
  std::vector<std::pair<Kind, size_t>> sizes() const {
    std::vector<std::pair<Kind, size_t>> list;
    for (const MemoryEvent& e : events_) list.emplace_back(e.kind, e.block);
    return list;
  }

 private:
  const Context context_;
  std::mutex mutex_;
  std::vector<MemoryEvent> events_;
};

CachingPool make_pool(size_t limit = 0, bool caching = true) {
  return CachingPool(std::make_unique<HostMemory>(512),
                     {.context = fake(), .limit = limit, .caching = caching});
}
void* take_one(CachingPool& pool, size_t bytes = 1) { return pool.allocate(bytes, {fake(), 1}); }
void give(CachingPool& pool, void* p, size_t bytes = 1) { pool.deallocate(p, bytes, {fake(), 1}); }

TEST(MemoryHooks, TwoBlocksOfOneByteAreOneSegmentOfTheDriver) {
  Recorder recorder(fake());
  CachingPool pool = make_pool();
  {
    const MemoryHookScope on(recorder);
    for (int i = 0; i < 2; ++i) give(pool, take_one(pool));
    pool.release_cached();
  }
  give(pool, take_one(pool));  // not reported
  EXPECT_THAT(
      recorder.sizes(),
      ElementsAre(Pair(Kind::request, 512), Pair(Kind::upstream, 2 * kMiB), Pair(Kind::served, 512),
                  Pair(Kind::freed, 512), Pair(Kind::request, 512), Pair(Kind::served, 512),
                  Pair(Kind::freed, 512), Pair(Kind::released, 2 * kMiB)));
  for (const MemoryEvent& e : recorder.events(Kind::served)) {
    EXPECT_EQ(e.bytes, 1U);
    EXPECT_EQ(e.stream, 1U);
    EXPECT_EQ(e.data, recorder.events(Kind::freed)[0].data);
  }
}

TEST(MemoryHooks, WithoutCachingEveryBlockIsOfTheDriver) {
  Recorder recorder(fake());
  CachingPool pool = make_pool(0, false);
  const MemoryHookScope on(recorder);
  give(pool, take_one(pool));
  EXPECT_THAT(recorder.sizes(),
              ElementsAre(Pair(Kind::request, 1), Pair(Kind::upstream, 1), Pair(Kind::served, 1),
                          Pair(Kind::freed, 1), Pair(Kind::released, 1)));
}

TEST(MemoryHooks, ARequestThatFailsIsNotServed) {
  Recorder recorder(fake());
  CachingPool pool = make_pool(kMiB);
  const MemoryHookScope on(recorder);
  EXPECT_THROW(take_one(pool, 2 * kMiB), OutOfMemory);
  EXPECT_THROW(take_one(pool, SIZE_MAX), OutOfMemory);
  EXPECT_EQ(recorder.events(Kind::request).size(), 2U);
  EXPECT_TRUE(recorder.events(Kind::served).empty());
}

TEST(MemoryHooks, ABlockThatStreamsStillUseIsFreedAtOnceAndOnce) {
  Recorder recorder(fake());
  CachingPool pool = make_pool();
  const MemoryHookScope on(recorder);
  const EventView pending = device(fake()).record({fake(), 2});
  pool.deallocate_after(take_one(pool), 1, {fake(), 1}, {&pending, 1});
  EXPECT_EQ(recorder.events(Kind::freed).size(), 1U);
  static_cast<FakeEvent*>(pending.native)->fired = true;
  pool.release_cached();
  EXPECT_EQ(recorder.events(Kind::freed).size(), 1U);
}

TEST(MemoryHooks, TensorsOfEveryContextHaveOpScopeAndLine) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Recorder recorder(c);
    unsigned line = 0;
    {
      const MemoryHookScope on(recorder);
      const MemoryScope outer("step"), inner("sum");
      const Tensor x = ones({3}, c);
      line = __LINE__ + 1;
      static_cast<void>(x + x);
    }
    const auto served = recorder.events(Kind::served), freed = recorder.events(Kind::freed);
    ASSERT_EQ(served.size(), 2U);
    EXPECT_EQ(recorder.events(Kind::request).size(), 2U);
    EXPECT_EQ(freed.size(), 2U);
    EXPECT_EQ(served[1].bytes, 12U);
    EXPECT_EQ(served[1].block, !pool_caching() ? 12 : is_host(c) ? 64 : 512);
    EXPECT_STREQ(served[0].op, "fill");
    EXPECT_STREQ(served[1].op, "add");
    EXPECT_STREQ(served[1].scope, "step/sum");
    EXPECT_TRUE(
        to_string(served[1].caller).ends_with("memory_hooks_test.cc:" + std::to_string(line)))
        << to_string(served[1].caller);
    EXPECT_EQ(served[1].data, freed[0].data);
  }
}

TEST(MemoryHooks, AnExceptionEndsScopesAndOps) {
  Recorder recorder(fake());
  CachingPool pool = make_pool();
  const MemoryHookScope on(recorder);
  const MemoryScope outer("outer");
  EXPECT_THROW(
      {
        const MemoryScope inner("inner");
        matmul(ones({2, 3}), ones({2, 3}));
      },
      ShapeError);
  give(pool, take_one(pool));
  const MemoryEvent served = recorder.events(Kind::served)[0];
  EXPECT_STREQ(served.scope, "outer");
  EXPECT_STREQ(served.op, "");
  EXPECT_EQ(served.caller.file, nullptr);
}

TEST(MemoryHooks, OtherThreadsBeginWithoutAScope) {
  Recorder recorder(fake());
  CachingPool pool = make_pool();
  const MemoryHookScope on(recorder);
  const MemoryScope outer("outer");
  std::thread([&] { give(pool, take_one(pool)); }).join();
  EXPECT_STREQ(recorder.events(Kind::served)[0].scope, "");
}

TEST(MemoryHooks, RefuseWhatMakesNoSense) {
  Recorder recorder(fake());
  const MemoryHookScope on(recorder);
  EXPECT_EQ(message_of<ValueError>([&] { const MemoryHookScope twice(recorder); }),
            "MemoryHookScope: the hook is in a scope already; expected each hook in one scope at a "
            "time");
  EXPECT_EQ(message_of<ValueError>([] { const MemoryScope scope(""); }),
            "MemoryScope: the label is empty; expected a name");
}

TEST(MemoryHooks, EndInAnyOrder) {
  Recorder a(fake()), b(fake());
  CachingPool pool = make_pool();
  auto first = std::make_unique<MemoryHookScope>(a);
  auto second = std::make_unique<MemoryHookScope>(b);
  first.reset();
  give(pool, take_one(pool));
  second.reset();
  give(pool, take_one(pool));
  EXPECT_TRUE(a.sizes().empty());
  EXPECT_EQ(b.events(Kind::freed).size(), 1U);
}

// Uses the pool and makes tensors while it is called.
class BusyHook final : public MemoryHook {
 public:
  void on(const MemoryEvent& e) noexcept override {
    ++calls;
    if (e.context == cpu(0)) in_use = memory_pool(cpu(0)).stats().in_use;
    static_cast<void>(ones({2}) + 1);
  }
  std::atomic<int> calls{0};
  std::atomic<size_t> in_use{0};
};

TEST(MemoryHooks, MayUsePoolsAndAreNotToldOfTheirOwnBlocks) {
  BusyHook hook;
  const MemoryHookScope on(hook);
  const Tensor x = zeros({5});
  EXPECT_GE(hook.calls, 2);  // request, served; the driver may be asked, too
  EXPECT_LE(hook.calls, 3);
  EXPECT_GT(hook.in_use, 0U);
}

// Fails if it is called after its scope.
class MortalHook final : public MemoryHook {
 public:
  ~MortalHook() override { alive_ = false; }
  void on(const MemoryEvent&) noexcept override {
    std::this_thread::yield();
    if (!alive_) std::abort();
    ++calls;
  }
  static inline std::atomic<int> calls{0};

 private:
  std::atomic<bool> alive_{true};
};

TEST(MemoryHooks, AreRemovedWhileOtherThreadsAllocate) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      CachingPool pool = make_pool();
      while (!stop) give(pool, take_one(pool));
    });
  MortalHook::calls = 0;
  int rounds = 0;
  for (; rounds < 200 || MortalHook::calls < 100; ++rounds) {
    MortalHook hook;
    const MemoryHookScope on(hook);
    std::this_thread::yield();
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  EXPECT_GE(rounds, 200);
}

TEST(MemoryHooks, JsonLinesAreReadBack) {
  std::ostringstream os;
  JsonLines lines(os);
  {
    const MemoryHookScope on(lines);
    CachingPool pool = make_pool();
    const MemoryScope scope("a \"b\"\n\xff");
    for (int i = 0; i < 2; ++i) give(pool, take_one(pool));
  }
  std::vector<nlohmann::json> events;
  std::istringstream in(os.str());
  for (std::string line; std::getline(in, line);)
    if (const auto event = nlohmann::json::parse(line); event.at("context") == to_string(fake()))
      events.push_back(event);
  std::vector<std::string> kinds;
  for (const auto& e : events) kinds.push_back(e.at("event"));
  EXPECT_THAT(kinds, ElementsAre("request", "upstream", "served", "freed", "request", "served",
                                 "freed", "released"));
  EXPECT_EQ(events[2].at("bytes"), 1);
  EXPECT_EQ(events[2].at("block"), 512);
  EXPECT_EQ(events[2].at("stream"), 1);
  EXPECT_EQ(events[2].at("scope"), "a \"b\"\n\xEF\xBF\xBD");
  EXPECT_EQ(events[2].at("data"), events[3].at("data"));
  EXPECT_FALSE(events[0].contains("data"));
  EXPECT_FALSE(events[2].contains("op"));
  EXPECT_FALSE(events[2].contains("line"));
}

TEST(MemoryHooks, JsonLinesSurviveAStreamThatThrows) {
  std::ostringstream os;
  os.exceptions(std::ios::badbit);
  JsonLines lines(os);
  os.setstate(std::ios::failbit);
  try {
    os.setstate(std::ios::badbit);
  } catch (const std::ios::failure&) {
  }
  CachingPool pool = make_pool();
  const MemoryHookScope on(lines);
  give(pool, take_one(pool));
  EXPECT_EQ(os.str(), "");
}

}  // namespace
}  // namespace locus::test
