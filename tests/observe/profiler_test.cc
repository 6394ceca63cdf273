// The profiler's trace: rows, bars, arrows and counters.
#include <locus/core/profiler.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include <locus/core/compile.h>
#include <locus/core/device.h>
#include <locus/core/kernel.h>
#include <locus/core/stream.h>
#include <locus/core/transfer_kind.h>
#include <locus/core/transfer_log.h>
#include <locus/devices/emulated_link.h>
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
using nlohmann::json;
using testing::HasSubstr;

class Profiler : public testing::Test {
 protected:
  const test::Folder folder_;
  const std::string path_ = folder_ / "trace.json";

  // The trace of f's work.
  template <class F>
  json trace_of(F&& f) {
    profiler::start(path_);
    f();
    profiler::stop();
    EXPECT_FALSE(std::filesystem::exists(path_ + ".part"));
    return json::parse(std::ifstream(path_)).at("traceEvents");
  }
};

using RowKey = std::pair<int, int64_t>;

std::map<int, std::string> processes(const json& events) {
  std::map<int, std::string> names;
  for (const json& e : events)
    if (e["ph"] == "M" && e["name"] == "process_name") {
      EXPECT_TRUE(names.emplace(e["pid"], e["args"]["name"]).second);
    }
  return names;
}

std::map<RowKey, std::string> rows(const json& events) {
  std::map<RowKey, std::string> names;
  const auto pids = processes(events);
  for (const json& e : events)
    if (e["ph"] == "M" && e["name"] == "thread_name") {
      names[{e["pid"], e["tid"]}] = pids.at(e["pid"]) + " " + e["args"]["name"].get<std::string>();
    }
  return names;
}

std::vector<json> bars(const json& events, const std::string& category,
                       const std::string& name = "") {
  std::vector<json> list;
  for (const json& e : events)
    if (e["ph"] == "X" && e["cat"] == category && (name.empty() || e["name"] == name)) {
      list.push_back(e);
    }
  return list;
}

// No bar has negative length or overlaps the bar before it on its row.
void expect_in_order(const json& events) {
  std::map<RowKey, std::vector<std::pair<double, double>>> on_row;
  for (const json& e : events)
    if (e["ph"] == "X") {
      EXPECT_GE(e["dur"].get<double>(), 0) << e;
      on_row[{e["pid"], e["tid"]}].emplace_back(e["ts"], e["dur"]);
    }
  const auto names = rows(events);
  constexpr double kRounding = 1e-3;  // a nanosecond
  for (auto& [row, list] : on_row) {
    EXPECT_EQ(names.count(row), 1u) << "a row without a name";
    std::sort(list.begin(), list.end());
    for (size_t i = 1; i < list.size(); ++i)
      EXPECT_GE(list[i].first + kRounding, list[i - 1].first + list[i - 1].second) << names.at(row);
  }
}

// Every arrow starts within a copy in one context and ends within one in another.
size_t expect_arrows(const json& events) {
  std::map<int64_t, json> starts, ends;
  for (const json& e : events) {
    if (e["ph"] == "s") {
      EXPECT_TRUE(starts.emplace(e["id"], e).second);
    }
    if (e["ph"] == "f") {
      EXPECT_TRUE(ends.emplace(e["id"], e).second);
    }
  }
  const auto within_copy = [&](const json& arrow) {
    const double at = arrow["ts"];
    for (const json& b : bars(events, "copy")) {
      const double start = b["ts"], length = b["dur"];
      if (b["pid"] == arrow["pid"] && b["tid"] == arrow["tid"] && start <= at &&
          at <= start + length) {
        return b["args"];
      }
    }
    ADD_FAILURE() << "an arrow without a copy: " << arrow;
    return json();
  };
  const auto pids = processes(events);
  EXPECT_EQ(starts.size(), ends.size());
  for (const auto& [id, s] : starts) {
    const json& f = ends.at(id);
    EXPECT_LE(s["ts"].get<double>(), f["ts"].get<double>());
    EXPECT_EQ(within_copy(s)["from"], pids.at(s["pid"]));
    EXPECT_EQ(within_copy(f)["to"], pids.at(f["pid"]));
    EXPECT_NE(s["pid"], f["pid"]);
  }
  return starts.size();
}

