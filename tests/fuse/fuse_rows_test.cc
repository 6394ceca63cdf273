// Functions that reduce rows are one kernel.
#include <limits>
#include <vector>

#include <gmock/gmock.h>

#include <locus/core/autograd.h>
#include <locus/ops/activation.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/fuse.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

#include "tests/fuse/same.h"
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using random::uniform;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

Tensor softmax_of(const Tensor& x) {
  const Tensor e = exp(x - max(x, {.axis = -1, .keepdims = true}));
  return e / sum(e, {.axis = -1, .keepdims = true});
}
Tensor layer_norm_of(const Tensor& x, const Tensor& gamma, const Tensor& beta) {
  const Tensor d = x - mean(x, {.axis = -1, .keepdims = true});
  return d / sqrt(mean(d * d, {.axis = -1, .keepdims = true}) + 1e-5) * gamma + beta;
}
// Along rows of these lengths: shorter than a pack, of a team's threads, longer than what they
// hold.
const std::vector<int64_t> kLengths = {1, 2, 3, 8, 33, 100, 1000, 1024, 4096, 5001, 20000};

TEST(FuseRows, SoftmaxIsOneKernel) {
  for (const Context c : kernel_contexts())
    for (const int64_t n : kLengths) {
      const Fused f = fuse(&softmax_of, "softmax_of");
      const Tensor x = uniform(-5, 5, {7, n}, c);
      expect_close(f(x), softmax_of(x));
      EXPECT_EQ(f.stats().kernels, 1u) << f.describe();
      EXPECT_THAT(f.describe(), HasSubstr("kernel (max, Subtract, Exp, sum, Divide)"));
    }
}

TEST(FuseRows, LayerNormIsOneKernel) {
  for (const Context c : kernel_contexts())
    for (const int64_t n : kLengths) {
      const Fused f = fuse(&layer_norm_of, "layer_norm_of");
      const Tensor x = uniform(-5, 5, {2, 3, n}, c), g = uniform(1, 2, {n}, c),
                   b = uniform(-1, 1, {n}, c);
      expect_close(f(x, g, b), layer_norm_of(x, g, b));
      EXPECT_EQ(f.stats().kernels, 1u) << f.describe();
    }
}

TEST(FuseRows, LossesOfRowsAreOneKernel) {
  const auto entropy = [](const Tensor& x, const Tensor& t) {
    return logsumexp(x, {.axis = 1}) - sum(x * t, {.axis = 1});
  };
  const auto half_square = [](const Tensor& x, const Tensor& t) {
    return mean(square(x - t), {.axis = 1}) / 2;
  };
  for (const Context c : kernel_contexts()) {
    const Tensor x = uniform(-5, 5, {9, 30}, c), t = uniform(0, 1, {9, 30}, c);
    const Fused f = fuse(entropy), g = fuse(half_square);
    expect_close(f(x, t), entropy(x, t));
    expect_close(g(x, t), half_square(x, t));
    EXPECT_EQ(f.stats().kernels + g.stats().kernels, 2u) << f.describe() << g.describe();
  }
}

TEST(FuseRows, EveryReductionIsThatOfTheOp) {
  const auto reduce = [](const Tensor& x) {
    const ReduceOptions o{.axis = 1};
    const Tensor y = x * 2;
    return Tensors{sum(y, o), mean(y, o), prod(y, o),      max(y, o),           min(y, o),
                   any(y, o), all(y, o),  logsumexp(y, o), norm(y, {.axis = 1})};
  };
  for (const Context c : kernel_contexts())
    for (const DType d : {f32, f64, f16, bf16, i32, u8, bool_}) {
      const Fused f = fuse(reduce);
      const Tensor x = uniform(-2, 2, {6, 20}, c).astype(d);
      const Tensors got = f(x), wanted = reduce(x);
      for (size_t i = 0; i < got.size(); ++i) expect_close(got[i], wanted[i]);
      EXPECT_THAT(f.stats().kernels, AnyOf(1u, 2u)) << f.describe();  // some take integers as f64
      EXPECT_THAT(f.describe(), Not(HasSubstr("not fused")));
    }
}

