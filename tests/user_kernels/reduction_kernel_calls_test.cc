// ReductionKernel beside the rest of Locus: captures, compiled functions, threads, the same bits on
// every run, and random calls against plain loops.
#include <cstring>
#include <random>
#include <thread>

#include <locus/core/capture.h>
#include <locus/core/compile.h>
#include <locus/devices/cpu.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/random.h>
#include <locus/ops/reduction_kernels.h>
#include <locus/ops/view.h>

#include "tests/support/contexts.h"

namespace locus {
namespace {

using test::contexts;
using test::kernel_contexts;
using test::values;
using testing::ElementsAre;

const ReductionKernel& squares() {
  static const ReductionKernel k("T x", "T y", "x * x", "a + b", "y = a", "0", "squares");
  return k;
}

TEST(ReductionKernelCalls, Captured) {
  for (Context c : contexts()) {
    if (c.type == DeviceType::cpu) continue;
    const Tensor x = ones({2, 50000}, c), z = zeros({2}, c);
    Tensor y;
    Capture capture(c);
    y = squares()(x);
    squares()(x, z, {.axis = 1});
    Graph graph = capture.end();
    for (int v : {2, 3}) {
      full({2, 50000}, v, c).copyto(x);
      graph.replay();
      EXPECT_THAT(values(y), ElementsAre(v * v * 100000));
      EXPECT_THAT(values(z), ElementsAre(v * v * 50000, v * v * 50000));
    }
  }
}

TEST(ReductionKernelCalls, InCompiledFunctions) {
  for (Context c : contexts()) {
    Compiled f([](const Tensors& in) {
      return Tensors{squares()(in[0] + 1, {.axis = 0}) + squares()(in[0])};
    });
    for (int step = 1; step < 5; ++step) {
      const float s = static_cast<float>(step);
      const Tensor x = array({{s, 2 * s}, {0.0f, s}}, c);
      const float all = 6 * s * s;
      EXPECT_THAT(values(f({x})[0]),
                  ElementsAre((s + 1) * (s + 1) + 1 + all,
                              (2 * s + 1) * (2 * s + 1) + (s + 1) * (s + 1) + all));
    }
  }
}

// CuPy: TestReductionKernelCachedCode. A program differs by dtypes, not by shapes and layouts.
TEST(ReductionKernelCalls, OneTextForAllShapes) {
  const std::string text = squares().source(cpu(0), {f32});
  EXPECT_EQ(squares().source(cpu(0), {f32, f32}), text);
  EXPECT_NE(squares().source(cpu(0), {f64}), text);
  const auto make = [] {
    return ReductionKernel("T x", "T y", "x * x", "a + b", "y = a", "0", "squares");
  };
  EXPECT_EQ(&make().name(), &squares().name());
  EXPECT_NE(&ReductionKernel("T x", "T y", "x * x", "a + b", "y = a", "1", "squares").name(),
            &squares().name());
}

bool same_bits(const Tensor& x, const Tensor& y) {
  const std::vector<float> a = x.to_vector<float>(), b = y.to_vector<float>();
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(ReductionKernelCalls, BitsDependOnNeitherThreadsNorRuns) {
  const int threads = num_threads();
  for (Context c : contexts())
    for (const Shape& shape : {Shape({300'001}), Shape({70'001, 3}), Shape({40, 9001}),
                               Shape({9001, 40}), Shape({20, 3000, 4})}) {
      const Tensor x = random::normal(0, 1, shape, c);
      for (const Axes& axis : {Axes(), Axes(0), Axes(-1)}) {
        set_num_threads(threads);
        const Tensor first = squares()(x, {.axis = axis});
        for (int n : {1, 2, 7}) {
          set_num_threads(n);
          EXPECT_TRUE(same_bits(squares()(x, {.axis = axis}), first)) << shape << ' ' << n;
        }
        if (c.type == DeviceType::cpu || test::emulated_gpus()) {
          EXPECT_TRUE(same_bits(squares()(x.as_in_context(cpu(0)), {.axis = axis}), first));
        }
      }
    }
  set_num_threads(threads);
}

TEST(ReductionKernelCalls, ThreadsShareAKernel) {
  for (Context c : contexts()) {
    std::vector<std::thread> threads;
    std::vector<int> right(4);
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int round = 0; round < 20; ++round)
          right[static_cast<size_t>(t)] +=
              squares()(full({100'000}, t, c)).item<float>() == static_cast<float>(t * t) * 1e5f;
      });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(right, std::vector<int>(4, 20));
  }
}

// Small whole numbers: sums are exact in every order.
TEST(ReductionKernelCalls, RandomCallsEqualBuiltInReductions) {
  const ReductionKernel plain("T x, U y", "U z, int64 m", "x * y + 1", "a + b", "z = a; m = n", "0",
                              "random_plain");
  const ReductionKernel counted("T x, U y", "U z, int64 m", "x * y + i % 3", "a + b",
                                "z = a; m = n", "0", "random_counted");
  for (Context c : kernel_contexts()) {
    std::mt19937 engine(3);
    const auto below = [&](int n) { return static_cast<int>(engine() % static_cast<unsigned>(n)); };
    const auto tensor = [&](const std::vector<int64_t>& dims, DType d) {
      std::vector<int64_t> stored = dims;
      const bool cut = !dims.empty() && below(3) == 0, flip = !dims.empty() && below(3) == 0;
      if (cut) stored.back() = 2 * stored.back() + 1;
      const Shape shape{std::span<const int64_t>(stored)};
      std::vector<float> data(static_cast<size_t>(shape.size()));
      for (float& v : data) v = static_cast<float>(below(4));
      Tensor x = array(data, shape).astype(d).as_in_context(c);
      if (cut) x = x(ellipsis, Slice(1, std::nullopt, 2));
      if (flip) x = x(ellipsis, Slice(std::nullopt, std::nullopt, -1));
      return x;
    };
    for (int round = 0; round < 400; ++round) {
      const int rank = below(5);
      std::vector<int64_t> dims, narrow;
      for (int a = 0; a < rank; ++a) {
        dims.push_back(below(30) == 0 ? 0 : 1 + below(below(8) == 0 ? 90 : 6));
        narrow.push_back(below(3) == 0 ? 1 : dims.back());
      }
      std::vector<int> order;
      for (int a = 0; a < rank; ++a) order.push_back(a);
      std::shuffle(order.begin(), order.end(), engine);
      const DType t = below(2) ? i32 : f16, u = below(2) ? f64 : f32;
      const bool swapped = below(2) == 1;
      Tensor x = tensor(swapped ? narrow : dims, t), y = tensor(swapped ? dims : narrow, u);
      if (below(2)) x = x.transpose(order), y = y.transpose(order);
      const Tensor product = x.astype(u) * y;
      Axes axis;
      if (rank > 0 && below(3)) axis = Axes(below(rank));
      if (rank > 1 && below(3) == 0) axis = Axes({order[0], order[1] - rank});
      const bool keepdims = below(2) == 1;
      const ReduceOptions o{.axis = axis, .keepdims = keepdims};
      const Tensors out = plain.run({x, y}, o), with_i = counted.run({x, y}, o);
      EXPECT_EQ(out[0].shape(), sum(product, o).shape());
      EXPECT_EQ(values(out[0]), values(sum(product + 1, o))) << round;
      EXPECT_EQ(values(out[1]), values(sum(ones_like(product), o)));
      const int64_t n = out[1].size() == 0 ? 0 : out[1].reshape({-1})(0).item<int64_t>();
      double numbers = 0;
      for (int64_t i = 0; i < n; ++i) numbers += static_cast<double>(i % 3);
      EXPECT_EQ(values(with_i[0]), values(sum(product, o) + numbers)) << round;
    }
  }
}

}  // namespace
}  // namespace locus
