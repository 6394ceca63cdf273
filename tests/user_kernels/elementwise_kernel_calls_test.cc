// ElementwiseKernel beside the rest of Locus: captures, compiled functions, threads, streams,
// the profiler's checks, preambles and options, PyCUDA's form.
#include <cmath>
#include <limits>
#include <thread>

#include <locus/core/capture.h>
#include <locus/core/compile.h>
#include <locus/core/stream.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/kernels.h>
#include <locus/ops/view.h>

#include "tests/support/contexts.h"

namespace locus {
namespace {

using test::contexts;
using test::kernel_contexts;
using test::values;
using testing::ElementsAre;

// The fused kernel of CuPy's article.
TEST(ElementwiseKernelCalls, MultipliesAndAdds) {
  const ElementwiseKernel k("T x, T y, T z", "T w", "w = x * y + z;", "multiply_add");
  for (Context c : contexts())
    for (DType d : {f32, f64, i32, i64}) {
      const Tensor x = arange(10, {c, d});
      EXPECT_THAT(values(k(x, x, x)), ElementsAre(0, 2, 6, 12, 20, 30, 42, 56, 72, 90));
    }
}

// PyCUDA's plus_one: the swapped arguments leave y as it was.
TEST(ElementwiseKernelCalls, PyCudaForm) {
  const ElementwiseKernel plus_one("int *x, int *y", "y[i] = x[i] + 1;", "plus_one");
  for (Context c : contexts()) {
    const Tensor x = arange(5, {c, i32}), y = zeros({5}, {c, i32});
    EXPECT_FALSE(plus_one(x, y).defined());
    EXPECT_THAT(values(y), ElementsAre(1, 2, 3, 4, 5));
    const Tensor z = zeros({5}, {c, i32});
    EXPECT_TRUE(plus_one.run({z, x}).empty());
    EXPECT_THAT(values(z), ElementsAre(0, 0, 0, 0, 0));
    EXPECT_THAT(values(x), ElementsAre(1, 1, 1, 1, 1));
    plus_one(y, y);
    EXPECT_THAT(values(y), ElementsAre(2, 3, 4, 5, 6));
    plus_one.run({y, z}, {.size = 2});
    EXPECT_THAT(values(z), ElementsAre(3, 4, 0, 0, 0));
    plus_one(y(Slice(0, 3)), y(Slice(2, 5)));  // one buffer
  }
}

TEST(ElementwiseKernelCalls, PyCudaFormWithNumbersAndHalves) {
  const ElementwiseKernel k("const half *x, float a, double *y, unsigned char *z, long long b",
                            "*(y + i) = a * x[i]; z[n - 1 - i] = b + i;", "scaled");
  for (Context c : kernel_contexts()) {
    const Tensor x = array({1.0f, 2.0f, 4.0f}, {c, f16}), y = zeros({3, 1}, {c, f64}),
                 z = zeros({3}, {c, u8});
    k(x, 0.5, y, z, 255);
    EXPECT_THAT(values(y), ElementsAre(.5, 1, 2));
    EXPECT_THAT(values(z), ElementsAre(1, 0, 255));
  }
}

TEST(ElementwiseKernelCalls, Captured) {
  const ElementwiseKernel k("T x, raw T w, T a", "T y", "y = x * w[0] + a;", "captured");
  for (Context c : contexts()) {
    if (c.type == DeviceType::cpu) continue;
    const Tensor x = array({1.0f, 2.0f}, c), w = array({3.0f}, c), z = zeros({2}, c);
    Tensor y;
    Capture capture(c);
    y = k(x, w, 0.5);
    k.into({y, y, 1}, {z});
    Graph graph = capture.end();
    for (float v : {2.0f, 5.0f}) {
      full({1}, v, c).copyto(w);
      graph.replay();
      EXPECT_THAT(values(y), ElementsAre(v + .5, 2 * v + .5));
      EXPECT_THAT(values(z), ElementsAre((v + .5) * (v + .5) + 1, (2 * v + .5) * (v + .5) + 1));
    }
  }
}

TEST(ElementwiseKernelCalls, InCompiledFunctions) {
  const ElementwiseKernel k("T x, T y", "T z", "z = x * y + 1;", "in_compiled");
  const ElementwiseKernel some("T x", "T y", "if (x > 0) y = x;", "some");
  for (Context c : contexts()) {
    Compiled f([&](const Tensors& in) {
      const Tensor y = in[1].clone();
      some(in[0], y);
      return Tensors{k(in[0] + 1, k(in[0], in[1])), y};
    });
    for (int step = 1; step < 5; ++step) {
      const Tensor x = array({1.0 * step, -1.0 * step}, {c, f32}), y = full({2}, step, c);
      const Tensors out = f({x, y});
      EXPECT_THAT(values(out[0]), ElementsAre((step + 1) * (step * step + 1) + 1,
                                              (1 - step) * (1 - step * step) + 1));
      EXPECT_THAT(values(out[1]), ElementsAre(step, step));
    }
  }
}

TEST(ElementwiseKernelCalls, ManyThreadsCompileAndCallOneKernel) {
  for (Context c : contexts()) {
    const ElementwiseKernel k("T x", "T y", "y = x + " + std::to_string(c.index + 1) + ";",
                              std::string("threads_") + (c.type == DeviceType::cpu ? "c" : "g"));
    std::vector<std::thread> threads;
    std::vector<int> right(8);
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        const DType d = t % 2 ? f32 : i32;
        for (int round = 0; round < 50; ++round) {
          const Tensor x = full({100}, t, {c, d});
          right[t] += values(k(x)) == std::vector<double>(100, t + c.index + 1);
        }
      });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(right, std::vector<int>(8, 50));
  }
}

