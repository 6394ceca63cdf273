// Queues of emulated GPUs: order, asynchrony, errors, memory.
#include <locus/devices/emulated.h>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/core/stream.h>
#include <locus/devices/cpu.h>
#include <locus/devices/pool.h>
#include <locus/ops/register.h>
#include <tests/support/contexts.h>

namespace locus {
namespace {

using namespace std::chrono_literals;

// The attributes of these kernels point into the test.
struct LogAttrs {
  std::vector<int>* log;
  int value;
};
void log_kernel(const Call& call) {
  const auto& a = call.attributes<LogAttrs>();
  a.log->push_back(a.value);
}
struct GateAttrs {
  std::atomic<bool>* gate;
};
void gate_kernel(const Call& call) {
  std::atomic<bool>* gate = call.attributes<GateAttrs>().gate;
  while (!gate->load()) std::this_thread::sleep_for(100us);
}
void fill_kernel(const Call& call) {
  const View& out = call.out[0];
  for (int64_t i = 0; i < out.meta.size(); ++i) out.as<float>()[i] = call.attributes<float>();
}
void throw_index_error(const Call&) { throw IndexError("index 7 is out of range for axis 0"); }
void throw_bad_alloc(const Call&) { throw std::bad_alloc(); }
void parallel_kernel(const Call& call) {
  std::atomic<int64_t> sum{0};
  parallel_ranges(10000, 100, [&](int64_t begin, int64_t end) { sum += end - begin; });
  *call.attributes<std::atomic<int64_t>*>() += sum;
}

template <class A>
void launch(StreamView s, Kernel kernel, const A& attrs, const char* name = "test_op",
            const View* out = nullptr) {
  device(s.context).launch(
      kernel, Call{nullptr, out, 0, out == nullptr ? 0 : 1, &attrs, sizeof(A), s}, name);
}
void launch(StreamView s, Kernel kernel, const char* name) {
  device(s.context).launch(kernel, Call{nullptr, nullptr, 0, 0, nullptr, 0, s}, name);
}

class Emulated : public testing::Test {
 protected:
  void SetUp() override { LOCUS_NEEDS_EMULATED_GPUS(); }
  Device& gpu0() { return device(gpu(0)); }
  StreamView compute(int i = 0) { return device(gpu(i)).stream(Lane::compute); }
};

// Holds a stream until opened, also if a test fails.
class Gate {
 public:
  explicit Gate(StreamView s) : stream_(s) { launch(s, gate_kernel, GateAttrs{&open_}); }
  ~Gate() {
    open();
    device(stream_.context).synchronize(stream_);
  }
  void open() { open_ = true; }

