// fuse(): results, signatures, and what is not fused.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <locus/ops/activation.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/fuse.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include <locus/ops/trigonometry.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

#include "tests/fuse/same.h"
#include "tests/support/contexts.h"
#include "tests/support/folder.h"
#include "tests/support/variable.h"

namespace locus {
namespace {

using random::uniform;
using test::expect_same;
using test::kernel_contexts;
using testing::HasSubstr;

TEST(Fuse, OneKernelComputesTheBitsOfTheOps) {
  for (const Context c : kernel_contexts()) {
    const auto plain = [](const Tensor& x, const Tensor& y) { return x * y + exp(x); };
    const Fused f = fuse(plain, "mul_exp");
    const Tensor x = uniform(-3, 3, {37, 5}, c), y = uniform(-3, 3, {37, 5}, c);
    expect_same(f(x, y), plain(x, y));
    expect_same(f(y, x), plain(y, x));
    EXPECT_EQ(f.stats().traces, 1u);
    EXPECT_EQ(f.stats().kernels, 1u);
    EXPECT_THAT(f.describe(), HasSubstr("kernel (Multiply, Exp, Add)"));
  }
}

TEST(Fuse, TakesNumbersListsAndFunctionsAndGivesSeveralResults) {
  const Tensor x = arange(6), y = arange(6) - 2;
  const Fused scale = fuse([](const Tensor& t, double a, int b) { return t * a + b; });
  expect_same(scale(x, 2.5, 3), x * 2.5 + 3);
  expect_same(scale(x, -1, 3), x * -1 + 3);
  const Fused sum = fuse([](const Tensors& all) {
    Tensor s = all[0];
    for (size_t i = 1; i < all.size(); ++i) s = s + all[i] * all[i];
    return s;
  });
  expect_same(sum({x, y}), x + y * y);
  expect_same(sum({x, y, x}), x + y * y + x * x);
  const Fused two =
      fuse([](const Tensor& a, const Tensor& b) { return std::pair(a + b, (a - b) * 2); });
  const auto [plus, minus] = two(x, y);
  expect_same(plus, x + y);
  expect_same(minus, (x - y) * 2);
  EXPECT_EQ(two.stats().kernels, 1u);
  EXPECT_EQ(sum.stats().kernels, 1u);
  const Fused list = fuse([](Tensor a) { return Tensors{sin(a), cos(a), tanh(a)}; }, "waves");
  const Tensors waves = list(x);
  ASSERT_EQ(waves.size(), 3u);
  expect_same(waves[1], cos(x));
  EXPECT_EQ(list.stats().kernels, 1u);
}

TEST(Fuse, BroadcastsAndViewsAreReadWhereTheyLie) {
  for (const Context c : kernel_contexts()) {
    const auto plain = [](const Tensor& x, const Tensor& b) {
      return relu(x.T() * b + b.reshape({4, 1})(Slice(0, 1))) - x.T();
    };
    const Fused f = fuse(plain);
    const Tensor x = uniform(-3, 3, {4, 3}, c), b = uniform(-3, 3, {4}, c);
    expect_same(f(x, b), plain(x, b));
    EXPECT_EQ(f.stats().kernels, 1u);
    const Tensor columns = uniform(-3, 3, {3, 4}, c).T();
    expect_same(f(columns, b), plain(columns, b));
    EXPECT_EQ(f.stats().traces, 2u);  // other strides
  }
}

TEST(Fuse, ViewsOfOwnResultsEndAKernel) {
  const auto plain = [](const Tensor& x) {
    const Tensor y = exp(x);
    return y.T() + y;
  };
  const Fused f = fuse(plain);
  const Tensor x = uniform(-1, 1, {5, 5});
  expect_same(f(x), plain(x));
  EXPECT_EQ(f.stats().kernels, 2u);
}

TEST(Fuse, ResultsOfSeveralShapesAreSeveralKernels) {
  const auto plain = [](const Tensor& x, const Tensor& b) {
    const Tensor e = exp(b);
    return Tensors{e, x * e, x + 1, e * 2};
  };
  const Fused f = fuse(plain);
  const Tensor x = uniform(-1, 1, {5, 3}), b = uniform(-1, 1, {3});
  const Tensors got = f(x, b), wanted = plain(x, b);
  for (size_t i = 0; i < 4; ++i) expect_same(got[i], wanted[i]);
  EXPECT_EQ(f.stats().kernels, 2u);
}

TEST(Fuse, OtherOpsStayBetweenKernels) {
  const auto plain = [](const Tensor& x) {
    const Tensor e = exp(x - x.max({.axis = 0, .keepdims = true}));
    return e / e.sum({.axis = 0, .keepdims = true});
  };
  const Fused f = fuse(plain, "of_columns");
  const Tensor x = uniform(-1, 1, {5, 30});
  expect_same(f(x), plain(x));
  EXPECT_EQ(f.stats().kernels, 2u);
  EXPECT_THAT(f.describe(), HasSubstr("op sum, not fused"));
}

TEST(Fuse, HalvesAreRoundedAfterEachOpAndDTypesPromote) {
  for (const Context c : kernel_contexts())
    for (const DType d : {f16, bf16, f64, i32, i64, u8, i8, bool_}) {
      const auto plain = [](const Tensor& x, const Tensor& y) {
        const Tensor s = x + y;
        return Tensors{s * y + x,           exp(s), where(s > 1, s, y), s.astype(f16) / 3,
                       maximum(x, y) + 0.5, abs(s), clip(s, -1, 3)};
      };
      const Fused f = fuse(plain);
      const Tensor x = uniform(-100, 100, {301}, c).astype(d),
                   y = uniform(-9, 9, {301}, c).astype(d);
      const Tensors got = f(x, y), wanted = plain(x, y);
      for (size_t i = 0; i < got.size(); ++i) expect_same(got[i], wanted[i]);
      EXPECT_EQ(f.stats().kernels, 1u) << f.describe();
    }
}

TEST(Fuse, SpecialValuesKeepTheirBits) {
  const float inf = INFINITY, nan = NAN;
  const auto plain = [](const Tensor& x, const Tensor& y) {
    return Tensors{x + y,       x * y,        x / y,  maximum(x, y),
                   exp(x),      tanh(x) * y,  x == y, where(x < y, x, y),
                   sign(x) + y, sqrt(abs(x)), x % y,  isnan(x)};
  };
  const Fused f = fuse(plain);
  for (const Context c : kernel_contexts()) {
    const Tensor v = array({inf, -inf, nan, 0.f, -0.f, 1.f, -1.f, 1e-42f, 3e38f}).as_in_context(c);
    const Tensor x = v.reshape({9, 1}), y = v.reshape({1, 9});
    const Tensors got = f(x, y), wanted = plain(x, y);
    for (size_t i = 0; i < got.size(); ++i) expect_same(got[i], wanted[i]);
  }
}

TEST(Fuse, CastsToIntegersAndBackLoseTheSignOfZero) {
  const auto plain = [](const Tensor& x) { return x.astype(i32).astype(x.dtype()) * -1; };
  const Fused f = fuse(plain);
  for (const Context c : kernel_contexts())
    for (const DType d : {f32, f64, f16})
      for (const int n : {3, 100}) {
        const Tensor x = uniform(-.9, .9, {n}, c).astype(d);
        expect_same(f(x), plain(x));
      }
}

TEST(Fuse, OneCodeServesAllShapesAndNumbers) {
  const test::Folder cache;
  const test::Variable elsewhere("LOCUS_KERNEL_CACHE", cache.path);
  const auto plain = [](const Tensor& x, float a) { return leaky_relu(x, a) * a + 1; };
  const Fused f = fuse(plain, "of_any_shape");
  f(arange(4), .1f);
  const test::Variable none("LOCUS_CXX", "/no/compiler");
  for (const Shape& shape : {Shape{1}, Shape{3, 5}, Shape{1000}, Shape{2, 1, 3}})
    for (const float a : {.5f, .25f}) {
      const Tensor x = uniform(-1, 1, shape);
      expect_same(f(x, a), plain(x, a));
      EXPECT_EQ(f.stats().kernels, 1u);
    }
  EXPECT_EQ(f.stats().traces, 9u);
  if (test::emulated_gpus() || num_gpus() == 0) {
    const Fused other = fuse(plain, "needs_a_compiler");
    expect_same(other(arange(4), 2), plain(arange(4), 2));
    EXPECT_THAT(other.describe(), HasSubstr("not fused: needs_a_compiler: cpu(0) compiles"));
  }
}

TEST(Fuse, BatchNormOfGivenMomentsIsOneKernel) {
  for (const Context c : kernel_contexts()) {
    const auto plain = [](const Tensor& x, const Tensor& mean, const Tensor& var,
                          const Tensor& gamma, const Tensor& beta) {
      return (x - mean) / sqrt(var + 1e-5) * gamma + beta;
    };
    const Fused f = fuse(plain, "batch_norm");
    const auto channels = [&](double low) { return uniform(low, 2, {1, 64, 1, 1}, c); };
    const Tensor x = uniform(-3, 3, {8, 64, 11, 11}, c), mean = channels(-2), var = channels(.1),
                 gamma = channels(-2), beta = channels(-2);
    expect_same(f(x, mean, var, gamma, beta), plain(x, mean, var, gamma, beta));
    EXPECT_EQ(f.stats().kernels, 1u);
  }
}

TEST(Fuse, WritesToOwnTensorsAreFused) {
  const auto plain = [](const Tensor& x) {
    Tensor y = x * 2, before = y + 1;
    y += x;
    y *= y;
    return Tensors{y, before};
  };
  const Fused f = fuse(plain);
  const Tensor x = arange(7);
  expect_same(f(x)[0], plain(x)[0]);
  expect_same(f(x)[1], plain(x)[1]);
  EXPECT_EQ(f.stats().kernels, 1u) << f.describe();
}

TEST(Fuse, SharedArgumentsAreASignatureOfTheirOwn) {
  const auto plain = [](const Tensor& x, const Tensor& y) { return x - y * 2; };
  const Fused f = fuse(plain);
  const Tensor x = arange(12), y = arange(12) + 3;
  expect_same(f(x, x), plain(x, x));
  expect_same(f(x, y), plain(x, y));
  expect_same(f(x(Slice(0, 6)), x(Slice(6, 12))), plain(x(Slice(0, 6)), x(Slice(6, 12))));
  expect_same(f(x(Slice(0, 6)), x(Slice(3, 9))), plain(x(Slice(0, 6)), x(Slice(3, 9))));
  expect_same(f(y, x), plain(y, x));
  EXPECT_EQ(f.stats().traces, 4u);
}

TEST(Fuse, AFusedFunctionInsideIsAPart) {
  const Fused inner = fuse([](const Tensor& x) { return exp(x) + 1; });
  const Fused outer = fuse([&](const Tensor& x) { return inner(x) * inner(x + 1); });
  const Tensor x = arange(5) * .1;
  expect_same(outer(x), (exp(x) + 1) * (exp(x + 1) + 1));
  EXPECT_EQ(outer.stats().kernels, 1u);
  EXPECT_EQ(inner.stats().traces, 0u);
}

}  // namespace
}  // namespace locus
