// The CUDA device: streams, events, errors and memory on real GPUs.
#include <gmock/gmock.h>

#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

#include <locus/ops/matmul.h>
#include <locus/ops/view.h>

#include "tests/devices/cuda_support.h"
#include "tests/support/contexts.h"
#ifdef LOCUS_WITH_CUDA
#include <locus/devices/cuda/driver.h>
#endif

namespace locus {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

TEST(Cuda, WithoutADeviceGpuContextsAreRefusedAndNothingElseFails) {
  if (num_gpus() > 0) GTEST_SKIP() << "needs a machine without a GPU; this run has " << num_gpus();
  EXPECT_EQ(best_context(), cpu(0));
  EXPECT_THROW(device(gpu(0)), DeviceError);
  EXPECT_THROW(gpu_memory_info(gpu(0)), DeviceError);
  EXPECT_EQ(ones({2}, cpu_pinned()).to_vector<float>(), (std::vector<float>{1, 1}));
}

#ifdef LOCUS_WITH_CUDA

using test::kStall;
using test::stall;

int current_device() {
  int d = -1;
  LOCUS_CUDA(cudaGetDevice(&d));
  return d;
}

TEST(Cuda, NamesTheHardwareAndItsMemory) {
  LOCUS_NEEDS_GPUS(1);
  EXPECT_FALSE(context_info(gpu(0)).name.empty());
  const MemoryInfo memory = gpu_memory_info(gpu(0));
  EXPECT_GT(memory.free, 0u);
  EXPECT_GT(memory.total, memory.free);
  EXPECT_THROW(device(gpu(num_gpus())), DeviceError);
}

TEST(Cuda, CallsLeaveTheCurrentDeviceAlone) {
  LOCUS_NEEDS_GPUS(2);
  for (const int mine : {0, 1}) {
    LOCUS_CUDA(cudaSetDevice(mine));
    const Context other = gpu(1 - mine);
    Stream s(other);
    EXPECT_EQ(current_device(), mine);
    const Tensor a = ones({1000}, other);
    EXPECT_EQ(current_device(), mine);
    const Tensor b = a + a;
    EXPECT_EQ(current_device(), mine);
    EXPECT_THAT(b.to_vector<float>(), Each(2.0f));
    EXPECT_EQ(current_device(), mine);
    EXPECT_THAT(b.copyto(gpu(mine)).to_vector<float>(), Each(2.0f));
    EXPECT_EQ(current_device(), mine);
    const Event e = s.record();
    e.wait();
    memory_pool(other).release_cached();
    EXPECT_GT(gpu_memory_info(other).total, 0u);
    EXPECT_EQ(current_device(), mine);
    EXPECT_THROW(memory_pool(other).allocate(size_t{1} << 60, s.view()), OutOfMemory);
    EXPECT_EQ(current_device(), mine);
  }
  LOCUS_CUDA(cudaSetDevice(0));
}

// A process of its own, where no other test has used gpu(0).
TEST(CudaDeathTest, AGpuThatIsNotUsedGetsNoContext) {
  if (num_gpus() < 2 || context_info(gpu(1)).emulated) GTEST_SKIP() << "needs two NVIDIA GPUs";
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto program = [] {
    const Context c = gpu(1);
    const Tensor pinned = ones({300000}, cpu_pinned());
    const Tensor up = pinned.copyto(c, {.blocking = false}), pageable = ones({300000}).copyto(c);
    const Tensor sum = (up + pageable).copyto(cpu_pinned(), {.blocking = false});
    std::thread([&] {  // has no current device
      Stream s(c);
      const StreamScope on(s);
      const Tensor product = matmul(up.reshape({300, 1000}), pageable.reshape({1000, 300}));
      Event e = s.record();
      product.copyto(cpu_pinned(), {.blocking = false}).wait_to_read();
      s.wait(e);
      e.wait();
      product.to_vector<float>();
      ones({3}, c).copyto(up(Slice(0, 3)));
    })
        .join();
    sum.wait_to_read();
    wait_all();
    memory_pool(c).release_cached();
    unsigned flags = 0;
    int active = 1;
    const bool known = cuda::driver().primary_state(0, &flags, &active) == CUDA_SUCCESS;
    std::exit(known && !active ? 0 : 1);
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "");
}

TEST(Cuda, EveryLaneIsAStreamOfItsOwn) {
  LOCUS_NEEDS_GPUS(1);
  Device& d = device(gpu(0));
  std::vector<StreamView> lanes;
  for (const Lane lane : {Lane::compute, Lane::to_device, Lane::to_host, Lane::peer})
    lanes.push_back(d.stream(lane));
  for (size_t i = 0; i < lanes.size(); ++i) {
    EXPECT_NE(lanes[i].id, 0u);
    EXPECT_NE(lanes[i].native, nullptr);
    unsigned flags = 0;
    LOCUS_CUDA(cudaStreamGetFlags(static_cast<cudaStream_t>(lanes[i].native), &flags));
    EXPECT_EQ(flags, unsigned{cudaStreamNonBlocking});
    for (size_t j = 0; j < i; ++j) {
      EXPECT_NE(lanes[i].id, lanes[j].id);
      EXPECT_NE(lanes[i].native, lanes[j].native);
    }
  }
}

TEST(Cuda, OpsReturnBeforeTheirStreamGetsToThem) {
  LOCUS_NEEDS_GPUS(1);
  const Tensor a = full({1000}, 3, gpu(0));
  EXPECT_THAT((a + a).to_vector<float>(), Each(6.0f));  // loads the kernel, which may wait
  Stream s(gpu(0));
  const StreamScope on(s);
  stall(s.view());
  const Tensor b = a + a;
  const Event after = s.record();
  EXPECT_FALSE(after.query());
  EXPECT_THAT(b.to_vector<float>(), Each(6.0f));
  EXPECT_TRUE(after.query());
}

TEST(Cuda, AStreamWaitsForTheWriteOfAnother) {
  LOCUS_NEEDS_GPUS(1);
  Tensor x = zeros({1 << 16}, gpu(0));
  const Tensor warm = x + 1.0f;
  Stream slow(gpu(0)), later(gpu(0));
  {
    const StreamScope on(slow);
    stall(slow.view());
    x += 1.0f;
  }
  Tensor y;
  {
    const StreamScope on(later);
    y = x + 1.0f;
  }
  EXPECT_FALSE(slow.record().query()) << "the host waited";
  EXPECT_THAT(y.to_vector<float>(), Each(2.0f));
}

TEST(Cuda, AWriteWaitsForTheReadOfAnotherStream) {
  LOCUS_NEEDS_GPUS(1);
  Tensor x = ones({1 << 16}, gpu(0));
  const Tensor warm = x * 2.0f;
  Stream slow(gpu(0));
  Tensor y;
  {
    const StreamScope on(slow);
    stall(slow.view());
    y = x * 2.0f;
  }
  x += 5.0f;
  EXPECT_THAT(y.to_vector<float>(), Each(2.0f));
  EXPECT_THAT(x.to_vector<float>(), Each(6.0f));
}

TEST(Cuda, MemoryFreedWhileAnotherStreamReadsItIsNotReusedEarly) {
  LOCUS_NEEDS_GPUS(1);
  Stream slow(gpu(0));
  Tensor y;
  {
    const Tensor x = ones({1 << 16}, gpu(0));
    const StreamScope on(slow);
    stall(slow.view());
    y = x * 2.0f;
  }
  for (int i = 0; i < 8; ++i) full({1 << 16}, -7, gpu(0));
  EXPECT_THAT(y.to_vector<float>(), Each(2.0f));
}

TEST(Cuda, EventsMeasureTheTimeBetweenThem) {
  LOCUS_NEEDS_GPUS(1);
  Stream s(gpu(0));
  const Event before = s.record();
  stall(s.view());
  const Event after = s.record();
  EXPECT_GE(before.elapsed_ms(after), 0.9 * kStall.count());
}

TEST(Cuda, AStreamOfTheHostsChoiceWaitsForAnEvent) {
  LOCUS_NEEDS_GPUS(1);
  Stream slow(gpu(0)), later(gpu(0));
  stall(slow.view());
  later.wait(slow.record());
  const Event end = later.record();
  EXPECT_FALSE(end.query());
  end.wait();
  EXPECT_TRUE(end.query());
}

// Raises a fault in stream order, without a kernel.
template <cuda::Finding kFinding>
void raise_fault(const Call& call) {
  LOCUS_CUDA(cudaLaunchHostFunc(
      cuda::stream(call),
      [](void* p) {
        auto* fault = static_cast<cuda::Fault*>(p);
        fault->finding = kFinding;
        fault->raised = 1;
      },
      cuda::fault(call)));
}

constexpr cuda::Finding kIndex{cuda::FaultKind::index, 12, 10, 1};

template <cuda::Finding kFinding = kIndex>
void launch_faulty(StreamView s) {
  Call call{};
  call.stream = s;
  device(gpu(0)).launch(&raise_fault<kFinding>, call, "pick_faulty");
}

template <class E, cuda::Finding kFinding>
std::string text_of_fault() {
  const StreamView s = device(gpu(0)).stream(Lane::compute);
  launch_faulty<kFinding>(s);
  return test::message_of<E>([&] { device(gpu(0)).synchronize(s); });
}

TEST(Cuda, EachKindOfFaultIsAnErrorOfItsOwn) {
  LOCUS_NEEDS_GPUS(1);
  using cuda::FaultKind;
  EXPECT_EQ((text_of_fault<IndexError, kIndex>()),
            "pick_faulty: index 12 is out of bounds for axis 1 with size 10; expected -10 to 9 "
            "(found asynchronously on gpu(0); LOCUS_SYNC=1 finds it at its call)");
  EXPECT_EQ(
      (text_of_fault<IndexError, cuda::Finding{FaultKind::label, 7, 5, 3}>()),
      "pick_faulty: label 7 of row 3 is out of range for 5 classes; expected whole numbers in "
      "[0, 5) (found asynchronously on gpu(0); LOCUS_SYNC=1 finds it at its call)");
  EXPECT_THAT((text_of_fault<IndexError, cuda::Finding{FaultKind::label, 7, 5, 3, false}>()),
              HasSubstr("label nan, with a fraction or past 64 bits of row 3"));
  EXPECT_THAT((text_of_fault<DeviceError, cuda::Finding{FaultKind::late_peer, 1, 30}>()),
              HasSubstr("pick_faulty: device 1 of the group did not join within 30 s"));
}

TEST(Cuda, AFaultSurfacesOnceAtSynchronizeAndNamesTheOp) {
  LOCUS_NEEDS_GPUS(1);
  Device& d = device(gpu(0));
  const StreamView s = d.stream(Lane::compute);
  launch_faulty(s);
  EXPECT_THAT(test::message_of<IndexError>([&] { d.synchronize(s); }),
              HasSubstr("pick_faulty: index 12"));
  EXPECT_NO_THROW(d.synchronize(s));
  launch_faulty(s);
  EXPECT_THROW(d.synchronize({}), IndexError);
  EXPECT_NO_THROW(d.synchronize({}));
}

TEST(Cuda, AFaultSurfacesWhenResultsAreRead) {
  LOCUS_NEEDS_GPUS(1);
  const Tensor x = ones({4}, gpu(0));
  launch_faulty(device(gpu(0)).stream(Lane::compute));
  EXPECT_THROW(x.to_vector<float>(), IndexError);
  EXPECT_THAT(x.to_vector<float>(), Each(1.0f));
}

TEST(Cuda, AFailedLaunchNamesItsOpAndLeavesTheDeviceUsable) {
  LOCUS_NEEDS_GPUS(1);
  Device& d = device(gpu(0));
  Call call{};
  call.stream = d.stream(Lane::compute);
  const Kernel bad = [](const Call& c) {
    static_cast<void>(
        cudaMemcpyAsync(nullptr, nullptr, 16, static_cast<cudaMemcpyKind>(99), cuda::stream(c)));
  };
  try {
    d.launch(bad, call, "broken_op");
    FAIL() << "no error";
  } catch (const DeviceError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("broken_op"), HasSubstr("gpu(0)")));
  }
  EXPECT_THAT((ones({3}, gpu(0)) + 1.0f).to_vector<float>(), Each(2.0f));
}