TEST_F(Profiler, OpsOnEveryContext) {
  for (Context c : test::distinct_contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor a = ones({4, 8}, c), b = ones({8, 2}, {c, f32});
    const json events = trace_of([&] {
      for (int i = 0; i < 20; ++i) dot(a, b) + 1;
    });
    expect_in_order(events);
    EXPECT_EQ(processes(events).begin()->second, to_string(c));
    const std::vector<json> products = bars(events, "op", "matmul");
    ASSERT_EQ(products.size(), 20u);
    EXPECT_EQ(products[0]["args"]["in"], json({"(4,8) f32", "(8,2) f32"}));
    EXPECT_EQ(products[0]["args"]["out"], json({"(4,2) f32"}));
    EXPECT_EQ(bars(events, "op").size(), 40u);
    const std::string row = rows(events).at({products[0]["pid"], products[0]["tid"]});
    EXPECT_THAT(row,
                HasSubstr(to_string(c) + (c.type == DeviceType::gpu ? " compute" : " thread ")));
  }
}

TEST_F(Profiler, CopiesWithArrows) {
  const Tensor x = ones({1000});
  for (Context c : test::distinct_contexts()) {
    if (c == cpu()) continue;
    SCOPED_TRACE(to_string(c));
    const json events = trace_of([&] {
      Tensor y = x.copyto(c);
      y = y + 1;
      y.copyto(cpu());
    });
    expect_in_order(events);
    EXPECT_EQ(expect_arrows(events), 2u);
    const auto up = bars(events, "copy", "copy cpu(0) to " + to_string(c));
    ASSERT_EQ(up.size(), 2u);  // in both contexts
    EXPECT_EQ(up[0]["args"]["bytes"], 4000);
    EXPECT_THAT(up[0]["args"]["line"].get<std::string>(), HasSubstr("profiler_test.cc"));
  }
}

TEST_F(Profiler, BetweenGpusAndStreams) {
  LOCUS_NEEDS_ANY_GPUS(2);
  const Tensor x = ones({64, 64}, gpu(0)), h = ones({64, 64}, cpu_pinned());
  Stream side(gpu(0));
  const json events = trace_of([&] {
    for (int i = 0; i < 50; ++i) {
      const Tensor y = x.copyto(gpu(1));
      h.copyto(gpu(0), {.blocking = false}).copyto(h, {.blocking = false});
      const StreamScope on(side);
      dot(x, x);
    }
  });
  expect_in_order(events);
  EXPECT_EQ(expect_arrows(events), 150u);
  std::set<std::string> names;
  for (const auto& [key, name] : rows(events)) names.insert(name);
  for (const char* expected : {"gpu(0) to_device", "gpu(0) to_host", "gpu(1) peer"})
    EXPECT_EQ(names.count(expected), 1u) << expected;
  EXPECT_EQ(names.count("gpu(0) stream " + std::to_string(side.view().id)), 1u);
}

TEST_F(Profiler, BarsAreAsLongAsTheirCopies) {
  LOCUS_NEEDS_EMULATED_GPUS();
  const test::LinkModelScope slow(test::kSlow);
  const Tensor h = full({test::kMegabyte}, 1, cpu_pinned());
  const json events = trace_of([&] {
    h.copyto(gpu(0), {.blocking = false}).copyto(h, {.blocking = false});
    h.wait_to_read();
  });
  expect_in_order(events);
  const auto copies = bars(events, "copy");
  EXPECT_EQ(copies.size(), 4u);  // each in both contexts
  for (const json& copy : copies) {
    EXPECT_GE(copy["dur"].get<double>(), 50000) << copy;
    EXPECT_LT(copy["dur"].get<double>(), 5e6) << copy;
  }
}

