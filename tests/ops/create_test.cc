#include <locus/ops/create.h>

#include <cmath>
#include <set>

#include <locus/core/op.h>
#include <locus/ops/join.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::ElementsAre;

TEST(Create, DefaultsToF32OnTheCurrentContext) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const ContextScope scope(c);
    for (const Tensor& t : {zeros({2, 3}), ones({2, 3}), full({2, 3}, 7), arange(6), eye(2),
                            linspace(0, 1, 3), empty({2}), array({1.5, 2.5})}) {
      EXPECT_EQ(t.context(), c);
      EXPECT_EQ(t.dtype(), f32);
    }
    EXPECT_EQ(values(full({2, 2}, 7)), std::vector<double>(4, 7.0));
  }
}

TEST(Create, FillsEveryDTypeExactly) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const int64_t large = (int64_t{1} << 53) + 1;
    EXPECT_EQ(full({37}, large, {c, i64}).to_vector<int64_t>(), std::vector<int64_t>(37, large));
    EXPECT_EQ(full({37}, -5, {c, i8}).to_vector<int8_t>(), std::vector<int8_t>(37, -5));
    EXPECT_EQ(full({37}, 2.5, {c, bool_}).to_vector<bool>(), std::vector<bool>(37, true));
    EXPECT_EQ(values(full({1001}, 1.5, {c, bf16})), std::vector<double>(1001, 1.5));
    EXPECT_EQ(values(full({1003}, -1.5, {c, f16})), std::vector<double>(1003, -1.5));
    EXPECT_EQ(values(full({1003}, .1, {c, f64})), std::vector<double>(1003, .1));
    EXPECT_THAT(values(full({}, 3, {c, u8})), ElementsAre(3));
    EXPECT_EQ(full({0, 3}, 1, c).size(), 0);
  }
}

TEST(Create, FillsAStridedTargetAndNothingElse) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Tensor t = zeros({3, 4}, c);
    t(Slice(), Slice(1, 4, 2)) = 5;
    EXPECT_THAT(values(t), ElementsAre(0, 5, 0, 5, 0, 5, 0, 5, 0, 5, 0, 5));
  }
}

TEST(Create, ArangeCountsLikeNumPy) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    EXPECT_THAT(values(arange(4, c)), ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(values(arange(1, 2, .3, {c, f64})), ElementsAre(1, 1 + .3, 1 + 2 * .3, 1 + 3 * .3));
    EXPECT_THAT(values(arange(5, 0, -2, {c, i32})), ElementsAre(5, 3, 1));
    EXPECT_EQ(arange(3, 3, c).shape(), Shape{0});
    EXPECT_EQ(arange(3, 1, c).shape(), Shape{0});
  }
  EXPECT_THROW(arange(0, 1, 0), Error);
  EXPECT_EQ(arange(1e300, 0).shape(), Shape{0});
  EXPECT_EQ(arange(0, -1e300, 1e-3, {cpu(), i32}).shape(), Shape{0});
  EXPECT_THROW(arange(0, 1e300), ValueError);
}

TEST(Create, ArangeIsTheSameOnEveryContext) {
  const std::vector<double> host = values(arange(-1, 1e4, .1, {cpu(), f64}));
  for (size_t i = 0; i < host.size(); ++i) {
    volatile const double product = static_cast<double>(i) * .1;
    ASSERT_EQ(host[i], -1 + product);
  }
  for (Context c : contexts()) EXPECT_EQ(values(arange(-1, 1e4, .1, {c, f64})), host);
}