TEST(Cuda, AThreadThatUsedNoGpuYetGivesMemoryBack) {
  LOCUS_NEEDS_GPUS(1);
  for (int i = 0; i < num_gpus(); ++i) {
    MemoryPool& pool = memory_pool(gpu(i));
    pool.release_cached();
    empty({int64_t{64} << 20}, gpu(i)).wait_to_read();
    const size_t before = gpu_memory_info(gpu(i)).free;
    std::thread([&] { pool.release_cached(); }).join();
    EXPECT_GE(gpu_memory_info(gpu(i)).free, before + (size_t{256} << 20)) << gpu(i);
  }
}

TEST(Cuda, OutOfMemoryLeavesTheDeviceUsable) {
  LOCUS_NEEDS_GPUS(1);
  const auto too_many = static_cast<int64_t>(gpu_memory_info(gpu(0)).total / sizeof(float) * 2);
  const size_t before = memory_pool(gpu(0)).stats().in_use;
  EXPECT_THROW(empty({too_many}, gpu(0)), OutOfMemory);
  EXPECT_LE(memory_pool(gpu(0)).stats().in_use, before);  // less: blocks that waited for an event
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  EXPECT_THAT((ones({1000}, gpu(0)) + 1.0f).to_vector<float>(), Each(2.0f));
}