TEST_F(Profiler, ComputeBesideAnUploadShowsBesideIt) {
  LOCUS_NEEDS_EMULATED_GPUS();
  const Tensor x = ones({100}, gpu(0)), h = full({test::kMegabyte}, 1, cpu_pinned());
  const test::LinkModelScope slow(emulated::LinkModel{.h2d = 0.005});  // 200 ms
  const json events = trace_of([&] {
    const Tensor next = h.copyto(gpu(0), {.blocking = false});
    for (int i = 0; i < 20; ++i) {
      x + 1;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  const auto names = rows(events);
  const auto row = [&](const json& b) { return names.at({b["pid"], b["tid"]}); };
  const auto start = [](const json& b) { return b["ts"].get<double>(); };
  const auto end = [&](const json& b) { return start(b) + b["dur"].get<double>(); };
  std::vector<json> uploads = bars(events, "copy"), ops = bars(events, "op", "add");
  std::erase_if(uploads, [&](const json& b) { return row(b) != "gpu(0) to_device"; });
  std::erase_if(ops, [&](const json& b) { return row(b) != "gpu(0) compute"; });
  ASSERT_EQ(uploads.size(), 1u);
  ASSERT_EQ(ops.size(), 20u);
  EXPECT_TRUE(std::any_of(ops.begin(), ops.end(), [&](const json& op) {
    return start(op) > start(uploads[0]) && end(op) < end(uploads[0]);
  })) << uploads[0];
}

TEST_F(Profiler, ThreadsHaveRowsOfTheirOwn) {
  for (Context c : test::contexts()) {
    SCOPED_TRACE(to_string(c));
    const json events = trace_of([&] {
      std::vector<std::thread> threads;
      for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
          Tensor x = ones({32, 32}, c);
          for (int i = 0; i < 50; ++i) x = dot(x, x) * 0.03;
          x.sum().item<float>();
        });
      for (std::thread& t : threads) t.join();
    });
    expect_in_order(events);
    EXPECT_EQ(bars(events, "op", "matmul").size(), 200u);
    std::set<int64_t> used;
    for (const json& b : bars(events, "op", "matmul")) used.insert(b["tid"].get<int64_t>());
    EXPECT_EQ(used.size(), c.type == DeviceType::gpu ? 1u : 4u);
  }
}

TEST_F(Profiler, ManyOpsKeepTheirOrder) {
  for (Context c : test::contexts()) {
    const json events = trace_of([&] {
      Tensor x = ones({4}, c);
      for (int i = 0; i < 5000; ++i) x = x + 1;
    });
    expect_in_order(events);
    EXPECT_EQ(bars(events, "op", "add").size(), 5000u);
  }
}

TEST_F(Profiler, MemoryCounters) {
  for (Context c : test::contexts()) {
    SCOPED_TRACE(to_string(c));
    const size_t bytes = size_t{1} << 20;
    wait_all();
    memory_pool(c).release_cached();  // frees what is idle
    const size_t before = memory_pool(c).stats().in_use;
    const json events = trace_of([&] { ones({static_cast<int64_t>(bytes) / 4}, c); });
    size_t most = 0;
    for (const json& e : events)
      if (e["ph"] == "C") {
        EXPECT_EQ(e["name"], "memory");
        EXPECT_EQ(processes(events).at(e["pid"]), to_string(c));
        EXPECT_GE(e["args"]["reserved"].get<size_t>(), e["args"]["in_use"].get<size_t>());
        most = std::max(most, e["args"]["in_use"].get<size_t>());
      }
    EXPECT_GE(most, before + bytes);
  }
}

TEST_F(Profiler, WaitsOfTheHost) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Tensor x = ones({10}, gpu(0));
  const json events = trace_of([&] { x.sum().item<float>(); });
  expect_in_order(events);
  const auto waits = bars(events, "wait");
  ASSERT_GE(waits.size(), 1u);
  EXPECT_EQ(processes(events).at(waits[0]["pid"]), "cpu(0)");
  EXPECT_EQ(waits[0]["args"]["for"], "gpu(0)");
  EXPECT_EQ(waits[0]["name"], "wait: item");
}