TEST(Create, LinspaceEndsAtStop) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    EXPECT_THAT(values(linspace(0, 1, 5, c)), ElementsAre(0, .25, .5, .75, 1));
    EXPECT_THAT(values(linspace(0, 1, 4, false, c)), ElementsAre(0, .25, .5, .75));
    EXPECT_THAT(values(linspace(2, 7, 1, c)), ElementsAre(2));
    EXPECT_EQ(values(linspace(0, .7, 8, {c, f64})).back(), .7);
    EXPECT_THROW(linspace(-1e308, 1e308, 3, {c, f64}), ValueError);
    EXPECT_THROW(linspace(0, INFINITY, 3, c), ValueError);
    EXPECT_THROW(linspace(NAN, NAN, 1, c), ValueError);
    EXPECT_THROW(linspace(0, 1e300, 3, {c, i32}), DTypeError);
  }
}

TEST(Create, EyeHasItsDiagonalWhereAsked) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    EXPECT_THAT(values(eye(2, 0, 0, c)), ElementsAre(1, 0, 0, 1));
    EXPECT_THAT(values(eye(2, 3, 1, c)), ElementsAre(0, 1, 0, 0, 0, 1));
    EXPECT_THAT(values(eye(3, 2, -1, c)), ElementsAre(0, 0, 1, 0, 0, 1));
    EXPECT_THAT(values(eye(2, 2, 5, c)), ElementsAre(0, 0, 0, 0));
  }
}

TEST(Create, ArrayReadsLiteralsAndKeepsElementTypes) {
  EXPECT_EQ(array({1.0, 2.0}).dtype(), f32);
  EXPECT_EQ(array({1, 2}).dtype(), i64);
  EXPECT_EQ(array({true, false}).dtype(), bool_);
  EXPECT_EQ(array({1, 2}, f64).dtype(), f64);
  EXPECT_EQ(array(std::vector<double>{1, 2}).dtype(), f64);
  EXPECT_EQ(array(std::vector<int32_t>{1, 2}).dtype(), i32);
  EXPECT_EQ(array(std::vector<bool>{true, false}).dtype(), bool_);
  const std::vector<uint8_t> bytes{1, 2, 3, 4, 5, 6};
  const Tensor shaped = array(std::span(bytes), {2, 3});
  EXPECT_EQ(shaped.dtype(), u8);
  EXPECT_EQ(shaped.shape(), (Shape{2, 3}));
}

TEST(Create, ArrayNestsAndUploads) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor two = array({{1.f, 2.f}, {3.f, 4.f}}, c);
    EXPECT_EQ(two.context(), c);
    EXPECT_EQ(two.shape(), (Shape{2, 2}));
    EXPECT_THAT(values(two), ElementsAre(1, 2, 3, 4));
    const Tensor three = array({{{1}, {2}}, {{3}, {4}}, {{5}, {6}}}, {c, f16});
    EXPECT_EQ(three.shape(), (Shape{3, 2, 1}));
    EXPECT_EQ(three.dtype(), f16);
    EXPECT_THAT(values(three), ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(array({true, false}, c).to_vector<bool>(), ElementsAre(true, false));
  }
}

TEST(Create, BadShapesAreShapeErrors) {
  EXPECT_THAT(message_of<ShapeError>([] {
                array({{1, 2}, {3}});
              }),
              testing::HasSubstr("expected 2 elements, got 1"));
  EXPECT_THAT(message_of<ShapeError>([] {
                array(std::vector<int>{1, 2, 3}, {2, 2});
              }),
              testing::HasSubstr("(2,2) needs 4 elements, got 3"));
  EXPECT_THAT(message_of<ShapeError>([] { zeros({2, -1}); }), testing::HasSubstr("(2,-1)"));
}