TEST(ElementwiseKernelCalls, CopiesAndEqualKernelsAreOne) {
  const auto make = [](const char* body) { return ElementwiseKernel("T x", "T y", body, "same"); };
  const ElementwiseKernel a = make("y = x + 1;"), b = make("y = x + 2;");
  ElementwiseKernel copy = a;
  EXPECT_EQ(&copy.name(), &a.name());
  EXPECT_EQ(&make("y = x + 1;").name(), &a.name());
  EXPECT_NE(&b.name(), &a.name());
  copy = b;
  const Tensor x = zeros({1});
  EXPECT_EQ(a(x).item<float>(), 1);
  EXPECT_EQ(b(x).item<float>(), 2);
  EXPECT_EQ(copy(x).item<float>(), 2);
}

TEST(ElementwiseKernelCalls, OneKernelOnSeveralContextsInTurn) {
  const ElementwiseKernel k("T x", "T y", "y = 3 * x;", "in_turn");
  for (int round = 0; round < 3; ++round)
    for (Context c : test::distinct_contexts()) {
      const Tensor y = k(k(full({10}, 2, c)));
      EXPECT_EQ(y.context(), c);
      EXPECT_EQ(values(y), std::vector<double>(10, 18));
    }
}

TEST(ElementwiseKernelCalls, PageLockedMemory) {
  const ElementwiseKernel k("T x, T y", "T z", "z = x + y;", "pinned_sum");
  const Tensor z = k(ones({2}, cpu_pinned()), ones({2}));
  EXPECT_EQ(z.context(), cpu(0));
  EXPECT_THAT(values(z), ElementsAre(2, 2));
}

TEST(ElementwiseKernelCalls, OrderedWithOtherStreams) {
  const ElementwiseKernel k("T x", "T y", "y = x + 1;", "on_streams");
  for (Context c : contexts()) {
    if (c.type == DeviceType::cpu) continue;
    Stream other(c);
    const Tensor x = zeros({1 << 16}, c);
    for (int round = 0; round < 20; ++round) {
      k(x, x);
      const StreamScope scope(other);
      k(x, x);
    }
    EXPECT_EQ(values(x), std::vector<double>(1 << 16, 40));
  }
}