TEST(Cuda, CachedMemoryIsGivenBackWhenItIsNeeded) {
  LOCUS_NEEDS_GPUS(1);
  memory_pool(gpu(0)).release_cached();
  const auto half = static_cast<int64_t>(gpu_memory_info(gpu(0)).free / 2);
  empty({half}, TensorOptions(gpu(0), u8));
  const Tensor more = empty({half + half / 2}, TensorOptions(gpu(0), u8));
  EXPECT_TRUE(more.defined());
}

TEST(Cuda, BlocksAreAlignedTo256Bytes) {
  LOCUS_NEEDS_GPUS(1);
  MemoryPool& pool = memory_pool(gpu(0));
  const StreamView s = device(gpu(0)).stream(Lane::compute);
  for (const size_t bytes : {1, 4, 257, 100000, 3 << 20}) {
    void* p = pool.allocate(bytes, s);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 256, 0u);
    pool.deallocate(p, bytes, s);
  }
}

TEST(Cuda, AStreamHasCountersOfItsOwn) {
  LOCUS_NEEDS_GPUS(1);
  const StreamView compute = device(gpu(0)).stream(Lane::compute);
  Stream other(gpu(0));
  EXPECT_EQ(cuda::counters(compute, 1), cuda::counters(compute, cuda::kMaxCounters));
  EXPECT_NE(cuda::counters(compute, 1), cuda::counters(other.view(), 1));
  device(gpu(0)).synchronize({});
  for (StreamView s : {compute, other.view()}) {
    std::vector<unsigned> found(cuda::kMaxCounters, 7);
    LOCUS_CUDA(cudaMemcpy(found.data(), cuda::counters(s, 1), found.size() * sizeof(unsigned),
                          cudaMemcpyDeviceToHost));
    EXPECT_THAT(found, Each(0u)) << "every kernel leaves them zero";
  }
  EXPECT_GT(cuda::multiprocessors(compute), 0);
}

TEST(Cuda, ThreadsShareADevice) {
  LOCUS_NEEDS_GPUS(1);
  constexpr int kThreads = 8;
  std::vector<std::vector<float>> results(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([t, &results] {
      Tensor x = full({257}, t, gpu(0));
      for (int i = 0; i < 200; ++i) x = x + 1.0f;
      results[static_cast<size_t>(t)] = x.to_vector<float>();
    });
  for (std::thread& t : threads) t.join();
  for (int t = 0; t < kThreads; ++t)
    EXPECT_THAT(results[static_cast<size_t>(t)], Each(static_cast<float>(t + 200)));
}

#endif  // LOCUS_WITH_CUDA

}  // namespace
}  // namespace locus