TEST(FuseRows, NanAndInfinitiesAreThoseOfTheOps) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const Fused f = fuse([](const Tensor& x) {
    return Tensors{max(x, {.axis = 1}), min(x, {.axis = 1}), sum(x, {.axis = 1}),
                   logsumexp(x, {.axis = 1})};
  });
  for (const Context c : kernel_contexts()) {
    const Tensor x = array({{1.f, NAN, 3.f},
                            {infinity, 1.f, 2.f},
                            {-infinity, -infinity, -infinity},
                            {infinity, -infinity, 0.f}},
                           {c});
    const Tensors got = f(x);
    expect_same(got[0], max(x, {.axis = 1}));
    expect_same(got[1], min(x, {.axis = 1}));
    expect_same(got[2], sum(x, {.axis = 1}));
    expect_close(got[3], logsumexp(x, {.axis = 1}));
    EXPECT_EQ(f.stats().kernels, 1u);
  }
}

TEST(FuseRows, RowsOfSeveralAxesAndOfAllAxes) {
  const auto plain = [](const Tensor& x) {
    const Tensor centered = x - mean(x, {.axis = {1, 2, 3}, .keepdims = true});
    return Tensors{centered, sum(centered * centered),
                   max(x, {.axis = {2, 3}, .keepdims = true}) * x};
  };
  for (const Context c : kernel_contexts()) {
    const Fused f = fuse(plain);
    const Tensor x = uniform(-1, 1, {3, 2, 4, 5}, c);
    const Tensors got = f(x), wanted = plain(x);
    for (size_t i = 0; i < got.size(); ++i) expect_close(got[i], wanted[i]);
    EXPECT_THAT(f.describe(), Not(HasSubstr("not fused")));
  }
}

// As many rows as elements of a row: which axis a vector lies along is not told by its length.
TEST(FuseRows, VectorsOfASquareLieAlongTheRightAxis) {
  const auto plain = [](const Tensor& x, const Tensor& v) {
    const Tensor s = sum(x, {.axis = 1}), t = s * 2 + v;
    return Tensors{t, x + t, x + t.reshape({5, 1}), x * v, t + sum(x * v, {.axis = 1})};
  };
  for (const Context c : kernel_contexts()) {
    const Fused f = fuse(plain);
    const Tensor x = uniform(-1, 1, {5, 5}, c), v = uniform(-1, 1, {5}, c);
    const Tensors got = f(x, v), wanted = plain(x, v);
    for (size_t i = 0; i < got.size(); ++i) expect_close(got[i], wanted[i]);
    EXPECT_THAT(f.describe(), Not(HasSubstr("not fused")));
  }
}

// The last kernel has results of rows and reduces none itself.
TEST(FuseRows, SumsOfDifferentSpacesAreCombinedInAThirdKernel) {
  const auto plain = [](const Tensor& x, const Tensor& y) {
    const Tensor s = sum(x, {.axis = 1}), z = s + sum(y, {.axis = 1});
    return Tensors{s, z, flip(s, 0) + s};
  };
  for (const Context c : kernel_contexts()) {
    const Fused f = fuse(plain);
    const Tensor x = uniform(-1, 1, {5, 3}, c), y = uniform(-1, 1, {5, 7}, c);
    const Tensors got = f(x, y), wanted = plain(x, y);
    for (size_t i = 0; i < got.size(); ++i) expect_close(got[i], wanted[i]);
    EXPECT_EQ(f.stats().kernels, 3u) << f.describe();
  }
}

