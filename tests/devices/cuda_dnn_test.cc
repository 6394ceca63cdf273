// cuDNN's plans on real GPUs, against our kernels. LOCUS_TUNE=1 LOCUS_TUNE_FILE=... with
// --gtest_filter='CudaDnn*:Convolution*:*convolution*' measures plans and uses them everywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <thread>

#include <locus/core/capture.h>
#include <locus/core/compile.h>
#include <locus/core/memory/storage.h>
#include <locus/core/tuning.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/matmul.h>

#include "tests/devices/cuda_support.h"
#include "tests/support/contexts.h"

#ifdef LOCUS_WITH_CUDA

#include <locus/devices/cuda/unlocked_stream.h>

#include "tests/devices/cuda_dnn.h"

namespace locus::cuda {
namespace {

using Values = std::vector<double>;

#define LOCUS_NEEDS_CUDNN() \
  LOCUS_NEEDS_GPUS(1);      \
  if (dnn_version() == 0) GTEST_SKIP() << "needs a build with cuDNN"

DnnStats stats() { return dnn_stats(current_stream(gpu(0))); }

// `whole`: small whole numbers, whose sums are exact in any order.
Layer draw(std::mt19937& random, DType d, bool whole) {
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  Layer layer;
  Convolution& g = layer.g;
  g.images = pick(1, 4);
  g.groups = pick(0, 3) == 0 ? 2 : 1;
  g.in = pick(0, 1) == 0 ? 16 : pick(1, 20);
  g.out = pick(0, 1) == 0 ? 32 : pick(1, 20);
  g.channels_last = pick(0, 1) == 1;
  const bool deep = pick(0, 3) == 0;
  for (int a = 0; a < 3; ++a) {
    const bool there = a > 0 || deep;
    g.kernel[a] = there ? pick(1, 4) : 1;
    g.stride[a] = there ? pick(1, 2) : 1;
    g.dilation[a] = there ? pick(1, 2) : 1;
    g.padding[a] = there ? pick(0, g.kernel[a] - 1) : 0;
    const int64_t span = kernel_span(g.kernel[a], g.dilation[a]);
    g.data[a] = there ? span + pick(0, 9) : 1;
    g.result[a] = convolved_length(g.data[a], span, g.stride[a], g.padding[a]);
  }
  const auto tensor = [&](int64_t first, int64_t channels, const int64_t(&n)[3]) {
    const Shape shape = g.channels_last ? Shape{first, n[0], n[1], n[2], channels}
                                        : Shape{first, channels, n[0], n[1], n[2]};
    Values v(static_cast<size_t>(shape.size()));
    for (double& e : v)
      e = whole ? static_cast<double>(pick(-2, 2))
                : std::uniform_real_distribution<double>(-1, 1)(random);
    return array(v, shape, {gpu(0), f64}).astype(d);
  };
  layer.x = tensor(g.images, g.groups * g.in, g.data);
  layer.w = tensor(g.groups * g.out, g.in, g.kernel);
  layer.dy = tensor(g.images, g.groups * g.out, g.result);
  const int64_t one[3] = {1, 1, 1};
  if (pick(0, 1) == 1) layer.b = tensor(g.groups * g.out, 1, one).reshape({g.groups * g.out});
  layer.relu = pick(0, 1) == 1;
  return layer;
}

// The number of results of plans, by kind.
struct Count {
  int of[3] = {};
};
Count compare(DType d, bool whole, int layers, double tolerance) {
  std::mt19937 random(7);
  Count count;
  for (int i = 0; i < layers; ++i) {
    const Layer layer = draw(random, d, whole);
    for (const DnnKind kind : kKinds) {
      const DnnConvolution c = layer.form(kind);
      const Values wanted = test::values(layer.compute(kind));
      for (const std::string& name : plan_names(c)) {
        const Way way(c, name);
        const Values got = test::values(layer.compute(kind));
        double largest = 1, off = 0;
        for (size_t e = 0; e < got.size(); ++e) {
          largest = std::max(largest, std::fabs(wanted[e]));
          off = std::max(off, std::fabs(got[e] - wanted[e]));
        }
        EXPECT_LE(off, tolerance * largest) << name << ": " << to_string(c);
        EXPECT_EQ(test::values(layer.compute(kind)), got) << "again, " << name << to_string(c);
        ++count.of[static_cast<int>(kind)];
      }
    }
  }
  return count;
}

TEST(CudaDnn, PlansComputeWholeNumbersAsOurProductsDo) {
  LOCUS_NEEDS_CUDNN();
  for (const DType d : {f32, f16, bf16}) {
    const Count count = compare(d, true, 40, 0);
    for (const int n : count.of) EXPECT_GT(n, 10) << name(d);
  }
  compare(f64, true, 20, 0);
}

TEST(CudaDnn, PlansRoundNoMoreThanTheDtypeDoes) {
  LOCUS_NEEDS_CUDNN();
  compare(f32, false, 30, 2e-6);
  compare(f16, false, 30, 2e-3);
  compare(bf16, false, 30, 1.6e-2);
}

TEST(CudaDnn, Tf32IsUsedOnlyWhereItIsAskedFor) {
  LOCUS_NEEDS_CUDNN();
  std::mt19937 random(1);
  const Layer layer = draw(random, f32, false);
  EXPECT_FALSE(layer.form(DnnKind::forward).tf32);
  set_matmul_precision(Precision::tf32);
  EXPECT_TRUE(layer.form(DnnKind::forward).tf32);
  compare(f32, false, 10, 4e-3);
  set_matmul_precision(Precision::f32);
}

// Plans must not turn a non-finite result into a finite one, or a finite one into infinity. NaN may
// spread.
void expect_ours(const Layer& layer, DnnKind kind) {
  const DnnConvolution c = layer.form(kind);
  const Values wanted = test::values(layer.compute(kind));
  const auto same = [](double g, double w) {
    return std::isfinite(w) ? !std::isinf(g) : !std::isfinite(g);
  };
  for (const std::string& name : plan_names(c, 12)) {
    const Way way(c, name);
    const Values got = test::values(layer.compute(kind));
    const auto [g, w] = std::ranges::mismatch(got, wanted, same);
    if (g != got.end())
      ADD_FAILURE() << *g << ", not " << *w << ", at " << g - got.begin() << ": " << name << ": "
                    << to_string(c);
  }
}

// Non-finite values reach all results that depend on them, also through relu.
TEST(CudaDnn, WhatIsNotFiniteStaysSo) {
  LOCUS_NEEDS_CUDNN();
  const auto poisoned = [](const Tensor& t) {
    Values v = test::values(t);
    v.front() = std::nan("");
    v[v.size() / 2] = HUGE_VAL;
    return array(v, t.shape(), {gpu(0), f64}).astype(t.dtype());
  };
  std::mt19937 random(5);
  for (const Precision p : {Precision::f32, Precision::tf32})
    for (const DType d : {f32, f16, bf16}) {
      if (p == Precision::tf32 && d != f32) continue;
      set_matmul_precision(p);
      for (int i = 0; i < 12; ++i) {
        Layer layer = draw(random, d, true);
        Layer back = layer;
        layer.x = poisoned(layer.x);
        back.dy = poisoned(back.dy);
        back.relu = false;
        expect_ours(back, DnnKind::data_gradient);
        for (const bool relu : {true, false}) {
          layer.relu = relu;
          expect_ours(layer, DnnKind::forward);
        }
        expect_ours(layer, DnnKind::weight_gradient);
      }
    }
  set_matmul_precision(Precision::f32);
  // Some plans of 9.14 lose -infinity (dnn_probe.cc).
  if (dnn_version() / 100 == 914) {
    EXPECT_GT(stats().refused, 0);
  }
}

TEST(CudaDnn, PlansCanBeCapturedBeforeTheyEverRan) {
  LOCUS_NEEDS_CUDNN();
  std::mt19937 random(11);
  for (int i = 0; i < 8; ++i) {
    const Layer layer = draw(random, i % 2 == 0 ? f16 : f32, true);
    const DnnConvolution c = layer.form(DnnKind::forward);
    const Values wanted = test::values(layer.forward());
    const Names names = plan_names(c, 1);
    if (names.empty()) continue;
    const Way way(c, names[0]);
    Capture capture(gpu(0));
    const Tensor y = layer.forward();
    Graph graph = capture.end();
    for (int n = 0; n < 3; ++n) {
      const Tensor others = full({1 << 20}, std::nan(""), gpu(0));
      graph.replay();
      EXPECT_EQ(test::values(y), wanted) << names[0] << ": " << to_string(c);
    }
  }
}

// Chosen by the rule, before any measurement.
TEST(CudaDnn, PlansCanBeMadeWhileTheStreamIsCaptured) {
  LOCUS_NEEDS_CUDNN();
  if (tuning::measures()) GTEST_SKIP() << "LOCUS_TUNE=1 takes what is fastest";
  Layer layer;
  layer.g.images = 37;
  layer.g.in = layer.g.out = 64;
  for (int a = 0; a < 3; ++a) {
    layer.g.data[a] = layer.g.result[a] = a > 0 ? 8 : 1;
    layer.g.kernel[a] = a > 0 ? 3 : 1;
    layer.g.padding[a] = a > 0;
    layer.g.stride[a] = layer.g.dilation[a] = 1;
  }
  layer.x = sample_values(gpu(0), bf16, {37, 64, 1, 8, 8});
  layer.w = sample_values(gpu(0), bf16, {64, 64, 1, 3, 3});
  ASSERT_TRUE(dnn_convolution_wins(layer.form(DnnKind::forward)));
  const DnnStats before = stats();
  Capture capture(gpu(0));
  const Tensor y = layer.forward();
  Graph graph = capture.end();
  EXPECT_EQ(stats().made, before.made + 1);
  graph.replay();
  EXPECT_EQ(test::values(y), test::values(layer.forward()));
  EXPECT_EQ(stats().made, before.made + 1);
}

TEST(CudaDnn, AConvolutionIsPlannedOnceAndSoIsOneWithoutPlans) {
  LOCUS_NEEDS_CUDNN();
  std::mt19937 random(3);
  Layer layer = draw(random, f16, true);
  layer.g.images = 61;
  DnnConvolution without = layer.form(DnnKind::forward);
  without.dtype = f64;
  without.channels_last = without.bias = false;
  without.relu = true;
  for (const DnnConvolution& c : {layer.form(DnnKind::data_gradient), without}) {
    const DnnStats before = stats();
    const Names names = plan_names(c);
    const DnnStats first = stats();
    EXPECT_EQ(plan_names(c), names);
    const DnnStats second = stats();
    EXPECT_EQ(first.made, before.made + 1) << to_string(c);
    EXPECT_EQ(second.made, first.made) << to_string(c);
    EXPECT_EQ(second.found, first.found + 1) << to_string(c);
    EXPECT_EQ(names.empty(), c.dtype == f64) << to_string(c);
  }
}

TEST(CudaDnn, AWayThatIsNotThereIsNamed) {
  LOCUS_NEEDS_CUDNN();
  std::mt19937 random(3);
  const Layer layer = draw(random, f16, true);
  for (const char* name : {"cudnn 9999", "ours 99", "ours 1x"}) {
    const Way way(layer.form(DnnKind::forward), name);
    EXPECT_THAT(test::message_of<FormatError>([&] { layer.forward(); }), testing::HasSubstr(name));
  }
}

// Uses so many other convolutions that the cache drops all earlier ones.
void forget_plans(DnnConvolution c) {
  c.images = 1000;
  for (size_t i = 0; i < kMostDnnConvolutions; ++i, ++c.images) plan_names(c, 0);
}

TEST(CudaDnn, OnlyTheConvolutionsUsedLastAreKept) {
  LOCUS_NEEDS_CUDNN();
  std::mt19937 random(3);
  const DnnConvolution c = draw(random, f16, true).form(DnnKind::data_gradient);
  const Names names = plan_names(c);
  ASSERT_FALSE(names.empty());
  forget_plans(c);
  const DnnStats before = stats();
  EXPECT_EQ(before.kept, kMostDnnConvolutions);
  EXPECT_EQ(plan_names(c), names);
  EXPECT_EQ(stats().made, before.made + 1);
  EXPECT_EQ(stats().kept, kMostDnnConvolutions);
}

// A graph owns its plans and ways.
TEST(CudaDnn, ARecordedCallKeepsItsPlan) {
  LOCUS_NEEDS_CUDNN();
  std::mt19937 random(19);
  int ran = 0;
  for (int i = 0; i < 6; ++i) {
    const Layer layer = draw(random, i % 2 == 0 ? f16 : f32, false);
    const DnnKind kind = kKinds[i % 3];
    const DnnConvolution c = layer.form(kind);
    const Names names = plan_names(c, 1);
    if (names.empty()) continue;
    ++ran;
    Compiled f([&](const Tensors&) { return Tensors{layer.compute(kind)}; });
    Values wanted;
    Tensor y;
    std::optional<Graph> graph;
    {
      const Way way(c, names[0]);
      wanted = test::values(layer.compute(kind));
      EXPECT_EQ(test::values(f({layer.x})[0]), wanted);
      Capture capture(gpu(0));
      y = layer.compute(kind);
      graph.emplace(capture.end());
    }
    if (ran == 1) forget_plans(c);
    const Way ours(c, "ours");
    for (int n = 0; n < 3; ++n) {
      graph->replay();
      EXPECT_EQ(test::values(y), wanted) << names[0] << ": " << to_string(c);
      EXPECT_EQ(test::values(f({layer.x})[0]), wanted) << names[0] << ": " << to_string(c);
    }
  }
  EXPECT_GT(ran, 0);
}

TEST(CudaDnn, AKernelFunctionLetsOthersLaunch) {
  LOCUS_NEEDS_GPUS(1);
  int launched = 0;
  in_kernel([&](const Call& call) {
    const UnlockedStream opened(call.stream);
    std::thread other([&] { in_kernel([&](const Call&) { ++launched; }); });
    other.join();
    opened.enqueue([&] { ++launched; });
  });
  EXPECT_EQ(launched, 2);
}

TEST(CudaDnn, ThreadsMakeAPlanOnce) {
  LOCUS_NEEDS_CUDNN();
  std::mt19937 random(23);
  Layer layer = draw(random, f16, true);
  layer.g.images = 59;
  const DnnConvolution c = layer.form(DnnKind::data_gradient);
  const DnnStats before = stats();
  std::vector<Names> names(4);
  std::vector<std::thread> threads;
  for (Names& found : names) threads.emplace_back([&] { found = plan_names(c); });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(names, std::vector<Names>(4, plan_names(c)));
  EXPECT_EQ(stats().made, before.made + 1);
}

// On one stream, while other threads make plans.
TEST(CudaDnn, ThreadsComputeWithPlans) {
  LOCUS_NEEDS_CUDNN();
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      std::mt19937 random(t);
      for (int i = 0; i < 4; ++i) {
        const Layer layer = draw(random, i % 2 == 0 ? f16 : f32, true);
        const Values wanted = test::values(layer.forward());
        for (const std::string& name : plan_names(layer.form(DnnKind::forward), 2)) {
          const Way way(layer.form(DnnKind::forward), name);
          for (int n = 0; n < 3; ++n) EXPECT_EQ(test::values(layer.forward()), wanted) << name;
        }
      }
    });
  for (std::thread& t : threads) t.join();
}

TEST(CudaDnn, MeasuredPlansAreReused) {
  LOCUS_NEEDS_CUDNN();
  if (!tuning::measures()) GTEST_SKIP() << "needs LOCUS_TUNE=1";
  std::mt19937 random(13);
  for (int i = 0; i < 6; ++i) {
    const Layer layer = draw(random, i % 2 == 0 ? f16 : f32, false);
    for (const DnnKind kind : kKinds) {
      std::vector<std::thread> threads;  // measure and must agree
      for (int t = 0; t < 3; ++t) threads.emplace_back([&] { layer.compute(kind).wait_to_read(); });
      for (std::thread& t : threads) t.join();
      const Values first = test::values(layer.compute(kind));
      const std::string key = way_key(layer.form(kind), context_info(gpu(0)).name, true);
      EXPECT_TRUE(tuning::choices().find(key)) << key;
      EXPECT_EQ(test::values(layer.compute(kind)), first) << key;
    }
  }
}

}  // namespace
}  // namespace locus::cuda

#endif  // LOCUS_WITH_CUDA