TEST_F(Profiler, SaysWhatIsModelled) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const json events = trace_of([] { ones({2}, gpu(0)); });
  for (const json& e : events)
    if (e["name"] == "process_labels") {
      const std::string label = e["args"]["labels"];
      const ContextInfo info = context_info(gpu(0));
      EXPECT_EQ(label.find("times modelled") != std::string::npos, info.modelled) << label;
      EXPECT_EQ(label.find("times of this machine") != std::string::npos,
                info.emulated && !info.modelled)
          << label;
    }
}

TEST_F(Profiler, RecordsOnlyBetweenStartAndStop) {
  ones({2}) + 1;
  const json events = trace_of([] { ones({2}) * 2; });
  ones({2}) - 1;
  EXPECT_EQ(bars(events, "op", "multiply").size(), 1u);
  EXPECT_TRUE(bars(events, "op", "add").empty());
  EXPECT_TRUE(bars(events, "op", "subtract").empty());
}

TEST_F(Profiler, NothingHappened) {
  EXPECT_TRUE(trace_of([] {}).empty());
}

TEST_F(Profiler, WithATransferLog) {
  TransferLog log;
  const Tensor x = ones({100});
  const Context c = test::distinct_contexts().back();
  const json events = trace_of([&] { x.copyto(c); });
  EXPECT_EQ(expect_arrows(events), 1u);
  uint64_t copies = 0;
  for (const TransferEntry& e : log.entries())
    if (e.kind == TransferKind::copy) copies += e.count;
  EXPECT_EQ(copies, 1u);
}

using ProfilerDeathTest = Profiler;

TEST_F(ProfilerDeathTest, TheEndOfTheProgramStopsIt) {
  const std::string style = GTEST_FLAG_GET(death_test_style);
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // the child starts anew, with another path_
  setenv("TEST_TRACE", path_.c_str(), 0);
  const std::string path = std::getenv("TEST_TRACE");
  EXPECT_EXIT(
      {
        profiler::start(path);
        const Tensor x = ones({4}, best_context()) + 1;
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
  GTEST_FLAG_SET(death_test_style, style);
  unsetenv("TEST_TRACE");
  EXPECT_EQ(bars(json::parse(std::ifstream(path_)).at("traceEvents"), "op", "add").size(), 1u);
}

TEST_F(Profiler, Refuses) {
  EXPECT_THAT(test::message_of<Error>([] { profiler::stop(); }),
              HasSubstr("profiler::start(path)"));
  const std::string nowhere = path_ + ".d/no/trace.json";
  EXPECT_THAT(test::message_of<Error>([&] { profiler::start(nowhere); }), HasSubstr(nowhere));
  EXPECT_THAT(test::message_of<Error>([&] { profiler::start(testing::TempDir()); }),
              HasSubstr("expected a file"));
  EXPECT_THROW(profiler::start(""), Error);
  EXPECT_THROW(profiler::start(std::string(5000, 'x')), Error);  // longer than any file name
  profiler::start(path_);
  EXPECT_THAT(test::message_of<Error>([&] { profiler::start(path_ + "2"); }),
              HasSubstr("already recording " + path_));
  EXPECT_FALSE(std::filesystem::exists(path_ + "2.part"));
  profiler::stop();
  EXPECT_TRUE(std::filesystem::exists(path_));
  EXPECT_THROW(profiler::stop(), Error);
}

// A replay is shown call by call, even as one graph.
TEST_F(Profiler, ReplaysShowEachOfTheirCalls) {
  for (const Context c : test::contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = ones({100}, c);
    Compiled f([](const Tensors& in) { return Tensors{cos(in[0]) * 2}; });
    for (int i = 0; i < 2; ++i) f({x});
    const json events = trace_of([&] {
      for (int i = 0; i < 3; ++i) EXPECT_NEAR(f({x})[0][0].item<double>(), 2 * std::cos(1.), 1e-5);
    });
    EXPECT_EQ(bars(events, "op", "cos").size(), 3u);
    EXPECT_EQ(bars(events, "op", "multiply").size(), 3u);
    expect_in_order(events);
  }
}

}  // namespace