// Another kernel could add in another order, and no element would equal the greatest.
TEST(FuseRows, KernelsOfSeveralLevelsShareReductions) {
  const auto plain = [](const Tensor& x, const Tensor& y) {
    const Tensor u = x / sum(x, {.axis = 1, .keepdims = true}),
                 m = max(u, {.axis = 1, .keepdims = true});
    return Tensors{m, (u == m) * sum(y, {.axis = 1, .keepdims = true}).astype(f64)};
  };
  for (const Context c : kernel_contexts()) {
    const Fused f = fuse(plain);
    const Tensor x = uniform(1, 2, {5, 3000}, c), y = uniform(1, 2, {5, 7}, c);
    const Tensors got = f(x, y), wanted = plain(x, y);
    for (size_t i = 0; i < got.size(); ++i) expect_close(got[i].astype(f32), wanted[i].astype(f32));
    EXPECT_THAT(f.describe(), HasSubstr("kernel (sum, Divide, max); kernel (sum, to f64); "
                                        "kernel (Divide, Equal"));
  }
}

// More than the host's stack has room for.
TEST(FuseRows, HundredsOfReductionsRunAsOps) {
  const auto plain = [](const Tensor& x) {
    Tensor all = sum(x, {.axis = 1});
    for (int k = 0; k < 300; ++k) all = all + max(x, {.axis = 1});
    return all;
  };
  for (const Context c : kernel_contexts()) {
    const Fused f = fuse(plain);
    const Tensor x = uniform(-1, 1, {4, 33}, c).astype(f64);
    expect_close(f(x), plain(x));
  }
}

TEST(FuseRows, OperandsOfAnyLayout) {
  const auto plain = [](const Tensor& x, const Tensor& y, const Tensor& row) {
    return softmax_of(x * y + row) * max(row, {.axis = -1, .keepdims = true});
  };
  for (const Context c : kernel_contexts()) {
    const Fused f = fuse(plain);
    const Tensor wide = uniform(-1, 1, {12, 40}, c), tall = uniform(-1, 1, {20, 6}, c);
    const Tensor x = wide(Slice(0, 12, 2), Slice(0, 40, 2)), y = tall.transpose();
    ASSERT_EQ(x.shape(), Shape({6, 20}));
    for (const Tensor& row : {uniform(-1, 1, {20}, c), uniform(-1, 1, {6, 1}, c), ones({1}, {c})})
      expect_close(f(x, y, row), plain(x, y, row));
    EXPECT_THAT(f.describe(), Not(HasSubstr("not fused")));
  }
}

// The operand has no single stride along a row.
TEST(FuseRows, RowsThatAnOperandDoesNotFollowAreReducedByTheOp) {
  const auto plain = [](const Tensor& x, const Tensor& channel) {
    return x / (sum(abs(x * channel), {.axis = {1, 2}, .keepdims = true}) + 1);
  };
  for (const Context c : kernel_contexts()) {
    const Fused f = fuse(plain);
    const Tensor x = uniform(-1, 1, {2, 3, 4}, c), channel = uniform(-1, 1, {3, 1}, c);
    expect_close(f(x, channel), plain(x, channel));
    EXPECT_THAT(f.describe(), HasSubstr("op sum, not fused"));
  }
}

TEST(FuseRows, LongRowsAreReducedByTheOp) {
  const Fused f = fuse([](const Tensor& x) { return sum(x * x, {.axis = 1}); });
  for (const Context c : kernel_contexts()) {
    const Tensor x = uniform(-1, 1, {2, 65537}, c);
    expect_close(f(x), sum(x * x, {.axis = 1}));
    EXPECT_THAT(f.describe(), HasSubstr("op sum, not fused"));
  }
}

