// Fused functions in recordings, on several contexts and in many threads.
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <locus/core/autograd.h>
#include <locus/core/capture.h>
#include <locus/core/compile.h>
#include <locus/core/error.h>
#include <locus/core/profiler.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/fuse.h>
#include <locus/ops/random.h>
#include <locus/ops/unary.h>

#include "tests/fuse/same.h"
#include "tests/support/contexts.h"

namespace locus {
namespace {

using random::uniform;
using test::expect_same;

TEST(FuseRuns, OnEveryContextFromManyThreads) {
  const Fused f = fuse([](const Tensor& x, float a) { return exp(x) * a + x; }, "many");
  const std::vector<Context> contexts = test::contexts();
  constexpr DType kTypes[] = {f32, f64, f16, i32};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 100; ++i)
    threads.emplace_back([&, i] {
      const Tensor x = (arange(40 + static_cast<int>(i % 3)) * .01)
                           .astype(kTypes[i % 4])
                           .as_in_context(contexts[i % contexts.size()]);
      for (int k = 0; k < 5; ++k) expect_same(f(x, 2), exp(x) * 2 + x);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_LE(f.stats().traces, 12 * contexts.size());
  EXPECT_EQ(f.stats().traces, f.stats().signatures);
}

TEST(FuseRuns, DifferentiatesInManyThreads) {
  const Fused f = fuse([](const Tensor& x) { return exp(x) * x; }, "many_gradients");
  std::vector<std::thread> threads;
  for (int i = 0; i < 20; ++i)
    threads.emplace_back([&] {
      const Tensor x = arange(30) * .1;
      x.attach_grad();
      {
        const autograd::Record record;
        f(x).backward();
      }
      const Tensor y = x.detach();
      expect_same(x.grad(), exp(y) + exp(y) * y);
    });
  for (std::thread& t : threads) t.join();
}

TEST(FuseRuns, IsOneCallInACompiledFunction) {
  for (const Context c : test::contexts()) {
    const Fused f = fuse([](const Tensor& x, const Tensor& y) { return exp(x) * y + x; }, "inner");
    Compiled g([&](const Tensors& in) { return Tensors{f(in[0], in[1]) * 2}; });
    for (int i = 0; i < 3; ++i) {
      const Tensor x = uniform(-1, 1, {64}, c), y = uniform(-1, 1, {64}, c);
      expect_same(g({x, y})[0], (exp(x) * y + x) * 2);
    }
    EXPECT_EQ(g.recorded(), 1u);
    const auto calls = g.calls();
    ASSERT_EQ(calls.size(), 2u);
    EXPECT_EQ(calls[0].op, "inner");
    EXPECT_EQ(f.stats().traces, 1u);
  }
}

TEST(FuseRuns, AFusedFunctionThatCallsACompiledOneIsFused) {
  Compiled g([](const Tensors& in) { return Tensors{exp(in[0]) + 1}; });
  const Fused f = fuse([&](const Tensor& x) { return g({x})[0] * x; });
  const Tensor x = arange(5) * .1;
  expect_same(f(x), (exp(x) + 1) * x);
  EXPECT_EQ(f.stats().kernels, 1u);
  EXPECT_EQ(g.recorded(), 0u);
}

TEST(FuseRuns, TheGradientIsCompiledToo) {
  for (const Context c : test::contexts()) {
    const auto plain = [](const Tensor& x) { return exp(x) * x; };
    const Fused f = fuse(plain);
    Compiled g([&](const Tensors& in) { return Tensors{f(in[0])}; });
    const Tensor x = uniform(-1, 1, {64}, c), y = x.copyto(c);
    x.attach_grad();
    y.attach_grad();
    for (int i = 0; i < 2; ++i) {
      const autograd::Record record;
      g({x})[0].backward();
      plain(y).backward();
      expect_same(x.grad(), y.grad());
    }
  }
}

TEST(FuseRuns, IsRecordedByACapture) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Fused f = fuse([](const Tensor& x, const Tensor& y) { return exp(x) * y + x; });
  const Tensor x = uniform(-1, 1, {64}, gpu(0)), y = uniform(-1, 1, {64}, gpu(0));
  Capture capture(gpu(0));
  const Tensor z = f(x, y);
  Graph graph = capture.end();
  graph.replay();
  expect_same(z, exp(x) * y + x);
  uniform(-1, 1, {64}, gpu(0)).copyto(x);
  graph.replay();
  expect_same(z, exp(x) * y + x);
  EXPECT_EQ(f.stats().kernels, 1u);
}

TEST(FuseRuns, IsOneLineOfAProfile) {
  const Fused f = fuse([](const Tensor& x) { return exp(x) * x + 1; }, "profiled");
  const Tensor x = arange(5);
  f(x);
  profiler::start_totals();
  for (int i = 0; i < 3; ++i) f(x);
  profiler::stop_totals();
  EXPECT_THAT(profiler::dumps(), testing::ContainsRegex("profiled +cpu\\(0\\) +3 "));
}

TEST(FuseRuns, KeepsTheSignaturesThatCameLast) {
  const Fused f = fuse([](const Tensor& x, int a) { return x * a + 1; });
  const Tensor x = arange(3);
  for (int i = 0; i < 300; ++i) expect_same(f(x, i), x * i + 1);
  EXPECT_EQ(f.stats().traces, 300u);
  EXPECT_EQ(f.stats().signatures, 256u);
  expect_same(f(x, 299), x * 299 + 1);
  EXPECT_EQ(f.stats().traces, 300u);
}

TEST(FuseRuns, ACallAllocatesItsResultsAlone) {
  const Tensor x = arange(1 << 20);
  const Fused f = fuse([](const Tensor& t) { return exp(exp(t) + 1) * 2 + t; });
  for (int i = 0; i < 2; ++i) {  // traced, then not
    const uint64_t before = memory_pool(cpu(0)).stats().allocations;
    f(x);
    EXPECT_EQ(memory_pool(cpu(0)).stats().allocations, before + 1);
  }
}

}  // namespace
}  // namespace locus
