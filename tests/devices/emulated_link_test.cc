// The link model of emulated GPUs: values of LOCUS_EMULATED_LINK, times of copies.
#include <locus/devices/emulated_link.h>

#include <gtest/gtest.h>

#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/core/stream.h>
#include <locus/core/transfer_log.h>
#include <locus/devices/cpu.h>
#include <locus/devices/emulated/emulated_queue.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <tests/support/contexts.h>
#include <tests/support/slow.h>

namespace locus {
namespace {

using emulated::LinkModel;
using test::kMegabyte;
using test::kSlow;
using test::LinkModelScope;
using testing::HasSubstr;
using namespace std::chrono_literals;

TEST(LinkModel, IsReadFromItsVariable) {
  const LinkModel m = LinkModel::parse("latency_us=0.5,peer=100,h2d=5e-3,d2h=2");
  EXPECT_EQ(m.h2d, 0.005);
  EXPECT_EQ(m.d2h, 2);
  EXPECT_EQ(m.peer, 100);
  EXPECT_EQ(m.latency_us, 0.5);
  EXPECT_EQ(LinkModel::parse("peer=1").h2d, 55);
  EXPECT_EQ(LinkModel::parse("latency_us=0").latency_us, 0);
}

TEST(LinkModel, RefusesNonsenseNamingVariableKeyAndWhatItAccepts) {
  const auto text = [](const char* value) {
    return test::message_of<Error>([=] { LinkModel::parse(value); });
  };
  for (const char* value : {"", "h2d", "h2d=1,", "h2g=1", "h2d=1;d2h=2", "h2d =1"}) {
    EXPECT_THAT(text(value), HasSubstr("LOCUS_EMULATED_LINK=" + std::string(value))) << value;
    EXPECT_THAT(text(value), HasSubstr("expected")) << value;
  }
  EXPECT_THAT(text("h2g=1"), HasSubstr("\"h2g=1\"; expected key=number, with the keys h2d, d2h"));
  EXPECT_THAT(text("d2h=-3"), HasSubstr("d2h=-3; expected GB/s, from 0.001"));
  for (const char* value : {"peer=0", "peer=", "peer=fast", "peer=1GB", "peer=nan", "peer=inf"})
    EXPECT_THAT(text(value), HasSubstr("expected GB/s, from 0.001")) << value;
  EXPECT_THAT(text("latency_us=-1"), HasSubstr("latency_us=-1; expected microseconds, from 0"));
  EXPECT_THAT(text("h2d=1,d2h=2,h2d=3"), HasSubstr("h2d is given twice"));
}

TEST(LinkModel, ADurationIsLatencyPlusBytesOverBandwidth) {
  const LinkModel m = LinkModel::parse("h2d=10,d2h=5,peer=100,latency_us=8");
  EXPECT_EQ(m.duration(cpu(0), gpu(0), 1000000), 108000ns);
  EXPECT_EQ(m.duration(cpu_pinned(0), gpu(0), 1000000), 108000ns);
  EXPECT_EQ(m.duration(gpu(0), cpu(0), 1000000), 208000ns);
  EXPECT_EQ(m.duration(gpu(0), gpu(1), 1000000), 18000ns);
  EXPECT_EQ(m.duration(gpu(1), gpu(1), 1000000), 0ns);
}

TEST(EmulatedLink, ContextsSayThatTheyAreModelled) {
  LOCUS_NEEDS_EMULATED_GPUS();
  {
    const LinkModelScope none(std::nullopt);
    EXPECT_FALSE(context_info(gpu(0)).modelled);
  }
  const LinkModelScope slow(kSlow);
  EXPECT_TRUE(context_info(gpu(0)).modelled);
  EXPECT_FALSE(context_info(cpu(0)).modelled);
}

TEST(EmulatedLink, CopiesSayThatTheyAreModelled) {
  LOCUS_NEEDS_EMULATED_GPUS();
  std::optional<LinkModelScope> links(std::in_place, std::nullopt);
  const Tensor x = ones({4});
  TransferLog log;
  x.copyto(gpu(0));
  EXPECT_FALSE(log.entries().at(0).modelled);
  EXPECT_THAT(log.table(), testing::Not(HasSubstr("modelled")));
  links.reset();
  links.emplace(kSlow);
  for (const auto& [from, to] : {std::pair{cpu(0), gpu(0)}, std::pair{gpu(0), cpu(0)}}) {
    const Tensor there = x.as_in_context(from);
    log.clear();
    there.copyto(to);
    EXPECT_TRUE(log.entries().at(0).modelled) << from;
  }
  EXPECT_THAT(log.table(), HasSubstr("times modelled by LOCUS_EMULATED_LINK"));
}

TEST(EmulatedLink, ACopyIsAsynchronousAndTakesTheModelsTime) {
  LOCUS_NEEDS_EMULATED_GPUS();
  const LinkModelScope slow(kSlow);
  const Tensor pinned = full({kMegabyte}, 3, {cpu_pinned(0), f32});
  Device& d = device(gpu(0));
  const StreamView lane = d.stream(Lane::to_device);
  const EventView start = d.record(lane);
  const Tensor up = pinned.copyto(gpu(0), {.blocking = false});
  const EventView end = d.record(lane);
  EXPECT_FALSE(d.done(end)) << "a copy of 50 ms was done at once";
  d.synchronize(lane);
  EXPECT_TRUE(d.done(end));
  EXPECT_GE(d.elapsed_ms(start, end), 50.1 - 0.01);
  EXPECT_EQ(test::values(up), std::vector<double>(kMegabyte, 3));
  d.release(start);
  d.release(end);
}

TEST(EmulatedLink, ABlockingCopyReturnsWhenItIsDone) {
  LOCUS_NEEDS_EMULATED_GPUS();
  const LinkModelScope slow(kSlow);
  const Tensor x = full({kMegabyte}, 2, cpu(0));
  for (const Context host : {cpu(0), cpu_pinned(0)}) {
    const auto start = std::chrono::steady_clock::now();
    const Tensor up = x.copyto(host).copyto(gpu(0));
    const auto middle = std::chrono::steady_clock::now();
    const Tensor down = up.copyto(host);
    EXPECT_GE(middle - start, 50ms) << host;
    EXPECT_GE(std::chrono::steady_clock::now() - middle, 50ms) << host;
    EXPECT_EQ(test::values(down), std::vector<double>(kMegabyte, 2));
  }
}

TEST(EmulatedLink, TwoUploadsShareALink) {
  LOCUS_NEEDS_EMULATED_GPUS();
  const LinkModelScope slow(kSlow);
  Device& d = device(gpu(0));
  const Tensor a = full({kMegabyte}, 1, {cpu_pinned(0), f32});
  const EventView start = d.record(d.stream(Lane::to_device));
  d.wait_host(start);  // before either upload
  const Tensor up1 = a.copyto(gpu(0), {.blocking = false});
  const EventView first = d.record(d.stream(Lane::to_device));
  Tensor into = full({kMegabyte}, 0, {gpu(0), f32});  // its home is the compute stream
  a.copyto(into, {.blocking = false});
  const EventView second = d.record(d.stream(Lane::compute));
  d.wait_host(second);
  d.wait_host(first);
  EXPECT_GE(std::max(d.elapsed_ms(start, first), d.elapsed_ms(start, second)), 100.2 - 0.01);
  for (const EventView& e : {start, first, second}) d.release(e);
}

// The least of a few runs, up to the first below `good`, because a busy machine slows some.
template <class F>
double quickest(double good, F&& milliseconds) {
  double best = milliseconds();
  for (int i = 1; i < 10 && best >= good; ++i) best = std::min(best, milliseconds());
  return best;
}

TEST(EmulatedLink, AnUploadAndADownloadDoNotShare) {
  LOCUS_NEEDS_EMULATED_GPUS();
  const Tensor up = full({kMegabyte}, 1, {cpu_pinned(0), f32});
  const Tensor down = full({kMegabyte}, 0, {cpu_pinned(0), f32});
  const Tensor here = full({kMegabyte}, 2, gpu(0));
  const LinkModelScope slow(LinkModel{.h2d = 0.005, .d2h = 0.005});  // 200 ms each
  Device& d = device(gpu(0));
  const double both = quickest(320, [&] {
    const auto start = std::chrono::steady_clock::now();
    const Tensor there = up.copyto(gpu(0), {.blocking = false});
    here.copyto(down, {.blocking = false});
    d.synchronize({});
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
        .count();
  });
  EXPECT_GE(both, 200);
  EXPECT_LT(both, 320);
  EXPECT_EQ(test::values(down), std::vector<double>(kMegabyte, 2));
}

TEST(EmulatedLink, SlowLinksChangeNoValue) {
  LOCUS_NEEDS_EMULATED_GPUS();
  LOCUS_NEEDS_ANY_GPUS(2);
  const LinkModelScope slow(LinkModel::parse("h2d=0.5,d2h=0.5,peer=0.5,latency_us=300"));
  Tensor x = full({1000}, 1, gpu(0)), y = full({1000}, 0, gpu(1));
  for (int i = 0; i < 20; ++i) {
    x.copyto(y);
    x = y.copyto(gpu(0)) + y.copyto(gpu(0));
    if (i % 4 == 3) x = x.copyto(cpu_pinned(0), {.blocking = false}).copyto(gpu(0)) / 16;
  }
  EXPECT_EQ(test::values(x), std::vector<double>(1000, 1));
  EXPECT_EQ(test::values(y), std::vector<double>(1000, 8));
}

TEST(ComputeAlone, IsSaidByAThread) {
  const int before = num_threads();
  set_num_threads(4);
  std::thread([] {
    compute_alone();
    const auto self = std::this_thread::get_id();
    int64_t sum = 0;
    parallel_ranges(10000, 100, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      sum += end - begin;
    });
    EXPECT_EQ(sum, 10000);
  }).join();
  set_num_threads(before);
}

// Uses some milliseconds of thread time.
void toil(const Call&) {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  const auto end = t.tv_sec * 1000000000 + t.tv_nsec + 5000000;
  while (t.tv_sec * 1000000000 + t.tv_nsec < end) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
}

TEST(EmulatedLink, KernelsTakeAMultipleOfTheTimeOfACore) {
  LOCUS_NEEDS_EMULATED_GPUS();
  Device& d = device(gpu(0));
  const StreamView s = d.stream(Lane::compute);
  const auto milliseconds = [&] {
    const EventView start = d.record(s);
    for (int i = 0; i < 4; ++i)
      d.launch(&toil, Call{nullptr, nullptr, 0, 0, nullptr, 0, s}, "toil");
    const EventView end = d.record(s);
    d.wait_host(end);
    const double ms = d.elapsed_ms(start, end);
    d.release(start);
    d.release(end);
    return ms;
  };
  const LinkModelScope slow(kSlow);
  const double right = emulated::slower() * 4 * 5, best = quickest(1.5 * right, milliseconds);
  EXPECT_GE(emulated::slower(), 2);
  EXPECT_GE(best, right);
  EXPECT_LT(best, 1.5 * right);
}

TEST(EmulatedLink, AnEventIsDoneAtItsTimeAndNotBefore) {
  emulated::Fence e;
  const auto time = emulated::Clock::now() + 30ms;
  e.fire(time);
  EXPECT_EQ(e.wait_fired(), time);
  EXPECT_FALSE(e.done() && emulated::Clock::now() < time);
  e.wait();
  EXPECT_TRUE(e.done());
  EXPECT_GE(emulated::Clock::now(), time);
}

// Like a thread that waits for a core.
void dawdle(const Call&) { std::this_thread::sleep_for(40ms); }

TEST(EmulatedLink, WhatAThreadLosesTakesNoTimeOfTheGpu) {
  LOCUS_NEEDS_EMULATED_GPUS();
  const LinkModelScope slow(kSlow);
  Device& d = device(gpu(0));
  const StreamView s = d.stream(Lane::compute);
  const auto by_events = [&] {
    const EventView start = d.record(s);
    const auto began = emulated::Clock::now();
    d.launch(&dawdle, Call{nullptr, nullptr, 0, 0, nullptr, 0, s}, "dawdle");
    const EventView end = d.record(s);
    d.wait_host(end);
    EXPECT_GE(emulated::Clock::now() - began, 40ms) << "the host saw what was not there";
    const double ms = d.elapsed_ms(start, end);
    d.release(start);
    d.release(end);
    return ms;
  };
  EXPECT_LT(quickest(20, by_events), 20);
}

TEST(EmulatedLink, ACopyIsNoFasterThanMemory) {
  LOCUS_NEEDS_EMULATED_GPUS();
  LOCUS_NEEDS_ANY_GPUS(2);
  const Tensor x = full({16 * kMegabyte}, 1, gpu(0)), y = full({16 * kMegabyte}, 0, gpu(1));
  const LinkModelScope links(LinkModel{.peer = 1e6, .latency_us = 0});  // 16 us
  Device& d = device(gpu(1));
  const StreamView s = d.stream(Lane::compute);
  d.synchronize({});
  const EventView start = d.record(s);
  d.copy(y.data_ptr(), gpu(1), x.data_ptr(), gpu(0), 16000000, s);
  const EventView end = d.record(s);
  d.wait_host(end);
  EXPECT_GT(d.elapsed_ms(start, end), .1);
  d.release(start);
  d.release(end);
}

TEST(EmulatedLink, AStreamThatIsClosedIsDoneByItsClockToo) {
  LOCUS_NEEDS_EMULATED_GPUS();
  const LinkModelScope slow(kSlow);
  Device& d = device(gpu(0));
  const StreamView s = d.open_stream();
  const auto began = emulated::Clock::now();
  for (int i = 0; i < 4; ++i) d.launch(&toil, Call{nullptr, nullptr, 0, 0, nullptr, 0, s}, "toil");
  d.close_stream(s);
  EXPECT_GE(emulated::Clock::now() - began, emulated::slower() * 4 * 5ms);
}

TEST(EmulatedLink, AWaitingGpuContinuesWhenTheOtherIsDone) {
  LOCUS_NEEDS_EMULATED_GPUS();
  LOCUS_NEEDS_ANY_GPUS(2);
  const LinkModelScope slow(kSlow);
  Device &first = device(gpu(0)), &second = device(gpu(1));
  const StreamView a = first.stream(Lane::compute), b = second.stream(Lane::compute);
  const EventView start = second.record(b);
  second.wait_host(start);
  first.launch(&toil, Call{nullptr, nullptr, 0, 0, nullptr, 0, a}, "toil");
  const EventView between = first.record(a);
  second.wait(b, between);
  second.launch(&toil, Call{nullptr, nullptr, 0, 0, nullptr, 0, b}, "toil");
  const EventView end = second.record(b);
  second.wait_host(end);
  EXPECT_GE(second.elapsed_ms(start, end), emulated::slower() * 2 * 5);
  second.release(start);
  first.release(between);
  second.release(end);
}

// Each kernel ends only after the other has started.
TEST(EmulatedLink, TwoGpusComputeAtOnce) {
  LOCUS_NEEDS_EMULATED_GPUS();
  LOCUS_NEEDS_ANY_GPUS(2);
  const LinkModelScope slow(kSlow);
  struct Meeting {
    std::latch both{2};
    std::atomic<int> met{0};
  } meeting;
  const Kernel meet = [](const Call& call) {
    Meeting& m = *call.attributes<Meeting*>();
    m.both.count_down();
    m.met += test::eventually([&] { return m.both.try_wait(); });
  };
  Meeting* const attrs = &meeting;
  for (const Context c : {gpu(0), gpu(1)}) {
    Device& d = device(c);
    d.launch(meet, Call{nullptr, nullptr, 0, 0, &attrs, sizeof attrs, d.stream(Lane::compute)},
             "meet");
  }
  wait_all();
  EXPECT_EQ(meeting.met, 2);

  Device &first = device(gpu(0)), &second = device(gpu(1));
  const double one = emulated::slower() * 4 * 5;
  const auto both = [&] {
    const EventView start = first.record(first.stream(Lane::compute));
    for (int i = 0; i < 4; ++i)
      for (Device* d : {&first, &second})
        d->launch(&toil, Call{nullptr, nullptr, 0, 0, nullptr, 0, d->stream(Lane::compute)},
                  "toil");
    const EventView end = second.record(second.stream(Lane::compute));
    second.wait_host(end);
    const double ms = first.elapsed_ms(start, end);
    wait_all();
    first.release(start);
    second.release(end);
    return ms;
  };
  const double best = quickest(1.5 * one, both);
  EXPECT_GE(best, one);
  EXPECT_LT(best, 1.5 * one) << "one behind the other";
}

}  // namespace
}  // namespace locus
