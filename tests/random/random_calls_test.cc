// Calls of the random functions: equal bits on every context, errors, choices.
#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include <locus/core/stream.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/random.h>
#include <locus/ops/random/random_kernel.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::ElementsAre, testing::HasSubstr, testing::StartsWith;

std::vector<std::vector<double>> draws(Context c) {
  random::seed(7);
  std::vector<std::vector<double>> all;
  for (DType d : {f32, f64, f16, bf16}) {
    const TensorOptions o{c, d};
    all.push_back(values(random::normal(1, 2, {200003}, o)));
    all.push_back(values(random::normal(0, 1, {200003}, o)));
    all.push_back(values(random::uniform(-3, .7, {200003}, o)));
    all.push_back(values(random::exponential(2, {10007}, o)));
    all.push_back(values(random::laplace(1, 2, {10007}, o)));
    for (const double shape : {1e-3, .4, 3., 1e4})
      all.push_back(values(random::gamma(shape, 1, {10007}, o)));
    all.push_back(values(random::beta(.3, .4, {10007}, o)));
    all.push_back(values(random::beta(3, 4, {10007}, o)));
    for (const double lower : {-9., -1., 0., 4.})
      all.push_back(values(random::truncated_normal(lower, 4.5, 0, 1, {10007}, o)));
  }
  for (const double lam : {.1, 8., 10., 1000., 1e9})
    all.push_back(values(random::poisson(lam, {10007}, c)));
  for (const double p : {.01, .4, .9}) all.push_back(values(random::binomial(100, p, {10007}, c)));
  all.push_back(values(random::multinomial(50, {.2, .3, .5}, {1000}, c)));
  all.push_back(values(random::choice(10, {1001}, {.p = std::vector<double>(10, .1)}, c)));
  all.push_back(values(random::choice(10, {1001}, {}, c)));
  all.push_back(values(random::choice(100, {30}, {.replace = false}, c)));
  return all;
}

TEST(RandomCalls, TheSameSeedGivesTheSameBitsEverywhere) {
  const auto host = draws(cpu(0));
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    EXPECT_EQ(draws(c), host);
  }
}

TEST(RandomCalls, AnElementDependsOnItsPlaceAlone) {
  for (Context c : contexts()) {
    random::seed(2);
    const std::vector<double> few = values(random::gamma(.7, 1, {37}, c));
    random::seed(2);
    std::vector<double> many = values(random::gamma(.7, 1, {5000}, c));
    many.resize(few.size());
    EXPECT_EQ(many, few);
  }
}

// The numbers of a seed must not change between versions.
TEST(RandomCalls, ASeedGivesTheseNumbers) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  random::Generator rng(2024);
  const auto expect = [](const Tensor& x, const std::vector<double>& wanted) {
    EXPECT_THAT(values(x), testing::Pointwise(testing::DoubleNear(1e-7), wanted));
  };
  expect(rng.exponential(2, {3}), {1.00938928, 2.62933731, 0.0310421828});
  expect(rng.laplace(1, 2, {3}), {-1.12099087, 2.66071105, 1.21540105});
  expect(rng.gamma(.3, 2, {3}), {1.50880861, 0.000273294194, 0.0058196513});
  expect(rng.gamma(4, 2, {3}) / 10, {.50400815, .725632954, .838830948});
  expect(rng.beta(.5, 2, {3}), {0.0184531957, 0.426300704, 0.533922911});
  expect(rng.truncated_normal(-1, 2, 0, 1, {3}), {0.0786886886, 0.0966085643, 0.917964101});
  expect(rng.truncated_normal(5, kInf, 0, 1, {3}) / 10, {.545197201, .505722809, .517637634});
  expect(rng.poisson(3, {6}), {4, 4, 2, 1, 2, 5});
  expect(rng.poisson(300, {6}), {324, 278, 287, 281, 276, 297});
  expect(rng.binomial(100, .3, {6}), {31, 28, 27, 28, 38, 29});
  expect(rng.multinomial(100, {.2, .3, .5}, {2}), {22, 31, 47, 21, 31, 48});
  expect(rng.choice(4, {6}, {.p = {.1, .2, .3, .4}}), {3, 3, 1, 1, 0, 2});
  expect(rng.choice(9, {6}, {.replace = false}), {5, 8, 6, 3, 2, 0});
  expect(rng.choice(4, {3}, {.replace = false, .p = {.1, .2, .3, .4}}), {3, 0, 1});
  expect(rng.permutation(6), {0, 4, 5, 2, 1, 3});
}