 private:
  StreamView stream_;
  std::atomic<bool> open_{false};
};

TEST_F(Emulated, SaysThatItIsEmulated) {
  EXPECT_TRUE(context_info(gpu(0)).emulated);
  EXPECT_EQ(gpu0().kernels(), DeviceType::cpu);
  const MemoryInfo memory = gpu0().memory();
  EXPECT_GT(memory.total, 0u);
  EXPECT_LE(memory.free, memory.total);
}

TEST_F(Emulated, FreeMemoryNeverWrapsWhileAnAllocationFails) {
  const size_t total = gpu0().memory().total;
  std::atomic<bool> done{false};
  std::thread other([&] {
    for (int i = 0; i < 2000; ++i)
      EXPECT_THROW(memory_pool(gpu(0)).allocate(total + 1, compute()), OutOfMemory);
    done = true;
  });
  size_t most = 0;
  while (!done) most = std::max(most, gpu0().memory().free);
  other.join();
  EXPECT_LE(most, total);
}

TEST_F(Emulated, WorkRunsInOrder) {
  std::vector<int> log, expected;
  for (int i = 0; i < 1000; ++i) {
    launch(compute(), log_kernel, LogAttrs{&log, i});
    expected.push_back(i);
  }
  gpu0().synchronize(compute());
  EXPECT_EQ(log, expected);
}

TEST_F(Emulated, LaunchReturnsBeforeTheKernelRan) {
  std::vector<int> log;
  {
    Gate gate(compute());
    launch(compute(), log_kernel, LogAttrs{&log, 1});
    const EventView event = gpu0().record(compute());
    EXPECT_FALSE(gpu0().done(event));
    gate.open();
    gpu0().wait_host(event);
    EXPECT_TRUE(gpu0().done(event));
    EXPECT_EQ(log, std::vector<int>{1});
    gpu0().release(event);
  }
}

TEST_F(Emulated, AFullQueueBlocksTheProducerAndLosesNothing) {
  std::atomic<bool> all_enqueued{false};
  std::vector<int> log;
  constexpr int kMany = 10000;
  std::thread producer;
  {
    Gate gate(compute());
    producer = std::thread([&] {
      for (int i = 0; i < kMany; ++i) launch(compute(), log_kernel, LogAttrs{&log, i});
      all_enqueued = true;
    });
    std::this_thread::sleep_for(50ms);
    EXPECT_FALSE(all_enqueued);
  }
  producer.join();
  gpu0().synchronize(compute());
  EXPECT_EQ(log.size(), static_cast<size_t>(kMany));
}

TEST_F(Emulated, ErrorsKeepTheirTypeAndSurfaceOnceAtSynchronize) {
  std::vector<int> log;
  launch(compute(), throw_index_error, "take");
  launch(compute(), log_kernel, LogAttrs{&log, 1});
  const std::string text = test::message_of<IndexError>([&] { gpu0().synchronize(compute()); });
  EXPECT_EQ(text,
            "take: index 7 is out of range for axis 0 (found asynchronously on gpu(0); "
            "LOCUS_SYNC=1 finds it at its call)");
  EXPECT_EQ(log, std::vector<int>{1}) << "later work did not run";
  EXPECT_NO_THROW(gpu0().synchronize(compute()));
  launch(compute(), throw_bad_alloc, "take");
  EXPECT_THROW(gpu0().synchronize(compute()), std::bad_alloc);
}

TEST_F(Emulated, OfErrorsInARowTheFirstSurfacesAlone) {
  for (const char* op : {"take", "pick"}) launch(compute(), throw_index_error, op);
  const std::string text = test::message_of<IndexError>([&] { gpu0().synchronize({}); });
  EXPECT_TRUE(text.starts_with("take: ")) << text;
  EXPECT_NO_THROW(gpu0().synchronize({}));
}

TEST_F(Emulated, AnErrorSurfacesAtAnyStreamOfItsDevice) {
  launch(compute(), throw_index_error, "take");
  EXPECT_THROW(gpu0().synchronize({}), IndexError);
  EXPECT_NO_THROW(gpu0().synchronize(compute()));
}

TEST_F(Emulated, AnErrorSurfacesAtAStreamWithoutFailedWork) {
  launch(compute(), throw_index_error, "take");
  const EventView failed = gpu0().record(compute());
  gpu0().wait_host(failed);
  gpu0().release(failed);
  EXPECT_THROW(gpu0().synchronize(gpu0().stream(Lane::to_host)), IndexError);
  EXPECT_NO_THROW(gpu0().synchronize(compute()));
}

TEST_F(Emulated, StreamsAreIndependentUntilOneWaits) {
  const StreamView a = compute(), b = gpu0().stream(Lane::to_host);
  std::vector<int> log;
  EventView event;
  {
    Gate gate(a);
    launch(b, log_kernel, LogAttrs{&log, 1});
    gpu0().synchronize(b);
    EXPECT_EQ(log, std::vector<int>{1});
    launch(a, log_kernel, LogAttrs{&log, 2});
    event = gpu0().record(a);
    gpu0().wait(b, event);
    launch(b, log_kernel, LogAttrs{&log, 3});
  }
  gpu0().synchronize(b);
  EXPECT_EQ(log, (std::vector<int>{1, 2, 3}));
  gpu0().release(event);
}

TEST_F(Emulated, AReleasedEventStillOrders) {
  const StreamView a = compute(), b = gpu0().stream(Lane::peer);
  std::vector<int> log;
  {
    Gate gate(a);
    launch(a, log_kernel, LogAttrs{&log, 1});
    const EventView event = gpu0().record(a);
    gpu0().wait(b, event);
    gpu0().release(event);
    launch(b, log_kernel, LogAttrs{&log, 2});
  }
  gpu0().synchronize(b);
  EXPECT_EQ(log, (std::vector<int>{1, 2}));
}

TEST_F(Emulated, CopiesGoUpAcrossAndDown) {
  LOCUS_NEEDS_ANY_GPUS(2);
  constexpr size_t kLarge = size_t{3} << 20;
  for (size_t bytes : {size_t{100}, kLarge}) {
    SCOPED_TRACE(bytes);
    std::vector<char> up(bytes), down(bytes);
    for (size_t i = 0; i < bytes; ++i) up[i] = static_cast<char>(i * 7);
    const std::vector<char> expected = up;
    void* a = memory_pool(gpu(0)).allocate(bytes, compute(0));
    void* b = memory_pool(gpu(1)).allocate(bytes, compute(1));
    gpu0().copy(a, gpu(0), up.data(), cpu(0), bytes, compute(0));
    std::fill(up.begin(), up.end(), 0);  // reusable at once
    gpu0().copy(b, gpu(1), a, gpu(0), bytes, compute(0));
    const EventView event = gpu0().record(compute(0));
    device(gpu(1)).wait(compute(1), event);
    device(gpu(1)).copy(down.data(), cpu(0), b, gpu(1), bytes, compute(1));
    EXPECT_EQ(down, expected);  // filled when copy returns
    gpu0().release(event);
    memory_pool(gpu(0)).deallocate(a, bytes, compute(0));
    memory_pool(gpu(1)).deallocate(b, bytes, compute(1));
  }
}

TEST_F(Emulated, PinnedMemoryCopiesAsynchronouslyAndIsHeldUntilTheCopyIsDone) {
  constexpr size_t kBytes = size_t{3} << 20;
  MemoryPool& pinned = memory_pool(cpu_pinned(0));
  const StreamView host = device(cpu_pinned(0)).stream(Lane::compute);
  auto* from = static_cast<char*>(pinned.allocate(kBytes, host));
  void* to = memory_pool(gpu(0)).allocate(kBytes, compute());
  std::memset(from, 5, kBytes);
  void* next = nullptr;
  {
    Gate gate(compute());
    gpu0().copy(to, gpu(0), from, cpu_pinned(0), kBytes, compute());  // would hang if it blocked
    const EventView event = gpu0().record(compute());
    pinned.deallocate_after(from, kBytes, host, {&event, 1});
    next = pinned.allocate(kBytes, host);
    EXPECT_NE(next, from);
    std::memset(next, 6, kBytes);
  }
  std::vector<char> down(kBytes);
  gpu0().copy(down.data(), cpu(0), to, gpu(0), kBytes, compute());
  EXPECT_EQ(down, std::vector<char>(kBytes, 5));
  pinned.deallocate(next, kBytes, host);
  next = pinned.allocate(kBytes, host);
  void* again = pinned.allocate(kBytes, host);
  pinned.deallocate(next, kBytes, host);
  pinned.deallocate(again, kBytes, host);
  memory_pool(gpu(0)).deallocate(to, kBytes, compute());
}

TEST_F(Emulated, ABlockFreedWhileItsKernelIsQueuedIsReusedInOrder) {
  LOCUS_NEEDS_POOL();
  MemoryPool& pool = memory_pool(gpu(0));
  constexpr size_t kBytes = 4000;
  View out;
  out.meta.rank = 1;
  out.meta.shape[0] = 1000;
  out.stride[0] = 1;
  std::vector<float> first(1000), second(1000);
  {
    Gate gate(compute());
    out.data = pool.allocate(kBytes, compute());
    void* const block = out.data;
    launch(compute(), fill_kernel, 1.0f, "fill", &out);
    pool.deallocate(out.data, kBytes, compute());
    out.data = pool.allocate(kBytes, compute());
    EXPECT_EQ(out.data, block) << "the stream orders both users: no need to wait";
    launch(compute(), fill_kernel, 2.0f, "fill", &out);
  }
  gpu0().copy(second.data(), cpu(0), out.data, gpu(0), kBytes, compute());
  EXPECT_EQ(second, std::vector<float>(1000, 2.0f));
  pool.deallocate(out.data, kBytes, compute());
}

TEST_F(Emulated, MemoryRunsOutAndIsFreed) {
  MemoryPool& pool = memory_pool(gpu(0));
  const size_t total = gpu0().memory().total;
  EXPECT_THROW((void)pool.allocate(total + 1, compute()), OutOfMemory);
  EXPECT_THROW((void)gpu0().allocator().allocate(total * 2, compute()), OutOfMemory);
  void* p = pool.allocate(total / 2, compute());
  EXPECT_THROW((void)pool.allocate(total / 2 + (total >> 3), compute()), OutOfMemory);
  EXPECT_LE(gpu0().memory().free, total / 2);
  pool.deallocate(p, total / 2, compute());
  p = pool.allocate(total / 2 + (total >> 3), compute());
  pool.deallocate(p, total / 2 + (total >> 3), compute());
  pool.release_cached();
  EXPECT_GT(gpu0().memory().free, total / 2);
}

TEST_F(Emulated, ReleasingCachedMemoryWaitsForQueuedKernels) {
  LOCUS_NEEDS_POOL();
  MemoryPool& pool = memory_pool(gpu(0));
  View out;
  out.meta.rank = 1;
  out.meta.shape[0] = 1 << 20;
  out.stride[0] = 1;
  out.data = pool.allocate(size_t{4} << 20, compute());
  std::atomic<bool> open{false};
  launch(compute(), gate_kernel, GateAttrs{&open});
  launch(compute(), fill_kernel, 1.0f, "fill", &out);  // writes after the block was freed
  pool.deallocate(out.data, size_t{4} << 20, compute());
  std::thread opener([&] {
    std::this_thread::sleep_for(20ms);
    open = true;
  });
  pool.release_cached();
  EXPECT_TRUE(open);
  opener.join();
}

TEST_F(Emulated, QueuesUseTheThreadPoolTogetherWithTheHost) {
  const int before = num_threads();
  set_num_threads(3);
  std::atomic<int64_t> sum{0};
  int64_t expected = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < num_gpus(); ++i) {
      launch(compute(i), parallel_kernel, &sum);
      expected += 10000;
    }
    parallel_ranges(10000, 100, [&](int64_t begin, int64_t end) { sum += end - begin; });
    expected += 10000;
  }
  wait_all();
  EXPECT_EQ(sum, expected);
  set_num_threads(before);
}

