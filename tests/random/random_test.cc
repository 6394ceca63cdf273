#include <locus/ops/random.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include <locus/core/op.h>
#include <locus/ops/create.h>
#include <locus/ops/random/random_kernel.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::ElementsAre;

// Random123's known answers (kat_vectors, philox4x32 10).
TEST(Random, PhiloxGivesTheKnownAnswers) {
  EXPECT_THAT(philox({{0, 0, 0, 0}}, 0, 0).word,
              ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  EXPECT_THAT(philox({{~0u, ~0u, ~0u, ~0u}}, ~0u, ~0u).word,
              ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  EXPECT_THAT(
      philox({{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}}, 0xa4093822u, 0x299f31d0u).word,
      ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
}

TEST(Random, LogarithmAndCircleAreExactToAnUlp) {
  for (int i = 1; i <= 100000; ++i) {
    const double u = i / 100000.0;
    ASSERT_NEAR(detail::log_exact(u), std::log(u), 2.3e-16 * std::abs(std::log(u))) << u;
    if (i == 100000) break;
    double s, c;
    detail::sincos_turn(u, s, c);
    ASSERT_NEAR(s, std::sin(2 * M_PI * u), 1e-15) << u;
    ASSERT_NEAR(c, std::cos(2 * M_PI * u), 1e-15) << u;
  }
  EXPECT_NEAR(detail::log_exact(0x1p-53), std::log(0x1p-53), 1e-14);
}

// Everything a seed gives on one context.
std::vector<std::vector<double>> draws(Context c) {
  random::seed(7);
  std::vector<std::vector<double>> all;
  for (DType d : {f32, f64, f16, bf16}) {
    all.push_back(values(random::uniform(-1, 3, {1003}, {c, d})));
    all.push_back(values(random::normal(1, 2, {5, 201}, {c, d})));
  }
  for (DType d : {i32, i64, u8, i8}) all.push_back(values(random::randint(3, 100, {1001}, {c, d})));
  for (DType d : {f32, bool_, i64, f16})
    all.push_back(values(random::bernoulli(.3, {999}, {c, d})));
  all.push_back(values(random::permutation(100, c)));
  return all;
}

TEST(Random, TheSameSeedGivesTheSameBitsEverywhere) {
  const auto host = draws(cpu(0));
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    EXPECT_EQ(draws(c), host);
  }
}

// Philox (seed 7, offset 0) by hand: the numbers must not change between versions.
TEST(Random, UniformIsTheFormula) {
  random::seed(7);
  const std::vector<float> v = random::uniform(0, 1, {6}).to_vector<float>();
  for (uint32_t i = 0; i < 6; ++i) {
    const PhiloxBlock b = philox({{i / 4, 0, 0, 0}}, 7, 0);
    EXPECT_EQ(v[i], static_cast<float>(b.word[i % 4] >> 8) * 0x1p-24f);
  }
}

// Over the whole range of i64 a number is two raw words, which must be equal on device and host for
// any seed and place.
TEST(Random, TheRawWordsAreTheSameEverywhere) {
  static const Op& randint = get_op("randint");
  RandomAttrs a;
  a.low = INT64_MIN;
  a.range = UINT64_MAX;
  a.meta = make_meta(i64, Shape{20000});
  for (PhiloxKey key : {PhiloxKey{0, 0}, PhiloxKey{0x13198a2e03707344u, 0x85a308d3243f6a88u},
                        PhiloxKey{~uint64_t{0}, 0xffffff00u}, PhiloxKey{7, ~uint64_t{0} - 100}}) {
    a.key.value = key;
    const std::vector<int64_t> host = invoke_on(cpu(), randint, a).to_vector<int64_t>();
    for (Context c : contexts()) EXPECT_EQ(invoke_on(c, randint, a).to_vector<int64_t>(), host);
    for (size_t i : {0u, 1u, 77u}) {
      const uint64_t word = detail::pair(philox(key, i / 2), static_cast<int>(i % 2));
      EXPECT_EQ(static_cast<uint64_t>(host[i]) ^ uint64_t{1} << 63, word - (word > 0));
    }
  }
}

TEST(Random, SuccessiveDrawsDiffer) {
  random::seed(1);
  const auto a = values(random::uniform(0, 1, {8})), b = values(random::uniform(0, 1, {8}));
  EXPECT_NE(a, b);
  random::seed(1);
  EXPECT_EQ(values(random::uniform(0, 1, {8})), a);
  random::seed(2);
  EXPECT_NE(values(random::uniform(0, 1, {8})), a);
}

TEST(Random, UniformStaysBelowHigh) {
  for (DType d : {f32, f64, f16, bf16}) {
    SCOPED_TRACE(name(d));
    random::seed(3);
    const std::vector<double> v = values(random::uniform(2, 3, {100000}, d));
    EXPECT_GE(*std::min_element(v.begin(), v.end()), 2);
    EXPECT_LT(*std::max_element(v.begin(), v.end()), 3);
    EXPECT_NEAR(std::accumulate(v.begin(), v.end(), 0.) / 1e5, d == bf16 ? 2.495 : 2.5, .006);
  }
  EXPECT_EQ(values(random::uniform(2, 2, {3})), std::vector<double>(3, 2.0));
}

TEST(Random, UniformIsInNarrowIntervals) {
  for (Context c : contexts()) {
    for (DType d : {f32, f64, f16, bf16}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      random::seed(3);
      for (const auto& [low, high] : {std::pair{.7, .71}, {.99, 1.}, {-1., -.99}, {-.001, .001}}) {
        const std::vector<double> v = values(random::uniform(low, high, {5000}, {c, d}));
        EXPECT_GE(*std::min_element(v.begin(), v.end()), low);
        EXPECT_LT(*std::max_element(v.begin(), v.end()), high);
      }
    }
    EXPECT_EQ(values(random::uniform(.99609375, 1, {9}, {c, bf16})),
              std::vector<double>(9, .99609375));
    EXPECT_THAT(message_of<ValueError>([&] {
                  random::uniform(.999, 1, {2}, {c, bf16});
                }),
                testing::HasSubstr("no number of dtype bf16 is in [low, high)"));
    EXPECT_THROW(random::uniform(0, 1e5, {2}, {c, f16}), ValueError);
    EXPECT_THROW(random::normal(1e5, 1, {2}, {c, f16}), ValueError);
    EXPECT_THROW(random::normal(0, 1e39, {2}, {c, bf16}), ValueError);
  }
}

TEST(Random, NormalHasItsMoments) {
  for (DType d : {f32, f64}) {
    random::seed(5);
    const std::vector<double> v = values(random::normal(1, 2, {200000}, d));
    const double n = static_cast<double>(v.size());
    const double mean = std::accumulate(v.begin(), v.end(), 0.) / n;
    double m2 = 0, m3 = 0, m4 = 0, lag = 0;
    for (size_t i = 0; i < v.size(); ++i) {
      const double z = (v[i] - 1) / 2;
      m2 += z * z / n;
      m3 += z * z * z / n;
      m4 += z * z * z * z / n;
      if (i > 0) lag += z * (v[i - 1] - 1) / 2 / n;
    }
    EXPECT_NEAR(mean, 1, .02);
    EXPECT_NEAR(m2, 1, .02);
    EXPECT_NEAR(m3, 0, .04);
    EXPECT_NEAR(m4, 3, .1);
    EXPECT_NEAR(lag, 0, .02);
  }
}

TEST(Random, RandintCoversItsRange) {
  random::seed(11);
  std::vector<int> counts(7);
  for (int32_t i : random::randint(-3, 4, {70000}).to_vector<int32_t>()) {
    ASSERT_GE(i, -3);
    ASSERT_LT(i, 4);
    ++counts[static_cast<size_t>(i + 3)];
  }
  for (int n : counts) EXPECT_NEAR(n, 10000, 500);
  EXPECT_EQ(random::randint(0, 5, {2}).dtype(), i32);
  const auto wide = random::randint(INT64_MIN, INT64_MAX, {1000}, i64).to_vector<int64_t>();
  EXPECT_TRUE(std::any_of(wide.begin(), wide.end(), [](int64_t v) { return v < 0; }));
  EXPECT_TRUE(std::any_of(wide.begin(), wide.end(), [](int64_t v) { return v > 0; }));
}

TEST(Random, BernoulliIsItsProbability) {
  random::seed(13);
  const auto v = values(random::bernoulli(.25, {100000}));
  EXPECT_NEAR(std::accumulate(v.begin(), v.end(), 0.), 25000, 600);
  EXPECT_EQ(values(random::bernoulli(1, {1000})), std::vector<double>(1000, 1.0));
  EXPECT_EQ(values(random::bernoulli(0, {1000})), std::vector<double>(1000, 0.0));
}

TEST(Random, PermutationsHaveEveryNumberOnce) {
  random::seed(17);
  std::vector<int64_t> p = random::permutation(1000).to_vector<int64_t>();
  EXPECT_FALSE(std::is_sorted(p.begin(), p.end()));
  std::sort(p.begin(), p.end());
  for (size_t i = 0; i < p.size(); ++i) EXPECT_EQ(p[i], static_cast<int64_t>(i));
  for (Context c : contexts()) {
    std::vector<double> rows = values(random::shuffle(arange(50, c)));
    EXPECT_FALSE(std::is_sorted(rows.begin(), rows.end()));
    std::sort(rows.begin(), rows.end());
    EXPECT_EQ(rows, values(arange(50)));
  }
  EXPECT_EQ(random::permutation(0).size(), 0);
}

TEST(Random, BadBoundsAreErrors) {
  constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = NAN;
  EXPECT_THROW(random::uniform(1, 0, {2}), ValueError);
  EXPECT_THROW(random::uniform(kNan, 1, {2}), ValueError);
  EXPECT_THROW(random::uniform(0, kInf, {2}), ValueError);
  EXPECT_THROW(random::uniform(-1e308, 1e308, {2}), ValueError);
  EXPECT_THROW(random::uniform(-2e38, 2e38, {2}), ValueError);
  EXPECT_NO_THROW(random::uniform(-2e38, 2e38, {2}, f64));
  EXPECT_THROW(random::normal(0, -1, {2}), ValueError);
  EXPECT_THROW(random::normal(kNan, 1, {2}), ValueError);
  EXPECT_THROW(random::normal(0, kInf, {2}), ValueError);
  EXPECT_THROW(random::randint(3, 3, {2}), ValueError);
  EXPECT_THROW(random::randint(0, 300, {2}, u8), ValueError);
  EXPECT_THAT(message_of<ValueError>([] { random::bernoulli(-1e-9, {2}); }),
              testing::HasSubstr("got -1e-09 (at "));
  EXPECT_THROW(random::permutation(int64_t{1} << 40), OutOfMemory);
  EXPECT_THROW(random::permutation(300, u8), DTypeError);
  EXPECT_THROW(random::permutation(2050, f16), DTypeError);
  EXPECT_THROW(random::permutation(3, bool_), DTypeError);
  EXPECT_NO_THROW(random::permutation(2049, f16));
  EXPECT_NO_THROW(random::permutation(2, bool_));
  EXPECT_THROW(random::uniform(0, 1, {2}, i32), DTypeError);
  EXPECT_THROW(random::uniform(0, 1, {-2}), ShapeError);
}

}  // namespace
}  // namespace locus::test