// GPUs round from quick_normals() where its error leaves no doubt.
TEST(RandomCalls, QuickNormalsLieWithinTheirError) {
  uint32_t words[2] = {1, 2};
  for (uint32_t i = 0; i < 2000000; ++i) {
    for (uint32_t& w : words) w = w * 1664525u + 1013904223u;
    uint32_t first = words[0] ^ words[1] >> 16, second = words[1] ^ words[0] >> 16;
    if (i < 1000) first = i * 65536 + (i % 7) - 3;  // near powers of 2, quarters, 0 and 1
    if (i >= 1000 && i < 2000) first = ~uint32_t{0} - (i - 999);
    if (i >= 2000 && i < 3000) second = (i % 8) * 0x20000000u + i / 8 - 310;
    double quick[2], exact[2];
    detail::quick_normals(first, second, quick);
    detail::box_muller((first + 1.0) * 0x1p-32, second * 0x1p-32, exact);
    for (int k = 0; k < 2; ++k)
      ASSERT_LE(std::abs(quick[k] - exact[k]), detail::kQuickError / 4 * std::abs(exact[k]))
          << first << " " << second;
  }
  double none[2];
  detail::quick_normals(~uint32_t{0}, 5, none);
  EXPECT_TRUE(std::isnan(none[0]) && std::isnan(none[1]));
}

TEST(RandomCalls, FunctionsAreExactToAnUlpOrTwo) {
  for (int i = -7450; i <= 7090; ++i) {
    const double x = i * .1000123;
    ASSERT_NEAR(detail::exp_exact(x), std::exp(x), 3e-16 * std::exp(x) + 0x1p-1074) << x;
    const double y = std::exp(x / 20);
    ASSERT_NEAR(detail::log1p_exact(y), std::log1p(y), 5e-16 * std::log1p(y)) << y;
    if (y < 1) {
      ASSERT_NEAR(detail::log1p_exact(-y), std::log1p(-y), -5e-16 * std::log1p(-y)) << y;
    }
  }
  EXPECT_EQ(detail::exp_exact(710), std::numeric_limits<double>::infinity());
  EXPECT_EQ(detail::exp_exact(-746), 0);
  for (double k = 1; k < 1e9; k = std::floor(k * 1.5) + 1) {
    const long double wanted = std::lgamma(k + 1.L) -
                               (k + .5L) * std::log(static_cast<long double>(k)) + k -
                               .91893853320467274178L;
    ASSERT_NEAR(detail::stirling_error(k), static_cast<double>(wanted),
                4e-14 + 1e-18 * k * std::log(k + 1))
        << k;
    const long double m = k * 1.01L, x = k;
    ASSERT_NEAR(detail::deviance(k, k * 1.01), static_cast<double>(x * std::log(x / m) + m - x),
                1e-11 * k);
  }
}

// A call's numbers never overlap the next call's: each element has a block.
TEST(RandomCalls, SuccessiveCallsShareNoBlocks) {
  random::seed(4);
  random::gamma(2, 1, {10});
  EXPECT_EQ(random::state().offset, 10u);
  random::choice(3, {10}, {.p = {.5, .25, .25}});
  EXPECT_EQ(random::state().offset, 15u);
  random::multinomial(9, {.5, .5}, {10});
  EXPECT_EQ(random::state().offset, 35u);
}