TEST_F(Emulated, StreamsOpenCloseAndLeaveTheirMemory) {
  const StreamView s = gpu0().open_stream();
  EXPECT_NE(s.id, compute().id);
  std::vector<int> log;
  void* p = memory_pool(gpu(0)).allocate(1000, s);
  launch(s, log_kernel, LogAttrs{&log, 1});
  gpu0().close_stream(s);
  EXPECT_EQ(log, std::vector<int>{1}) << "closing waits";
  memory_pool(gpu(0)).deallocate(p, 1000, s);
  // Events of a closed stream may be queried; nothing may be enqueued.
  const EventView event = gpu0().record(s);
  EXPECT_TRUE(gpu0().done(event));
  gpu0().release(event);
  gpu0().synchronize(s);
  EXPECT_THROW(launch(s, log_kernel, LogAttrs{&log, 2}), DeviceError);
}

TEST_F(Emulated, EventsMeasureTime) {
  const StreamView s = compute();
  const EventView start = gpu0().record(s);
  launch(
      s, [](const Call&) { std::this_thread::sleep_for(20ms); }, "sleep");
  const EventView end = gpu0().record(s);
  gpu0().wait_host(end);
  EXPECT_GE(gpu0().elapsed_ms(start, end), 19.0);
  EXPECT_LT(gpu0().elapsed_ms(start, end), 20000.0);
  gpu0().release(start);
  gpu0().release(end);
}

TEST_F(Emulated, AStreamOfAnotherDeviceIsRefused) {
  LOCUS_NEEDS_ANY_GPUS(2);
  EXPECT_THROW(gpu0().synchronize(compute(1)), Error);
}

TEST(EmulatedRegistration, WithoutGpusTheErrorSaysHowToEmulateThem) {
  if (num_gpus() > 0) GTEST_SKIP() << "needs a run without GPUs; this one has " << num_gpus();
  EXPECT_EQ(
      test::message_of<DeviceError>([] { device(gpu(1)); }),
      "gpu(1): this machine has 0 gpus; use cpu(0), or set LOCUS_EMULATED_GPUS=N for N emulated "
      "ones");
}

}  // namespace
}  // namespace locus
