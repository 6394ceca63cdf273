// Sets: isin, and unique with its indices, of elements and of entries along an axis.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include <locus/core/autograd.h>
#include <locus/core/error.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include <locus/ops/search.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr UniqueOptions kAllResults{
    .return_index = true, .return_inverse = true, .return_counts = true};

using Numbers = std::vector<int64_t>;
using Reals = std::vector<double>;

Numbers numbers(const Tensor& x) { return x.to_vector<int64_t>(); }

TEST(Isin, FindsElementsOfAnyShapeAndDtype) {
  for (Context c : contexts()) {
    const Tensor x = array({{5, 1, 7}, {2, 2, 9}}, c), tests = array({{2, 9}, {-3, 5}}, c);
    for (DType d : {i64, i32, i8, f32, f64, f16}) {
      const Tensor y = isin(x, tests.astype(d));
      EXPECT_EQ(y.dtype(), bool_);
      EXPECT_EQ(y.shape(), x.shape());
      EXPECT_EQ(numbers(y), (Numbers{1, 0, 0, 1, 1, 1}));
    }
    EXPECT_EQ(numbers(isin(x, tests, {.invert = true})), (Numbers{0, 1, 1, 0, 0, 0}));
    EXPECT_EQ(numbers(isin(x, zeros({0}, {c}))), Numbers(6, 0));
    EXPECT_EQ(numbers(isin(x, array({2.5, 7.0}, c))), (Numbers{0, 0, 1, 0, 0, 0}));
  }
}

TEST(Isin, NaNEqualsNothingAndExtremeIntegersAreExact) {
  for (Context c : contexts()) {
    const Tensor x = array({kNan, 1.0, 0.0}, c), tests = array({kNan, -0.0}, c);
    EXPECT_EQ(numbers(isin(x, tests)), (Numbers{0, 0, 1}));
    EXPECT_EQ(numbers(isin(x, tests, {.invert = true})), (Numbers{1, 1, 0}));
    const int64_t most = std::numeric_limits<int64_t>::max();
    const Tensor ends = array(std::vector<int64_t>{-most - 1, most}, {c, i64});
    EXPECT_EQ(numbers(isin(array(std::vector<int64_t>{most, most - 1, 0}, {c, i64}), ends)),
              (Numbers{1, 0, 0}));
  }
}

TEST(Unique, GivesValuesIndicesInverseAndCounts) {
  for (Context c : contexts()) {
    const Tensor x = array({{3, 1, 3}, {7, 1, 3}}, c);
    const Unique u = unique(x, kAllResults);
    EXPECT_EQ(numbers(u.values), (Numbers{1, 3, 7}));
    EXPECT_EQ(numbers(u.index), (Numbers{1, 0, 3}));
    EXPECT_EQ(numbers(u.inverse), (Numbers{1, 0, 1, 2, 0, 1}));
    EXPECT_EQ(u.inverse.shape(), x.shape());
    EXPECT_EQ(numbers(u.counts), (Numbers{2, 3, 1}));
    const Unique values_alone = unique(x.T());
    EXPECT_EQ(numbers(values_alone.values), (Numbers{1, 3, 7}));
    EXPECT_FALSE(values_alone.index.defined() || values_alone.inverse.defined() ||
                 values_alone.counts.defined());
  }
}

TEST(Unique, KeepsOneNaNOrEach) {
  for (Context c : contexts()) {
    const Tensor x = array({kNan, 2.0, kNan, -0.0, 0.0}, c);
    const Unique one = unique(x, {.return_inverse = true, .return_counts = true});
    EXPECT_EQ(one.values.shape(), Shape{3});
    EXPECT_TRUE(std::isnan(one.values[2].item<double>()));
    EXPECT_EQ(numbers(one.inverse), (Numbers{2, 1, 2, 0, 0}));
    EXPECT_EQ(numbers(one.counts), (Numbers{2, 1, 2}));
    EXPECT_EQ(unique(x, {.equal_nan = false}).values.shape(), Shape{4});
  }
}

TEST(Unique, TakesEntriesAlongAnAxisInLexicographicOrder) {
  for (Context c : contexts()) {
    const Tensor x = array({{2, 1}, {1, 9}, {2, 1}, {1, 3}}, c);
    UniqueOptions o = kAllResults;
    o.axis = 0;
    const Unique u = unique(x, o);
    EXPECT_EQ(u.values.shape(), (Shape{3, 2}));
    EXPECT_EQ(numbers(u.values), (Numbers{1, 3, 1, 9, 2, 1}));
    EXPECT_EQ(numbers(u.index), (Numbers{3, 1, 0}));
    EXPECT_EQ(numbers(u.inverse), (Numbers{2, 1, 2, 0}));
    EXPECT_EQ(numbers(u.counts), (Numbers{1, 1, 2}));
    const Unique columns = unique(x.T().reshape({2, 4, 1}), {.axis = -2});
    EXPECT_EQ(columns.values.shape(), (Shape{2, 3, 1}));
    EXPECT_EQ(numbers(columns.values), (Numbers{1, 1, 2, 3, 9, 1}));
    EXPECT_THROW(unique(x, {.axis = 2}), ShapeError);
  }
}

TEST(Unique, OfNothing) {
  for (Context c : contexts()) {
    const Unique u = unique(zeros({0, 3}, {c, i32}), kAllResults);
    EXPECT_EQ(u.values.shape(), Shape{0});
    EXPECT_EQ(u.inverse.shape(), (Shape{0, 3}));
    EXPECT_EQ(u.counts.shape(), Shape{0});
    EXPECT_EQ(unique(zeros({3, 0}, {c}), {.axis = 0}).values.shape(), (Shape{1, 0}));
    EXPECT_EQ(unique(zeros({0, 3}, {c}), {.axis = 0}).values.shape(), (Shape{0, 3}));
    const Unique number = unique(full({}, 4, {c, i64}), kAllResults);
    EXPECT_EQ(numbers(number.values), Numbers{4});
    EXPECT_EQ(number.inverse.shape(), Shape{});
  }
}

TEST(Unique, AgreesWithAMapOnManyElements) {
  for (Context c : contexts()) {
    random::seed(4);
    for (DType d : {i64, i32, u8, f32}) {
      const Tensor x = random::randint(0, 250, {100'000}, {c, i64}).astype(d);
      const Unique u = unique(x, kAllResults);
      std::map<int64_t, Numbers> places;
      const Numbers v = numbers(x);
      for (size_t i = 0; i < v.size(); ++i) places[v[i]].push_back(static_cast<int64_t>(i));
      Numbers values, index, counts;
      for (const auto& [value, at] : places) {
        values.push_back(value);
        index.push_back(at.front());
        counts.push_back(static_cast<int64_t>(at.size()));
      }
      EXPECT_EQ(numbers(u.values), values);
      EXPECT_EQ(numbers(u.index), index);
      EXPECT_EQ(numbers(u.counts), counts);
      EXPECT_EQ(numbers(take(u.values, u.inverse)), v);
    }
  }
}

TEST(Unique, GradientGoesToTheFirstOfEqualElements) {
  for (Context c : contexts()) {
    const Tensor x = array({2.0, 1.0, 2.0}, {c, f32}), head = array({3.0, 5.0}, {c, f32});
    x.attach_grad();
    Tensor y;
    {
      autograd::Record record;
      y = sum(head * unique(x, kAllResults).values);
    }
    y.backward();
    EXPECT_EQ(values(x.grad()), (Reals{5, 3, 0}));
  }
}

}  // namespace
}  // namespace locus::test