TEST(RandomCalls, BadParametersAreErrorsThatNameThem) {
  constexpr double kNan = NAN, kInf = std::numeric_limits<double>::infinity();
  const auto text = [](auto f) { return message_of<ValueError>(f); };
  EXPECT_THAT(text([] { random::exponential(-1, {2}); }),
              HasSubstr("exponential: expected scale from 0 to 1e300, got -1 (at "));
  EXPECT_THAT(text([] { random::gamma(kNan, 1, {2}); }), HasSubstr("gamma: expected shape"));
  EXPECT_THAT(text([] { random::gamma(1, kInf, {2}); }), HasSubstr("gamma: expected scale"));
  EXPECT_THAT(text([] { random::beta(0, 1, {2}); }), HasSubstr("beta: expected a above 0"));
  EXPECT_THAT(text([] { random::poisson(-.5, {2}); }), HasSubstr("got -0.5"));
  EXPECT_THAT(text([] { random::poisson(1e30, {2}); }), HasSubstr("poisson: expected lam"));
  EXPECT_THAT(text([] { random::laplace(0, -1, {2}); }), HasSubstr("laplace: expected loc"));
  EXPECT_THAT(text([] { random::binomial(-1, .5, {2}); }), HasSubstr("binomial: expected n"));
  EXPECT_THAT(text([] { random::binomial(1, kNan, {2}); }), HasSubstr("binomial: expected a prob"));
  EXPECT_THAT(text([] { random::truncated_normal(1, 0, 0, 1, {2}); }), HasSubstr("lower <= upper"));
  EXPECT_THAT(text([] { random::truncated_normal(0, 1, 2, 0, {2}); }), HasSubstr("std 0"));
  EXPECT_THAT(text([] { random::truncated_normal(0, 1, 0, -1, {2}); }), HasSubstr("std -1"));
  EXPECT_THAT(text([] { random::truncated_normal(.999, .9999, 0, 1, {2}, bf16); }),
              HasSubstr("bounds with a number of dtype bf16"));
  EXPECT_THROW(random::poisson(300, {2}, u8), DTypeError);
  EXPECT_THROW(random::gamma(1, 1, {2}, i32), DTypeError);
  EXPECT_THROW(random::gamma(ones({3}), 1, {2}), ShapeError);
  EXPECT_THAT(message_of<ShapeError>([] { random::beta(ones({3}), ones({2})); }),
              StartsWith("beta: parameters cpu(0) (3,) f32, cpu(0) (2,) f32: operands could not"));
}

TEST(RandomCalls, BadElementsOfTensorsAreErrorsThatNameThem) {
  for (Context c : contexts()) {
    const Tensor bad = array({1., 2., -3.}).as_in_context(c);
    const std::string text = message_of<ValueError>([&] {
      random::gamma(bad, 1).wait_to_read();
      wait_all();
    });
    EXPECT_THAT(text, StartsWith("gamma: shape -3 at element 2; expected numbers from 0 to 1e300"))
        << c;
    EXPECT_THAT(message_of<ValueError>([&] {
                  random::beta(ones({3}, c), bad).wait_to_read();
                  wait_all();
                }),
                HasSubstr("beta: b -3 at element 2"));
  }
}

TEST(RandomCalls, TensorsOfOtherContextsAreRefused) {
  const std::vector<Context> all = distinct_contexts();
  EXPECT_THAT(
      message_of<ContextMismatch>([&] { random::gamma(ones({2}, all[0]), ones({2}, all[1])); }),
      HasSubstr("as_in_context"));
  EXPECT_THROW(random::poisson(ones({2}, all[0]), {2}, all[1]), ContextMismatch);
}

TEST(RandomCalls, ChoicesHaveTheirProbabilities) {
  for (Context c : kernel_contexts()) {
    random::seed(9);
    std::vector<int> counts(4);
    for (const double v : values(random::choice(4, {40000}, {.p = {.1, .2, 0, .7}}, c)))
      ++counts[static_cast<size_t>(v)];
    EXPECT_NEAR(counts[0], 4000, 250);
    EXPECT_NEAR(counts[1], 8000, 350);
    EXPECT_EQ(counts[2], 0);
    const Tensor entries = random::choice(arange(12, c).reshape({4, 3}), {2, 5});
    EXPECT_EQ(entries.shape(), Shape({2, 5, 3}));
  }
  EXPECT_EQ(random::choice(5, {2}, {}, i32).dtype(), i32);
  EXPECT_EQ(random::choice(0, {0}).size(), 0);
}

