// Places in sorted bins, and counts: edges, NaN, dtypes, orders of sums, errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <locus/core/autograd.h>
#include <locus/core/error.h>
#include <locus/devices/cpu.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include <locus/ops/search.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Numbers = std::vector<int64_t>;
using Reals = std::vector<double>;

Numbers numbers(const Tensor& x) { return x.to_vector<int64_t>(); }

TEST(Searchsorted, FindsBothSidesOfEqualElements) {
  for (Context c : contexts()) {
    const Tensor bins = array({1, 2, 2, 2, 5}, c), x = array({{0, 1, 2}, {3, 5, 6}}, c);
    EXPECT_EQ(numbers(searchsorted(bins, x)), (Numbers{0, 0, 1, 4, 4, 5}));
    EXPECT_EQ(searchsorted(bins, x).shape(), x.shape());
    EXPECT_EQ(numbers(searchsorted(bins, x, {.side = Side::right})), (Numbers{0, 1, 4, 4, 5, 5}));
    EXPECT_EQ(numbers(searchsorted(bins, x, Side::right)), (Numbers{0, 1, 4, 4, 5, 5}));
    EXPECT_EQ(searchsorted(bins, 2.5).item<int64_t>(), 4);
    EXPECT_EQ(numbers(searchsorted(zeros({0}, {c}), x)), Numbers(6, 0));
  }
}

TEST(Searchsorted, NaNLiesAboveAll) {
  for (Context c : contexts()) {
    const Tensor bins = array({-1.0, kInfinity, kNan, kNan}, c);
    const Tensor x = array({kNan, kInfinity, -kInfinity, 0.0}, c);
    EXPECT_EQ(numbers(searchsorted(bins, x)), (Numbers{2, 1, 0, 1}));
    EXPECT_EQ(numbers(searchsorted(bins, x, {.side = Side::right})), (Numbers{4, 2, 0, 1}));
  }
}

TEST(Searchsorted, PromotesBothSides) {
  for (Context c : contexts()) {
    const int64_t big = int64_t{1} << 53;
    const Tensor bins = array(std::vector<int64_t>{big, big + 1}, {c, i64});
    EXPECT_EQ(searchsorted(bins, bins[1]).item<int64_t>(), 1);
    EXPECT_EQ(numbers(searchsorted(array({1, 2, 3}, c), array({1.5, 3.5}, {c, f16}))),
              (Numbers{1, 3}));
  }
}

TEST(Searchsorted, ReadsUnsortedBinsThroughASorter) {
  for (Context c : contexts()) {
    const Tensor bins = array({30, 10, 20}, c), sorter = array({1, 2, 0}, c);
    EXPECT_EQ(numbers(searchsorted(bins, array({10, 25}, c), {.sorter = sorter})), (Numbers{0, 2}));
    EXPECT_THROW(searchsorted(bins, bins, {.sorter = sorter.astype(f32)}), DTypeError);
    EXPECT_THROW(searchsorted(bins, bins, {.sorter = array({0, 1}, c)}), ShapeError);
  }
}

TEST(Searchsorted, AgreesWithALinearSearchAtEveryLength) {
  for (Context c : contexts()) {
    random::seed(3);
    for (int64_t n = 0; n < 40; ++n) {
      const Tensor bins = floor(arange(0, static_cast<double>(n), 1, {c, i64}) / 3);
      const Tensor x = random::randint(-1, 15, {33}, {c, i32});
      const Tensor left = sum(expand_dims(x, 1) > bins, 1);
      EXPECT_EQ(numbers(searchsorted(bins, x)), numbers(left)) << c << ' ' << n;
    }
  }
}

TEST(Digitize, TakesBinsOfEitherOrder) {
  for (Context c : contexts()) {
    const Tensor x = array({0.0, 1.0, 2.5, 3.0, kNan}, c), up = array({1.0, 2.0, 3.0}, c);
    EXPECT_EQ(numbers(digitize(x, up)), (Numbers{0, 1, 2, 3, 3}));
    EXPECT_EQ(numbers(digitize(x, up, {.right = true})), (Numbers{0, 0, 2, 2, 3}));
    const Tensor down = array({3.0, 2.0, 1.0}, c);
    EXPECT_EQ(numbers(digitize(x, down)), (Numbers{3, 2, 1, 0, 0}));
    EXPECT_EQ(numbers(digitize(x, down, {.right = true})), (Numbers{3, 3, 1, 1, 0}));
    EXPECT_EQ(numbers(digitize(x, array({2.0, 2.0}, c))), (Numbers{0, 0, 2, 2, 2}));
    const std::string text = message_of<ValueError>([&] {
      digitize(x, array({1.0, 3.0, 2.0}, c));
    });
    EXPECT_NE(text.find("digitize: bins"), std::string::npos) << text;
  }
}

