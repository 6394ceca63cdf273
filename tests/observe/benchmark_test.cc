// benchmark(): what is measured and how often, the tables, and what it refuses.
#include <locus/core/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <thread>

#include <locus/core/compile.h>
#include <locus/core/error.h>
#include <locus/core/stream.h>
#include <locus/core/transfer_log.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/matmul.h>
#include "tests/support/contexts.h"
#include "tests/support/slow.h"

namespace {

using namespace locus;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

void expect_ordered(const Percentiles& p) {
  EXPECT_GT(p.min, 0);
  EXPECT_LE(p.min, p.p10);
  EXPECT_LE(p.p10, p.median);
  EXPECT_LE(p.median, p.p90);
  EXPECT_LE(p.p90, p.max);
  EXPECT_LE(p.min, p.mean);
  EXPECT_LE(p.mean, p.max);
  EXPECT_LE(p.deviation, p.max - p.min);
}

TEST(Benchmarks, CallTheFunctionAfterAWarmUp) {
  int calls = 0;
  const Benchmark b = benchmark([&] { ++calls; }, {.warmup = 3, .repeat = 20}, "count");
  EXPECT_EQ(calls, 23);
  EXPECT_EQ(b.runs, 20);
  EXPECT_EQ(b.name, "count");
  expect_ordered(b.host);
}

TEST(Benchmarks, MeasureOnEveryContext) {
  for (const Context c : test::distinct_contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = ones({32, 32}, c);
    const Benchmark b = benchmark([&] { dot(x, x); }, {.contexts = {c}, .repeat = 10});
    ASSERT_EQ(b.device.size(), 1u);
    EXPECT_EQ(b.device[0].first, c);
    expect_ordered(b.host);
    expect_ordered(b.device[0].second);
    if (is_host(c)) {
      EXPECT_EQ(b.device[0].second.median, b.host.median);
    }
  }
}

TEST(Benchmarks, TimeOpenedGpusByDefault) {
  for (const Context c : gpus(num_gpus())) ones({1}, c);
  const Benchmark b = benchmark([] {}, {.warmup = 0, .repeat = 2});
  std::vector<Context> timed;
  for (const auto& [context, times] : b.device) timed.push_back(context);
  for (const Context c : gpus(num_gpus()))
    EXPECT_EQ(std::count(timed.begin(), timed.end(), c), 1) << c;
  EXPECT_EQ(std::count_if(timed.begin(), timed.end(), is_host), 0);
}

// The work takes 50 times test::kDelay, and the host does not wait for it.
TEST(Benchmarks, DeviceTimesAreOfTheWorkAndHostTimesOfTheCall) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Stream side(gpu(0));
  const StreamScope on(side);
  const auto work = [&] {
    for (int i = 0; i < 50; ++i) test::delay(side.view());
  };
  const Benchmark b = benchmark(work, {.contexts = {gpu(0)}, .warmup = 1, .repeat = 5});
  EXPECT_GE(b.device.at(0).second.min, 1000);
  EXPECT_LT(b.host.min, b.device.at(0).second.min);
}

TEST(Benchmarks, StartWithIdleDevices) {
  LOCUS_NEEDS_EMULATED_GPUS();
  const test::LinkModelScope slow(test::kSlow);
  const Tensor h = full({test::kMegabyte}, 1, cpu_pinned());
  const Tensor y = h.copyto(gpu(0), {.blocking = false});  // 50 ms
  const Event copied(device(gpu(0)).stream(Lane::to_device));
  bool idle = false;
  benchmark([&] { idle = copied.query(); }, {.contexts = {gpu(0)}, .warmup = 0, .repeat = 1});
  EXPECT_TRUE(idle);
}

TEST(Benchmarks, EndAfterMaxSeconds) {
  int calls = 0;
  const auto sleep = [&] {
    ++calls;
    std::this_thread::sleep_for(milliseconds(10));
  };
  const Benchmark b = benchmark(sleep, {.warmup = 1000, .repeat = 1000, .max_seconds = .05});
  EXPECT_LE(b.runs, 5);
  EXPECT_LE(calls, 10);
  EXPECT_GE(b.host.min, 10000);
  EXPECT_EQ(benchmark(sleep, {.repeat = 9, .max_seconds = 1e-9}).runs, 1);
}

