// Calls of reductions: with an axis, with options, as members of Tensor.
#include <locus/ops/reduce.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include <locus/ops/create.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ReduceCall : public testing::Test {
 protected:
  const Tensor x_ = array({{1.f, -2.f, 3.f}, {4.f, 5.f, -6.f}}, cpu());
};

TEST_F(ReduceCall, TakesAnAxis) {
  EXPECT_THAT(values(sum(x_, 1)), ElementsAre(2, 3));
  EXPECT_THAT(values(sum(x_, 0)), ElementsAre(5, 3, -3));
  EXPECT_EQ(values(mean(x_, -1)), values(mean(x_, {.axis = 1})));
  EXPECT_THAT(values(prod(x_, 0)), ElementsAre(4, -10, -18));
  EXPECT_THAT(values(max(x_, 0)), ElementsAre(4, 5, 3));
  EXPECT_THAT(values(min(x_, 1)), ElementsAre(-2, -6));
  EXPECT_THAT(values(any(x_, 1)), ElementsAre(1, 1));
  EXPECT_THAT(values(all(x_, 1)), ElementsAre(1, 1));
  EXPECT_THAT(values(argmax(x_, 1)), ElementsAre(2, 1));
  EXPECT_THAT(values(argmin(x_, 0)), ElementsAre(0, 0, 1));
  EXPECT_EQ(values(var(x_, 1)), values(var(x_, {.axis = 1})));
  EXPECT_EQ(values(locus::std(x_, 1)), values(locus::std(x_, {.axis = 1})));
  EXPECT_EQ(values(logsumexp(x_, 1)), values(logsumexp(x_, {.axis = 1})));
}

TEST_F(ReduceCall, TakesAnAxisAsMember) {
  EXPECT_THAT(values(x_.sum(1)), ElementsAre(2, 3));
  EXPECT_THAT(values(x_.mean(0)), ElementsAre(2.5, 1.5, -1.5));
  EXPECT_THAT(values(x_.max(1)), ElementsAre(3, 5));
  EXPECT_THAT(values(x_.min(0)), ElementsAre(1, -2, -6));
}

TEST_F(ReduceCall, TakesOptionsOrNoneAsMember) {
  EXPECT_EQ(x_.max().item<float>(), 5);
  EXPECT_EQ(x_.min().item<float>(), -6);
  EXPECT_EQ(x_.max({}).shape(), Shape());
  EXPECT_EQ(x_.max({.axis = 1, .keepdims = true}).shape(), (Shape{2, 1}));
  EXPECT_THAT(values(x_.min({.axis = 1})), ElementsAre(-2, -6));
}

TEST_F(ReduceCall, TakesAnAxisOfAnyIntegerType) {
  for (const Tensor& y : {sum(x_, int64_t{1}), sum(x_, size_t{1}), sum(x_, uint8_t{1}),
                          x_.sum(int64_t{1}), sum(x_, {.axis = size_t{1}})})
    EXPECT_THAT(values(y), ElementsAre(2, 3));
}

TEST_F(ReduceCall, RefusesAnAxisOutOfBounds) {
  EXPECT_THAT(message_of<ShapeError>([&] { sum(x_, 2); }),
              HasSubstr("sum: axis 2 is out of bounds for a tensor of 2 axes"));
  EXPECT_THROW(x_.mean(-3), ShapeError);
  // Converted to int, each of these would be a valid axis.
  EXPECT_THAT(message_of<ShapeError>([&] { sum(x_, int64_t{1} << 32); }),
              HasSubstr("sum: axis 4294967296 is out of bounds for a tensor of 2 axes"));
  EXPECT_THROW(max(x_, std::numeric_limits<uint32_t>::max()), ShapeError);
  EXPECT_THROW(x_.sum(std::numeric_limits<uint64_t>::max()), ShapeError);
  EXPECT_THROW(sum(x_, {.axis = int64_t{1} << 32}), ShapeError);
}

TEST_F(ReduceCall, EmptyBracesMeanAllAxes) {
  EXPECT_EQ(sum(x_, {}).shape(), Shape());
  EXPECT_EQ(max(x_, {}).item<float>(), 5);
  EXPECT_EQ(norm(x_, {}).shape(), Shape());
  EXPECT_EQ(x_.sum({}).item<float>(), 5);
}

template <class T>
concept SumOfTwoBracedAxes = requires(const T& x) {
  sum(x, {0, 1});
};
template <class T>
concept SumOfOneBracedAxis = requires(const T& x) {
  sum(x, {0});
};
template <class T>
concept SumMemberOfTwoBracedAxes = requires(const T& x) {
  x.sum({0, 1});
};
template <class T, class Axis>
concept SumOver = requires(const T& x, Axis axis) {
  sum(x, axis);
};

// Axes in braces would also set keepdims, so they need {.axis = ...}.
static_assert(!SumOfTwoBracedAxes<Tensor>);
static_assert(!SumOfOneBracedAxis<Tensor>);
static_assert(!SumMemberOfTwoBracedAxes<Tensor>);
static_assert(SumOver<Tensor, int>);
static_assert(!SumOver<Tensor, bool>);
static_assert(!SumOver<Tensor, double>);

TEST(ReduceCallOfOtherTypes, IsTheirStdMax) {
  using locus::max, locus::min, std::max, std::min;
  EXPECT_EQ(max(1, 2), 2);
  EXPECT_EQ(min(std::string("b"), std::string("a")), "a");
}

}  // namespace
}  // namespace locus::test
