// Random numbers against their distributions: Kolmogorov and Smirnov's test, means and variances.
// The seeds are fixed, so the tests repeat.
#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include <locus/core/capture.h>
#include <locus/ops/create.h>
#include <locus/ops/random.h>
#include "tests/random/distribution_functions.h"
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int64_t kCount = 20000;

// The end of the numbers that round to x.
Long edge(Long x, DType d) {
  if (is_integer(d)) return x;
  const int digits = d == f64 ? 53 : d == f32 ? 24 : d == f16 ? 11 : 8;
  const int least = d == f64 ? -1074 : d == f32 ? -149 : d == f16 ? -24 : -133;
  int exponent = least;
  if (x != 0) std::frexp(x, &exponent);
  return x + std::ldexp(1.L, std::max(exponent - digits, least) - 1);
}

using Cdf = std::function<Long(Long)>;

// The largest distance of the numbers' distribution from `cdf`, times the root of their number.
// Chance to be above 1.95: 0.001.
double distance(const Tensor& x, const Cdf& cdf) {
  std::vector<double> v = values(x);
  std::sort(v.begin(), v.end());
  Long most = 0;
  const auto n = static_cast<Long>(v.size());
  for (size_t i = 0; i < v.size(); ++i)
    if (i + 1 == v.size() || v[i] != v[i + 1])
      most = std::max(most, std::abs((static_cast<Long>(i) + 1) / n - cdf(edge(v[i], x.dtype()))));
  return static_cast<double>(most * std::sqrt(n));
}

struct Case {
  std::string name;
  std::function<Tensor(TensorOptions)> draw;
  Cdf cdf;
  std::vector<DType> dtypes = {f32, f64, f16, bf16};
};
void expect_distributions(const std::vector<Case>& cases) {
  for (Context c : kernel_contexts())
    for (const Case& each : cases)
      for (DType d : each.dtypes) {
        random::seed(11);
        EXPECT_LT(distance(each.draw({c, d}), each.cdf), 1.95)
            << each.name << " " << name(d) << " on " << c;
      }
}

TEST(RandomDistributions, ContinuousNumbersFollowTheirDistribution) {
  std::vector<Case> all{
      {"uniform",
       [](auto o) { return random::uniform(0, 1, {kCount}, o); },
       [](Long x) { return std::clamp(x, 0.L, 1.L); },
       {f32, f64}},
      {"normal", [](auto o) { return random::normal(1, 2, {kCount}, o); },
       [](Long x) { return normal_cdf((x - 1) / 2); }},
      {"exponential", [](auto o) { return random::exponential(3, {kCount}, o); },
       [](Long x) { return -std::expm1(-x / 3); }},
      {"laplace", [](auto o) { return random::laplace(-1, 2, {kCount}, o); },
       [](Long x) {
         const Long z = (x + 1) / 2;
         return z < 0 ? std::exp(z) / 2 : 1 - std::exp(-z) / 2;
       }},
  };
  for (const double shape : {1e-3, .1, .5, 1., 2.5, 30.})
    all.push_back({"gamma " + std::to_string(shape),
                   [=](auto o) { return random::gamma(shape, 1.5, {kCount}, o); },
                   [=](Long x) { return gamma_cdf(shape, x / 1.5L); }});
  for (const auto& [a, b] : {std::pair{.1, .1}, {.5, 2.}, {2., 3.}, {1., 1.}, {50., .2}})
    all.push_back({"beta " + std::to_string(a),
                   [=](auto o) { return random::beta(a, b, {kCount}, o); },
                   [=](Long x) { return beta_cdf(a, b, x); }});
  expect_distributions(all);
}

TEST(RandomDistributions, TruncatedNormalsFollowTheirDistribution) {
  std::vector<Case> all;
  for (const auto& [lower, upper] : {std::pair{-kInf, kInf},
                                     {-2., 2.},
                                     {0., kInf},
                                     {-.5, .75},
                                     {3., 3.25},
                                     {4., kInf},
                                     {-kInf, -3.},
                                     {-6., -1.},
                                     {9., 99.}}) {
    // From the nearer tail: differences of small chances.
    const auto chance = [](Long from, Long to) {
      return from > 0 ? normal_cdf(-from) - normal_cdf(-to) : normal_cdf(to) - normal_cdf(from);
    };
    all.push_back(
        {"truncated_normal " + std::to_string(lower),
         [=](auto o) { return random::truncated_normal(lower, upper, 0, 1, {kCount}, o); },
         [=](Long x) { return chance(lower, std::min<Long>(x, upper)) / chance(lower, upper); }});
  }
  expect_distributions(all);
  for (DType d : {f32, f64, f16, bf16})
    for (const double v : values(random::truncated_normal(.3, .7, .1, 2, {1000}, d))) {
      EXPECT_GE(v, .3);
      EXPECT_LE(v, .7);
    }
  EXPECT_EQ(values(random::truncated_normal(-1, 2, .5, 0, {3})), std::vector<double>(3, .5));
  for (const double v : values(random::truncated_normal(1e9, kInf, 0, 1, {100}, f64)))
    EXPECT_NEAR(v, 1e9, 1e-6);
}