TEST(Benchmarks, AreNamedAfterTheirLine) {
  const std::string line = std::to_string(__LINE__ + 1);
  EXPECT_EQ(benchmark([] {}, {.repeat = 1}).name, "benchmark_test.cc:" + line);
}

TEST(Benchmarks, WaitsAreInTheLedger) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const TransferLog log;
  benchmark([] {}, {.contexts = {gpu(0)}, .warmup = 0, .repeat = 1});
  ASSERT_EQ(log.entries().size(), 1u);
  EXPECT_THAT(to_string(log.entries()[0].caller), HasSubstr("benchmark_test.cc"));
}

Percentiles all(double us) { return {us, us, us, us, us, us, 0}; }

TEST(Benchmarks, Table) {
  const Benchmark b{"softmax", {2, 1, 1.5, 2, 1234, 2500000, .5}, {{cpu(1), all(20)}}, 7};
  EXPECT_EQ(b.table(),
            "softmax, 7 runs     mean      min     10 %   median     90 %      max  deviation\n"
            "host             2.00 µs  1.00 µs  1.50 µs  2.00 µs  1.23 ms   2.50 s    0.50 µs\n"
            "cpu(1)           20.0 µs  20.0 µs  20.0 µs  20.0 µs  20.0 µs  20.0 µs    0.00 µs\n");
}

TEST(Benchmarks, CompareGivesRatiosToTheFirst) {
  const Benchmark a{"eager", all(10), {{cpu(1), all(40)}}, 1}, b{"fused", all(5), {}, 1},
      c{"other", all(30), {{cpu(1), all(50)}, {cpu(2), all(1)}}, 1};
  EXPECT_EQ(comparison_table({a, b, c}),
            "median     host  ratio   cpu(1)  ratio   cpu(2)  ratio\n"
            "eager   10.0 µs   1.00  40.0 µs   1.00        -      -\n"
            "fused   5.00 µs   0.50        -      -        -      -\n"
            "other   30.0 µs   3.00  50.0 µs   1.25  1.00 µs      -\n");
}

TEST(Benchmarks, SayWhatIsEmulated) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Benchmark b{"x", all(1), {{gpu(0), all(1)}}, 1};
  const bool emulated = context_info(gpu(0)).emulated;
  for (const std::string& text : {b.table(), comparison_table({b})}) {
    EXPECT_EQ(text.find("gpu(0)*") != text.npos, emulated) << text;
    EXPECT_EQ(text.find("* emulated GPU: ") != text.npos, emulated) << text;
  }
}

TEST(Benchmarks, PassErrorsOn) {
  EXPECT_THROW(benchmark([] { throw std::runtime_error("mine"); }), std::runtime_error);
  for (const Context c : test::contexts())
    EXPECT_EQ(benchmark([&] { ones({2}, c); }, {.contexts = {c}, .repeat = 3}).runs, 3);
}

TEST(Benchmarks, Refuse) {
  const auto refused = [](const BenchmarkOptions& o) {
    return test::message_of<ValueError>([&] { benchmark([] { FAIL(); }, o); });
  };
  EXPECT_THAT(refused({.warmup = -1}), AllOf(HasSubstr("warmup is -1"), HasSubstr(".cc:")));
  EXPECT_THAT(refused({.repeat = 0}), HasSubstr("repeat is 0"));
  EXPECT_THAT(refused({.max_seconds = 0}), HasSubstr("max_seconds is 0"));
  EXPECT_THAT(refused({.max_seconds = std::nan("")}), HasSubstr("max_seconds is nan"));
  EXPECT_THAT(refused({.contexts = {cpu(), cpu(1), cpu()}}), HasSubstr("cpu(0) is named twice"));
  EXPECT_THROW(benchmark(nullptr), ValueError);
  EXPECT_THROW(benchmark([] { FAIL(); }, {.contexts = {gpu(num_gpus())}}), DeviceError);
  EXPECT_THROW(comparison_table({}), ValueError);
}

TEST(Benchmarks, AreRefusedWhileWorkIsRecorded) {
  Compiled f([](const Tensors& in) {
    benchmark([] {}, {.repeat = 1});
    return Tensors{in[0] + 1};
  });
  EXPECT_THAT(test::message_of<CaptureError>([&] {
                for (int i = 0; i < 2; ++i) f({ones({2})});
              }),
              HasSubstr("benchmark"));
}

}  // namespace