TEST(Create, NumbersThatDoNotFitAreRefused) {
  constexpr double kNan = NAN;
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    EXPECT_THAT(message_of<DTypeError>([&] {
                  full({1}, 300, {c, u8});
                }),
                testing::HasSubstr("the number 300 does not fit dtype u8"));
    EXPECT_THROW(full({1}, -1, {c, u8}), DTypeError);
    EXPECT_THROW(arange(257, {c, u8}), DTypeError);
    EXPECT_THROW(arange(0, -2, -1, {c, u8}), DTypeError);
    EXPECT_EQ(values(arange(256, {c, u8})).back(), 255);
    EXPECT_THROW(linspace(0, 200, 3, {c, i8}), DTypeError);
    EXPECT_THROW(linspace(-200, 0, 3, {c, i8}), DTypeError);
    EXPECT_EQ(arange(0, {c, u8}).size(), 0);
    EXPECT_THROW(full({1}, -129., {c, i8}), DTypeError);
    EXPECT_THROW(full({1}, int64_t{1} << 31, {c, i32}), DTypeError);
    EXPECT_THROW(full({1}, 9223372036854775808., {c, i64}), DTypeError);
    EXPECT_THROW(full({1}, UINT64_MAX, {c, i64}), DTypeError);
    EXPECT_THROW(full({1}, kNan, {c, i32}), DTypeError);
    EXPECT_THROW(array({300}, {c, u8}), DTypeError);
    EXPECT_THROW(array({1., kNan}, {c, i32}), DTypeError);
    EXPECT_THROW(array({{1., -1e300}}, {c, i64}), DTypeError);
    Tensor x = zeros({2}, {c, u8});
    EXPECT_THROW(x(0) = 300, DTypeError);
    x(0) = 255.9;
    EXPECT_THAT(values(x), ElementsAre(255, 0));
    EXPECT_THAT(values(full({1}, INT64_MIN, {c, i64})), ElementsAre(-0x1p63));
    EXPECT_THAT(values(array({-0.5, 255.5}, {c, u8})), ElementsAre(0, 255));
    EXPECT_THAT(values(array({kNan, 0.}, {c, bool_})), ElementsAre(1, 0));
    EXPECT_THAT(values(full({1}, 70000, {c, f16})), ElementsAre(INFINITY));
  }
}

TEST(Create, LikeTakesContextShapeAndDType) {
  for (Context c : contexts()) {
    const Tensor x = full({2, 3}, 4, {c, i32});
    EXPECT_EQ(zeros_like(x).context(), c);
    EXPECT_EQ(zeros_like(x).dtype(), i32);
    EXPECT_EQ(ones_like(x).shape(), x.shape());
    EXPECT_EQ(ones_like(x, f64).dtype(), f64);
    EXPECT_EQ(values(ones_like(x)), std::vector<double>(6, 1.0));
  }
}

TEST(Create, SampleValuesAreDistinctAndInsideTheirRange) {
  for (DType d : {f32, f64, i32, i64, u8, i8}) {
    const std::vector<double> v = values(sample_values(cpu(), d, {5, 20}, -2, 2));
    for (double x : v) {
      EXPECT_GE(x, d == u8 ? 0 : -2);
      EXPECT_LE(x, 2);
      if (is_floating(d)) {
        EXPECT_GT(std::abs(x), .05);
      }
    }
    if (is_floating(d)) {
      EXPECT_EQ(std::set<double>(v.begin(), v.end()).size(), v.size());
    }
    EXPECT_NE(v, values(sample_values(cpu(), d, {5, 20}, -2, 2, 1)));
  }
}

TEST(Create, TakesNumbersAtTheEndsOfTheirRange) {
  EXPECT_EQ(test::values(full({1}, UINT64_MAX, f64)), std::vector<double>{18446744073709551615.0});
  const Tensor q = zeros({1}, f64);
  q[0] = UINT64_MAX;
  EXPECT_EQ(q.item<double>(), 18446744073709551615.0);
  EXPECT_EQ(test::values(eye(2, 2, INT64_MIN)), std::vector<double>(4, 0));
  EXPECT_EQ(test::values(arange(3)(Slice({}, {}, INT64_MIN))), std::vector<double>{2});
  EXPECT_THROW(repeat(ones({3}), INT64_MAX, 0), ShapeError);
  EXPECT_THROW(ones({4}).reshape({INT64_MAX, 2}), ShapeError);
}

}  // namespace
}  // namespace locus::test