TEST(RandomDistributions, CountsFollowTheirDistribution) {
  std::vector<Case> all;
  for (const double lam : {1e-3, .5, 3., 9.9, 10., 25., 100., 1000.})
    all.push_back({"poisson " + std::to_string(lam),
                   [=](auto o) { return random::poisson(lam, {kCount}, o); },
                   [=](Long k) { return 1 - gamma_cdf(std::floor(k) + 1, lam); },
                   {i64, i32, f32, f64}});
  for (const auto& [n, p] : {std::pair{1, .3}, {20, .4}, {100, .09}, {100, .5}, {1000, .97}})
    all.push_back({"binomial " + std::to_string(n),
                   [=](auto o) { return random::binomial(n, p, {kCount}, o); },
                   [=](Long x) {
                     const Long k = std::floor(x);
                     return k >= n ? 1 : beta_cdf(n - k, k + 1, 1 - Long{p});
                   },
                   {i64, i32, f32, f64}});
  expect_distributions(all);
}

// The mean and the variance of many numbers.
void expect_moments(const Tensor& x, double mean, double variance) {
  const std::vector<double> v = values(x);
  const double n = static_cast<double>(v.size());
  const double m = std::accumulate(v.begin(), v.end(), 0.) / n;
  double m2 = 0;
  for (const double each : v) m2 += (each - m) * (each - m) / n;
  EXPECT_NEAR(m, mean, 4 * std::sqrt(variance / n));
  EXPECT_NEAR(m2, variance, .05 * variance);
}

TEST(RandomDistributions, LargeParametersKeepMeanAndVariance) {
  for (Context c : kernel_contexts()) {
    random::seed(5);
    expect_moments(random::gamma(1e6, 2, {kCount}, {c, f64}), 2e6, 4e6);
    expect_moments(random::gamma(1e15, 1, {kCount}, {c, f64}), 1e15, 1e15);
    expect_moments(random::beta(1e6, 3e6, {kCount}, {c, f64}), .25, .1875 / (4e6 + 1));
    for (const double lam : {1e6, 1e9, 1e12, 1e15})
      expect_moments(random::poisson(lam, {kCount}, {c, i64}), lam, lam);
    expect_moments(random::binomial(int64_t{1} << 50, .25, {kCount}, {c, i64}), 0x1p48, 0x3p46);
    expect_moments(random::binomial(int64_t{1} << 50, 0x1p-48, {kCount}, {c, i64}), 4, 4);
  }
}

TEST(RandomDistributions, ParametersAtTheirEndsGiveConstants) {
  for (Context c : contexts()) {
    const std::vector<double> none(100, 0.);
    EXPECT_EQ(values(random::exponential(0, {100}, c)), none);
    EXPECT_EQ(values(random::gamma(0, 2, {100}, c)), none);
    EXPECT_EQ(values(random::gamma(2, 0, {100}, c)), none);
    EXPECT_EQ(values(random::poisson(0, {100}, c)), none);
    EXPECT_EQ(values(random::binomial(9, 0, {100}, c)), none);
    EXPECT_EQ(values(random::binomial(9, 1, {100}, c)), std::vector<double>(100, 9.));
    EXPECT_EQ(random::gamma(2, 1, {0, 3}, c).shape(), Shape({0, 3}));
  }
}

TEST(RandomDistributions, TensorsOfParametersBroadcast) {
  for (Context c : contexts()) {
    random::seed(3);
    const Tensor shape = array({{.5f}, {20.f}}).as_in_context(c);
    const Tensor scale = array({1., 10., 100.}, f64).as_in_context(c);
    const Tensor all = random::gamma(shape, scale, {4000, 2, 3});
    EXPECT_EQ(all.context(), c);
    EXPECT_EQ(all.dtype(), f64);
    for (int i = 0; i < 2; ++i)
      for (int k = 0; k < 3; ++k) {
        const double a = i == 0 ? .5 : 20, s = std::pow(10, k);
        EXPECT_LT(distance(all(Slice(), i, k), [=](Long x) { return gamma_cdf(a, x / s); }), 1.95);
      }
    EXPECT_EQ(random::gamma(shape, scale).shape(), Shape({2, 3}));
    EXPECT_EQ(random::gamma(shape, 2).shape(), Shape({2, 1}));
    EXPECT_EQ(random::gamma(2, shape).dtype(), f32);
    EXPECT_EQ(random::beta(shape, 1, f16).dtype(), f16);
    EXPECT_EQ(random::poisson(shape).dtype(), i64);
    const Tensor waits = random::exponential(array({1., 7.}).as_in_context(c), {4000, 2});
    EXPECT_LT(distance(waits(Slice(), 1), [](Long x) { return -std::expm1(-x / 7); }), 1.95);
  }
}

// A tensor of equal numbers gives the numbers that the number gives.
TEST(RandomDistributions, ATensorOfOneNumberIsTheNumber) {
  for (Context c : contexts()) {
    const auto same = [c](auto draw, double v) {
      random::seed(21);
      const std::vector<double> by_number = values(draw(Operand(v)));
      random::seed(21);
      const Tensor each = full({500}, v, {c, f64});
      EXPECT_EQ(values(draw(Operand(each))), by_number) << v;
    };
    for (const double v : {.2, 3., 40.}) {
      same([c](const Operand& x) { return random::gamma(x, 2, {500}, {c, f32}); }, v);
      same([c](const Operand& x) { return random::beta(2, x, {500}, {c, f64}); }, v);
      same([c](const Operand& x) { return random::poisson(x, {500}, c); }, v);
    }
  }
}

}  // namespace
}  // namespace locus::test