TEST(Bincount, CountsUpToTheLargest) {
  for (Context c : contexts()) {
    for (DType d : {i64, i32, u8, i8})
      EXPECT_EQ(numbers(bincount(array({3, 1, 1, 0}, c).astype(d))), (Numbers{1, 2, 0, 1}));
    EXPECT_EQ(numbers(bincount(array({1, 0, 1}, c).astype(bool_))), (Numbers{1, 2}));
    EXPECT_EQ(numbers(bincount(array({1}, c), {.minlength = 4})), (Numbers{0, 1, 0, 0}));
    EXPECT_EQ(numbers(bincount(zeros({0}, {c, i32}), {.minlength = 2})), (Numbers{0, 0}));
  }
}

TEST(Bincount, CountsMillionsInFewAndInManyBins) {
  for (Context c : contexts()) {
    constexpr int64_t kLength = 1'000'003;
    for (int64_t bins : {1, 3, 1000, 8192, 8193, 500'000}) {
      const Tensor x = arange(0, kLength, 1, {c, i64}) % bins;
      const Numbers got = numbers(bincount(x));
      ASSERT_EQ(static_cast<int64_t>(got.size()), bins);
      for (int64_t b = 0; b < bins; ++b)
        ASSERT_EQ(got[static_cast<size_t>(b)], kLength / bins + (b < kLength % bins)) << bins;
    }
  }
}

TEST(Bincount, WeightsGiveF64AndRepeatBitByBit) {
  for (Context c : contexts()) {
    const Tensor x = array({0, 2, 0}, c);
    for (DType d : {f32, f16, i32, bool_})
      EXPECT_EQ(bincount(x, {.weights = ones({3}, {c, d})}).dtype(), f64);
    EXPECT_EQ(values(bincount(x, {.weights = array({.5, 2.0, .25}, c)})), (Reals{.75, 0, 2}));
    EXPECT_EQ(bincount(zeros({0}, {c, i64}), {.weights = zeros({0}, {c, f32})}).dtype(), f64);
    random::seed(5);
    for (int64_t bins : {3, 50'000}) {
      const Tensor many = random::randint(0, bins, {200'000}, {c, i64});
      const Tensor w = random::normal(0, 1, {200'000}, {c, f64});
      const Reals once = values(bincount(many, {.weights = w}));
      EXPECT_EQ(once, values(bincount(many, {.weights = w})));
      const Numbers ids = numbers(many);
      const Reals of = values(w);
      Reals sums(once.size());
      for (size_t i = 0; i < ids.size(); ++i) sums[static_cast<size_t>(ids[i])] += of[i];
      for (size_t i = 0; i < sums.size(); ++i) ASSERT_NEAR(once[i], sums[i], 1e-10);
    }
  }
}

// Runs of equal integers that are short, long, and longer than what one warp of a GPU adds.
TEST(Bincount, AddsRunsOfAllLengths) {
  for (Context c : contexts()) {
    for (const int64_t n : {1, 512, 513, 9000}) {
      const Tensor i = arange(0, n, 1, {c, i64});
      for (const Tensor& x : {i, i / 7, i / 700, i * 0, where(i < n / 2, 3, i)}) {
        const Tensor ids = x.astype(i64);
        const Numbers each = numbers(ids);
        const Tensor w = i % 10;
        const Numbers weights = numbers(w);
        Reals expected(static_cast<size_t>(*std::ranges::max_element(each)) + 1);
        for (size_t k = 0; k < each.size(); ++k)
          expected[static_cast<size_t>(each[k])] += static_cast<double>(weights[k]);
        EXPECT_EQ(values(bincount(ids, {.weights = w})), expected) << n;
        EXPECT_EQ(values(bincount(flip(ids, 0), {.weights = flip(w, 0)})), expected) << n;
      }
    }
  }
}

TEST(Bincount, RefusesNegativesFloatsAndOtherShapes) {
  for (Context c : contexts()) {
    const std::string text = message_of<ValueError>([&] { bincount(array({2, -3}, c)); });
    EXPECT_NE(text.find("-3"), std::string::npos) << text;
    EXPECT_THROW(bincount(ones({2}, {c, f32})), DTypeError);
    EXPECT_THROW(bincount(array({{1}}, c)), ShapeError);
    EXPECT_THROW(bincount(array({1}, c), {.minlength = -1}), ValueError);
    EXPECT_THROW(bincount(array({1}, c), {.weights = ones({2}, {c})}), ShapeError);
  }
}

TEST(Histogram, ClosesTheLastBinOnBothSides) {
  for (Context c : contexts()) {
    const Tensor x = array({0.0, 1.0, 2.0, 3.0, 3.0}, {c, f64});
    const auto [counts, edges] = histogram(x, 3);
    EXPECT_EQ(counts.dtype(), i64);
    EXPECT_EQ(numbers(counts), (Numbers{1, 1, 3}));
    EXPECT_EQ(values(edges), (Reals{0, 1, 2, 3}));
    EXPECT_EQ(numbers(histogram(x, array({1.0, 1.0, 2.0, 3.0}, c)).first), (Numbers{0, 1, 3}));
    EXPECT_EQ(numbers(histogram(x, array({0, 3, 3}, c)).first), (Numbers{3, 2}));
    EXPECT_EQ(histogram(x, array({1.0}, c)).first.shape(), Shape{0});
  }
}

// The product (x - first) / width * bins of these elements rounds to another bin.
TEST(Histogram, AssignsElementsOnEdgesByTheEdgesThemselves) {
  for (Context c : contexts())
    for (DType d : {f64, f32})
      for (int64_t bins : {7, 10, 49, 100, 1000}) {
        const auto range = std::pair{.1, 1.3};
        const Tensor edges = histogram(zeros({0}, {c, d}), bins, {.range = range}).second;
        EXPECT_EQ(edges.dtype(), d);
        Numbers wanted(static_cast<size_t>(bins), 1);
        wanted.back() = 2;
        EXPECT_EQ(numbers(histogram(edges, bins, {.range = range}).first), wanted) << bins;
      }
}

TEST(Histogram, LeavesOutNaNAndWhatIsOutsideOfARange) {
  for (Context c : contexts()) {
    const Tensor x = array({kNan, -1.0, 0.0, .5, 1.0, 2.0, kInfinity}, c);
    EXPECT_EQ(numbers(histogram(x, 2, {.range = std::pair{0., 1.}}).first), (Numbers{1, 2}));
    EXPECT_EQ(numbers(histogram(x, array({0.0, 1.0}, c)).first), Numbers{3});
    EXPECT_THROW(histogram(x), ValueError);
    EXPECT_EQ(values(histogram(full({2}, 5, {c, i32}), 1).second), (Reals{4.5, 5.5}));
    EXPECT_EQ(values(histogram(zeros({0}, {c}), 2).second), (Reals{0, .5, 1}));
    const auto edges = histogram(full({1}, .555718, {c, f32}), 3).second.to_vector<float>();
    EXPECT_EQ(edges, (std::vector<float>{.055718005F, .38905132F, .72238463F, 1.055718F}));
  }
}

TEST(Histogram, DtypesOfEdgesAndWeights) {
  for (Context c : contexts()) {
    const Tensor x = array({0, 1, 3}, c);
    for (DType d : {f32, f16, bf16}) EXPECT_EQ(histogram(x.astype(d), 2).second.dtype(), f32);
    for (DType d : {f64, i64, u8, bool_}) EXPECT_EQ(histogram(x.astype(d), 2).second.dtype(), f64);
    for (DType d : {f64, f32, f16, bf16, i64, i8}) {
      const Tensor counts = histogram(x, 3, {.weights = array({2, 3, 4}, c).astype(d)}).first;
      EXPECT_EQ(counts.dtype(), d);
      EXPECT_EQ(values(counts), (Reals{2, 3, 4}));
    }
    const int64_t big = int64_t{1} << 53;
    const Tensor exact = array(std::vector<int64_t>{big, big + 1, big + 2}, {c, i64});
    EXPECT_EQ(numbers(histogram(exact, exact).first), (Numbers{1, 2}));
  }
}

TEST(Histogram, DensityHasIntegralOne) {
  for (Context c : contexts()) {
    const Tensor x = array({0.0, 1.0, 1.0, 4.0}, c);
    const Tensor y = histogram(x, array({0.0, 1.0, 4.0}, c), {.density = true}).first;
    EXPECT_EQ(y.dtype(), f64);
    EXPECT_EQ(values(y), (Reals{.25, .25}));
  }
}

TEST(Histogram, RefusesWrongRangesAndEdges) {
  for (Context c : contexts()) {
    const Tensor x = array({0.0, 1.0}, c);
    EXPECT_THROW(histogram(x, 0), ValueError);
    EXPECT_THROW(histogram(x, int64_t{1} << 40), ValueError);
    EXPECT_THROW(histogram(x, 2, {.range = std::pair{1., 0.}}), ValueError);
    EXPECT_THROW(histogram(x, 2, {.range = std::pair{0., kInfinity}}), ValueError);
    EXPECT_THROW(histogram(x, 2, {.weights = ones({1}, {c})}), ShapeError);
    EXPECT_THROW(histogram(x, array({0.0, 2.0, 1.0}, c)), ValueError);
    EXPECT_THROW(histogram(x, array({0.0, kNan}, c)), ValueError);
    EXPECT_THROW(histogram(x, array({0.0, 1.0}, c), {.range = std::pair{0., 1.}}), ValueError);
    EXPECT_THROW(histogram(array({1e8, 1e8 + 8}, {c, f32}), 1000), ValueError);
  }
}

TEST(Histogram, RefusesWeightsThat32BitsDoNotCount) {
  for (Context c : contexts()) {
    const Shape shape{int64_t{1} << 32};
    const Tensor x = broadcast_to(zeros({1}, {c, u8}), shape);
    const Tensor w = broadcast_to(ones({1}, {c, f32}), shape);
    const std::string text = "; expected fewer than 2^32 elements";
    for (const std::string& found :
         {message_of<ValueError>([&] { histogram(x, 4, {.weights = w}); }),
          message_of<ValueError>([&] { bincount(x, {.weights = w}); })})
      EXPECT_NE(found.find(text), std::string::npos) << found;
  }
}

TEST(Histogram, GradientsOfWeightsAreThoseOfTheirBins) {
  for (Context c : contexts()) {
    const Tensor x = array({0.0, 9.0, 2.0, 1.5}, c), ids = array({0, 1, 2, 1}, c);
    const Tensor w = array({1.0, 2.0, 3.0, 4.0}, {c, f32}), head = array({5.0, 6.0}, {c, f32});
    w.attach_grad();
    Tensor y;
    {
      autograd::Record record;
      y = sum(head * histogram(x, 2, {.range = std::pair{0., 2.}, .weights = w}).first);
    }
    y.backward();
    EXPECT_EQ(values(w.grad()), (Reals{5, 0, 6, 6}));
    {
      autograd::Record record;
      y = sum(array({1.0, 2.0, 3.0}, {c, f64}) * bincount(ids, {.weights = w}));
    }
    y.backward();
    EXPECT_EQ(values(w.grad()), (Reals{1, 2, 3, 2}));
  }
}

TEST(Histogram, CountsTheSameOnOneThread) {
  random::seed(9);
  const Tensor x = random::normal(0, 1, {300'000}, {cpu(0), f32});
  const Numbers together = numbers(histogram(x, 100).first);
  const int threads = num_threads();
  set_num_threads(1);
  const Numbers alone = numbers(histogram(x, 100).first);
  set_num_threads(threads);
  EXPECT_EQ(together, alone);
}

TEST(Search, RefusesMixedContexts) {
  const std::vector<Context> all = distinct_contexts();
  const Tensor a = array({1, 2}, all[0]), b = array({1, 2}, all[1]);
  for (const std::string& text :
       {message_of<ContextMismatch>([&] { searchsorted(a, b); }),
        message_of<ContextMismatch>([&] { digitize(a, b); }),
        message_of<ContextMismatch>([&] { bincount(a, {.weights = b}); }),
        message_of<ContextMismatch>([&] { histogram(a, b); }),
        message_of<ContextMismatch>([&] { histogram(a, 2, {.weights = b}); })})
    EXPECT_NE(text.find("as_in_context"), std::string::npos) << text;
}

}  // namespace
}  // namespace locus::test