TEST(ElementwiseKernelCalls, PreamblesHaveIncludesFunctionsTypesAndMacros) {
  const ElementwiseKernel k("T x", "T y", "Pair p{x, LIMIT}; y = larger(p) + ROW;", "with_preamble",
                            {.preamble = R"(
#define LIMIT 2
#define ROW i
struct Pair {
  T a, b;
};
__device__ __forceinline__ T larger(const Pair& p) { return p.a > p.b ? p.a : sqrt(p.b * p.b); }
)"});
  for (Context c : kernel_contexts()) {
    const Tensor x = array({{1.0f, 2.0f}, {3.0f, 4.0f}}, c).T();
    EXPECT_THAT(values(k(x)), ElementsAre(2, 4, 4, 7));  // ROW counts rows of x
  }
  const ElementwiseKernel host("T x", "T y", "y = std::min<T>(x, 2);", "with_include",
                               {.preamble = "#include <algorithm>\n"});
  EXPECT_THAT(values(host(array({1.0f, 3.0f}))), ElementsAre(1, 2));
}

TEST(ElementwiseKernelCalls, OptionsOfCompilers) {
  const ElementwiseKernel k("T x", "T y", "y = x + STEP;", "with_options",
                            {.options = {"-DSTEP=2"}, .cpu_options = {"-DSTEP=1"}});
  for (Context c : contexts()) {
    const bool host = c.type == DeviceType::cpu || test::emulated_gpus();
    EXPECT_EQ(k(zeros({1}, c)).item<float>(), host ? 1 : 2);
  }
}

TEST(ElementwiseKernelCalls, SumsOfAtomics) {
  const ElementwiseKernel k("T x, int64 bins", "raw int64 counts, raw T sums",
                            "const int64_t b = i % bins; atomicAdd(&counts[b], 1); "
                            "atomicAdd(&sums[b], x);",
                            "histogram");
  for (Context c : contexts()) {
    const Tensor x = ones({100000}, c), counts = zeros({10}, {c, i64}), sums = zeros({10}, c);
    k.into({x, 10}, {counts, sums});
    EXPECT_EQ(values(counts), std::vector<double>(10, 10000));
    EXPECT_EQ(values(sums), std::vector<double>(10, 10000));
  }
}

TEST(ElementwiseKernelCalls, FunctionsOfCudaExistOnEveryContext) {
  const ElementwiseKernel k(
      "T x, int32 m", "T y",
      "y = sqrt(x) + exp(x) + log1p(x) + pow(x, 2) + fabs(-x) + max(x, T(m)) + min(m, 1) + "
      "abs(-m) + fmod(x, T(2)) + atan2(x, T(1)) + hypot(x, x) + floor(x) + erf(x) + tanh(x) + "
      "T(isnan(x)) + T(isinf(x)) + rsqrt(x) + exp2(x) + erfc(x) + tgamma(x) + fma(x, x, x) + "
      "sqrtf(4.0f) + fmaxf(1.0f, 2.0f) + copysign(x, T(-1)) + cbrt(x) + round(x) + "
      "__expf(0.0f) + powf(2.0f, 3.0f);",
      "functions");
  for (DType d : {f32, f64}) {
    const Tensor x = array({0.5f, 1.5f, 3.0f}, d), m = array({1, 2, 3}, i32);
    const std::vector<double> there = values(k(x, m));
    for (size_t e = 0; e < 3; ++e) {
      const double v = values(x)[e], w = values(m)[e];
      const double expected = std::sqrt(v) + std::exp(v) + std::log1p(v) + v * v + v +
                              std::max(v, w) + 1 + w + std::fmod(v, 2) + std::atan2(v, 1) +
                              std::hypot(v, v) + std::floor(v) + std::erf(v) + std::tanh(v) +
                              1 / std::sqrt(v) + std::exp2(v) + std::erfc(v) + std::tgamma(v) +
                              v * v + v + 2 + 2 - v + std::cbrt(v) + std::round(v) + 1 + 8;
      EXPECT_NEAR(there[e], expected, d == f32 ? 3e-5 : 1e-12);
    }
    for (Context c : kernel_contexts()) {
      const std::vector<double> here = values(k(x.as_in_context(c), m.as_in_context(c)));
      for (size_t e = 0; e < 3; ++e) EXPECT_NEAR(here[e], there[e], d == f32 ? 3e-5 : 1e-12);
    }
  }
}

TEST(ElementwiseKernelCalls, MaximaIgnoreNaNAsInCuda) {
  const ElementwiseKernel k("T x, T y", "T a, T b", "a = max(x, y); b = fmin(y, x);", "extremes");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (Context c : kernel_contexts()) {
    const Tensors out = k.run({array({nan, 1.0}, {c, f32}), array({2.0, nan}, {c, f32})});
    EXPECT_THAT(values(out[0]), ElementsAre(2, 1));
    EXPECT_THAT(values(out[1]), ElementsAre(2, 1));
  }
}

}  // namespace
}  // namespace locus