TEST(FuseRows, GradientsAreOneKernel) {
  for (const Context c : kernel_contexts())
    for (const int64_t n : {1, 3, 100, 1000, 5001}) {
      const Tensor dy = uniform(-1, 1, {6, n}, c);
      const auto gradient = [&](const auto& f) {
        const Tensor x = uniform(-2, 2, {6, n}, c).detach();
        x.attach_grad();
        Tensor y;
        {
          const autograd::Record record;
          y = f(x);
        }
        y.backward({.head_gradient = dy});
        return std::pair(x, x.grad());
      };
      const Fused f = fuse(&softmax_of, "softmax_of");
      random::seed(n);
      const auto [x, got] = gradient(f);
      random::seed(n);
      const auto [same, wanted] = gradient(&softmax_of);
      expect_same(x, same);
      expect_close(got, wanted);
      const std::string text = f.describe(), of_gradient = text.substr(text.find("gradient: "));
      EXPECT_THAT(of_gradient, HasSubstr(": kernel (max, "));
      EXPECT_THAT(of_gradient, Not(HasSubstr("; "))) << "it is one kernel";
    }
}

// Also where elements cannot be loaded in packs.
TEST(FuseRows, SameBitsOnEveryRunAndAtEveryAddress) {
  for (const Context c : kernel_contexts()) {
    const Fused f = fuse(&softmax_of);
    const Tensor all = uniform(-5, 5, {64 * 3000 + 1}, c);
    const Tensor moved = all(Slice(1, 64 * 3000 + 1)).reshape({64, 3000}), x = moved.clone();
    const Tensor first = f(x);
    for (int i = 0; i < 3; ++i) expect_same(f(x), first);
    expect_same(f(moved), first);
    EXPECT_EQ(f.stats().kernels, 1u);
  }
}

TEST(FuseRows, ValuesOfTheSameShapeAreInTheSameKernel) {
  const auto plain = [](const Tensor& x) {
    const Tensor e = exp(x);
    return Tensors{e, sum(e, {.axis = 1}), x * 2};
  };
  for (const Context c : kernel_contexts()) {
    const Fused f = fuse(plain);
    const Tensor x = uniform(-1, 1, {4, 30}, c);
    const Tensors got = f(x), wanted = plain(x);
    for (size_t i = 0; i < got.size(); ++i) expect_close(got[i], wanted[i]);
    EXPECT_EQ(f.stats().kernels, 1u) << f.describe();
  }
}

// One operand of another result has two strides along a row; so has another result.
TEST(FuseRows, OtherResultsDoNotKeepRowsFromBeingFused) {
  const auto scaled = [](const Tensor& x, const Tensor& channel) {
    return Tensors{sum(x, {.axis = {1, 2}}), x * channel};
  };
  const auto written = [](const Tensor& x, const Tensor& p) {
    const Tensor y = p * 2;
    y(ellipsis) = x;
    return Tensors{sum(x, {.axis = {1, 2}}), y};
  };
  for (const Context c : kernel_contexts()) {
    const Tensor x = uniform(-1, 1, {2, 3, 4}, c), channel = uniform(-1, 1, {3, 1}, c),
                 p = uniform(-1, 1, {2, 4, 3}, c).transpose({0, 2, 1});
    const Fused f = fuse(scaled), g = fuse(written);
    const Tensors a = f(x, channel), b = scaled(x, channel), d = g(x, p), e = written(x, p);
    for (size_t i = 0; i < 2; ++i) expect_close(a[i], b[i]);
    for (size_t i = 0; i < 2; ++i) expect_close(d[i], e[i]);
    EXPECT_EQ(f.stats().kernels, 2u) << f.describe();
    EXPECT_EQ(g.stats().kernels, 2u) << g.describe();
  }
}

TEST(FuseRows, LongChainsOfReductionsAreOps) {
  const auto plain = [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 60; ++i) y = y - max(y, {.axis = 1, .keepdims = true}) * .5;
    return y;
  };
  for (const Context c : kernel_contexts()) {
    const Fused f = fuse(plain);
    const Tensor x = uniform(-1, 1, {4, 30}, c);
    expect_same(f(x), plain(x));
    EXPECT_THAT(f.describe(), HasSubstr("op max, not fused"));
  }
}

}  // namespace
}  // namespace locus::test