TEST(RandomCalls, ChoicesWithoutReplacementDiffer) {
  random::seed(12);
  for (const int64_t count : {1, 10, 900, 1000}) {
    const std::vector<double> v = values(random::choice(1000, {count}, {.replace = false}));
    EXPECT_EQ(std::set<double>(v.begin(), v.end()).size(), v.size());
    EXPECT_LT(*std::max_element(v.begin(), v.end()), 1000);
  }
  EXPECT_EQ(random::choice(int64_t{1} << 40, {3}, {.replace = false}).size(), 3);
  // The first of two without replacement has the probabilities, the second what they leave.
  std::vector<int> first(3), both(3);
  for (int i = 0; i < 4000; ++i) {
    const auto v = values(random::choice(3, {2}, {.replace = false, .p = {.6, .3, .1}}));
    EXPECT_NE(v[0], v[1]);
    ++first[static_cast<size_t>(v[0])];
    for (const double each : v) ++both[static_cast<size_t>(each)];
  }
  EXPECT_NEAR(first[0], 2400, 130);
  EXPECT_NEAR(first[2], 400, 80);
  EXPECT_NEAR(both[2], 4000 * (.1 + .6 * .1 / .4 + .3 * .1 / .7), 120);
}

TEST(RandomCalls, EachPermutationIsEquallyLikely) {
  random::seed(14);
  std::vector<int> counts(27), few(9);
  for (int i = 0; i < 6000; ++i) {
    const auto v = random::permutation(3).to_vector<int64_t>();
    ++counts[static_cast<size_t>(v[0] * 9 + v[1] * 3 + v[2])];
    const auto w = random::choice(3, {2}, {.replace = false}).to_vector<int64_t>();
    ++few[static_cast<size_t>(w[0] * 3 + w[1])];
  }
  for (const int n : counts) EXPECT_TRUE(n == 0 || std::abs(n - 1000) < 120) << n;
  for (const int n : few) EXPECT_TRUE(n == 0 || std::abs(n - 1000) < 120) << n;
}

TEST(RandomCalls, BadChoicesAreErrors) {
  const auto text = [](int64_t n, int64_t count, random::ChoiceOptions how) {
    return message_of<ValueError>([&] { random::choice(n, {count}, how); });
  };
  EXPECT_THAT(text(0, 1, {}), HasSubstr("choice: expected n > 0"));
  EXPECT_THAT(text(3, 4, {.replace = false}), HasSubstr("4 entries of 3"));
  EXPECT_THAT(text(3, 1, {.p = {.5, .5}}), HasSubstr("2 probabilities for 3 entries; expected 3"));
  EXPECT_THAT(text(2, 1, {.p = {.5, .6}}), HasSubstr("sum to 1.1"));
  EXPECT_THAT(text(2, 1, {.p = {1.5, -.5}}), HasSubstr("probability 0 is 1.5"));
  EXPECT_THAT(text(2, 2, {.replace = false, .p = {1, 0}}), HasSubstr("only 1"));
  EXPECT_THROW(random::choice(ones({}), {1}), ShapeError);
  EXPECT_THROW(random::choice(3, {1}, {}, f32), DTypeError);
}

TEST(RandomCalls, MultinomialRowsSumToN) {
  for (Context c : kernel_contexts()) {
    random::seed(16);
    const std::vector<double> p{.1, .25, .05, .6};
    const Tensor rows = random::multinomial(200, p, {50, 40}, c);
    EXPECT_EQ(rows.shape(), Shape({50, 40, 4}));
    const std::vector<double> v = values(rows);
    std::vector<double> mean(4), square(4);
    for (size_t i = 0; i < v.size(); i += 4) {
      EXPECT_EQ(v[i] + v[i + 1] + v[i + 2] + v[i + 3], 200);
      for (size_t k = 0; k < 4; ++k) {
        mean[k] += v[i + k] / 2000;
        square[k] += v[i + k] * v[i + k] / 2000;
      }
    }
    for (size_t k = 0; k < 4; ++k) {
      const double variance = 200 * p[k] * (1 - p[k]);
      EXPECT_NEAR(mean[k], 200 * p[k], 4 * std::sqrt(variance / 2000));
      EXPECT_NEAR(square[k] - mean[k] * mean[k], variance, .15 * variance);
    }
  }
  EXPECT_EQ(values(random::multinomial(7, {0, 1, 0})), (std::vector<double>{0, 7, 0}));
  EXPECT_THAT(message_of<ValueError>([] {
                random::multinomial(7, {.9, .9, 0});
              }),
              HasSubstr("sum to 1.8"));
  EXPECT_THROW(random::multinomial(7, {}), ValueError);
  EXPECT_THROW(random::multinomial(300, {1}, {}, u8), DTypeError);
}

}  // namespace
}  // namespace locus::test
