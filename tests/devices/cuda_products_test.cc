// Products on real GPUs: memory, streams, precision, capture.
#include <gmock/gmock.h>

#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include <locus/core/capture.h>
#include <locus/core/memory/storage.h>
#include <locus/core/op.h>
#include <locus/devices/pool.h>
#include <locus/ops/matmul.h>
#include <locus/ops/view.h>

#include "tests/devices/cuda_support.h"
#include "tests/support/contexts.h"

#ifdef LOCUS_WITH_CUDA

namespace locus {
namespace {

using test::stall;

// One product per algorithm: tiles with split k in scratch memory, long vectors, the library, and
// the library in blocks of k, in parallel and in sequence.
constexpr int64_t kProducts[][3] = {
    {64, 256, 784}, {1, 1, 1000000}, {600, 600, 600}, {3, 3, 1000003}, {500, 500, 10000}};

TEST(CudaProducts, ProductsTakeTheirScratchMemoryFromThePool) {
  LOCUS_NEEDS_POOL();
  LOCUS_NEEDS_GPUS(1);
  for (const auto& [m, n, k] : kProducts)
    for (DType d : {f32, f16}) {
      SCOPED_TRACE(to_string(Shape{m, n, k}) + name(d));
      const Tensor a = full({m, k}, .125, {gpu(0), d}), b = full({k, n}, .125, {gpu(0), d});
      const auto run = [&] { dot(a, b).wait_to_read(); };
      run();
      wait_all();
      run();  // frees earlier idle blocks
      MemoryPool& pool = memory_pool(gpu(0));
      const MemoryStats before = pool.stats();
      const size_t free = gpu_memory_info(gpu(0)).free;
      run();
      const MemoryStats after = pool.stats();
      EXPECT_GT(after.allocations, before.allocations + 1) << "the result and the scratch memory";
      EXPECT_EQ(after.driver_allocations, before.driver_allocations);
      EXPECT_LE(after.in_use, before.in_use) << "what earlier work held may have come back";
      EXPECT_EQ(gpu_memory_info(gpu(0)).free, free) << "memory that the pool does not count";
    }
}

TEST(CudaProducts, TheFirstOneOfAStreamTakesNothingFromTheDriverBesideThePool) {
  LOCUS_NEEDS_POOL();
  LOCUS_NEEDS_GPUS(1);
  const Tensor a = full({600, 600}, .125, {gpu(0), f64});
  dot(a, a).wait_to_read();  // loads the library's kernels
  for (int i = 0; i < 4; ++i) {
    Stream stream(gpu(0));
    const StreamScope scope(stream);
    const size_t reserved = memory_pool(gpu(0)).stats().reserved;
    const size_t free = gpu_memory_info(gpu(0)).free;
    dot(a, a).wait_to_read();
    const size_t taken = memory_pool(gpu(0)).stats().reserved - reserved;
    EXPECT_GE(gpu_memory_info(gpu(0)).free + taken, free);
  }
}

TEST(CudaProducts, StreamsOfSeveralThreadsShareTheLibrary) {
  LOCUS_NEEDS_GPUS(1);
  constexpr int kThreads = 8, kProductsEach = 50;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 1; t <= kThreads; ++t)
    threads.emplace_back([t, &wrong] {
      Stream stream(gpu(0));
      const StreamScope scope(stream);
      const Tensor a = full({200, 300}, t, {gpu(0), f64}), b = ones({300, 200}, {gpu(0), f64});
      for (int i = 0; i < kProductsEach; ++i)
        for (const double sum : dot(a, b).to_vector<double>()) wrong += sum != 300 * t;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(CudaProducts, LibrariesWorkOnTheirCallsStreamAtThePrecisionAskedFor) {
  LOCUS_NEEDS_POOL();
  LOCUS_NEEDS_GPUS(1);
  // 1 + 2^-12 does not fit TF32.
  const Tensor a = full({1024, 1024}, 1.000244140625, {gpu(0), f32});
  const double exact = 1024 * 1.000244140625 * 1.000244140625;
  EXPECT_NEAR(dot(a, a)(0, 0).item<double>(), exact, 1e-3);
  set_matmul_precision(Precision::tf32);
  const double rounded = dot(a, a)(0, 0).item<double>();
  set_matmul_precision(Precision::f32);
  EXPECT_NEAR(rounded, 1024, .6);
  EXPECT_NE(rounded, exact);
  EXPECT_NEAR(dot(a, a)(0, 0).item<double>(), exact, 1e-3);
  Stream slow(gpu(0));
  const StreamScope on(slow);
  stall(slow.view());
  const Tensor y = dot(a, a);
  EXPECT_FALSE(slow.record().query()) << "a kernel function waited";
  EXPECT_NEAR(y(0, 0).item<double>(), exact, 1e-3);
}

// Kernel functions neither wait nor allocate from the driver in a capture. The graph keeps its
// memory while other work uses the rest.
TEST(CudaProducts, ProductsCanBeCapturedAndReplayed) {
  LOCUS_NEEDS_GPUS(1);
  for (const auto& [m, n, k] : kProducts) {
    SCOPED_TRACE(to_string(Shape{m, n, k}));
    Tensor a = sample_values(gpu(0), f32, {m, k}), b = sample_values(gpu(0), f32, {k, n}, -2, 2, 1);
    Capture capture(gpu(0));
    const Tensor y = dot(a, b);
    Graph graph = capture.end();
    for (int i = 1; i <= 3; ++i) {
      a *= 2;
      const Tensor others = full({1 << 20}, std::nan(""), gpu(0));
      const Tensor expected = dot(a, b);
      full({int64_t{1} << 24}, std::nan(""), gpu(0));
      graph.replay();
      EXPECT_EQ(y.to_vector<float>(), expected.to_vector<float>()) << "replay " << i;
    }
  }
}

}  // namespace
}  // namespace locus

#endif  // LOCUS_WITH_CUDA
