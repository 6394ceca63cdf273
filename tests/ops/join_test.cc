#include <locus/ops/join.h>

#include <limits>

#include <locus/core/autograd.h>
#include <locus/ops/create.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Join, ConcatDefaultsToAxisOne) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor a = array({{1.f, 2.f}, {3.f, 4.f}}, c), b = array({{5.f}, {6.f}}, c);
    EXPECT_THAT(values(concat({a, b})), ElementsAre(1, 2, 5, 3, 4, 6));
    EXPECT_THAT(values(concat({a, b.T()}, {.axis = -2})), ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(values(concat({a.T(), b}, {.axis = 1})), ElementsAre(1, 3, 5, 2, 4, 6));
    EXPECT_EQ(concat({a, zeros({2, 0}, c)}).shape(), (Shape{2, 2}));
    EXPECT_EQ(concat({a, a.astype(f64)}).dtype(), f64);
  }
}

TEST(Join, ConcatRefusesWhatDoesNotFit) {
  const Tensor a = zeros({2, 3});
  EXPECT_THAT(message_of<ShapeError>([&] { concat({a, zeros({3, 3})}); }), HasSubstr("concat"));
  EXPECT_THROW(concat({a, zeros({2, 3, 1})}), ShapeError);
  EXPECT_THROW(concat({a, a}, {.axis = 2}), ShapeError);
  EXPECT_THROW(concat({}), ShapeError);
  EXPECT_THROW(concat({a, zeros({2, 3}, cpu(1))}), ContextMismatch);
}

TEST(Join, StackMakesAnAxis) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor a = array({1.f, 2.f}, c), b = array({3.f, 4.f}, c);
    EXPECT_THAT(values(stack({a, b})), ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(values(stack({a, b}, {.axis = -1})), ElementsAre(1, 3, 2, 4));
    EXPECT_EQ(stack({a, b, a}, {.axis = 1}).shape(), (Shape{2, 3}));
  }
  EXPECT_EQ(stack({zeros({2}), zeros({2}, {f64})}).dtype(), f64);
  EXPECT_THAT(message_of<ShapeError>([] {
                stack({zeros({2}), zeros({3})});
              }),
              HasSubstr("stack: "));
  EXPECT_THAT(message_of<ContextMismatch>([] {
                stack({zeros({2}), zeros({2}, cpu(1))});
              }),
              HasSubstr("stack: "));
  EXPECT_THAT(message_of<ShapeError>([] { stack({}); }), HasSubstr("stack: "));
}

// Stride 0 gives lengths that no memory holds.
TEST(Join, RefusesLengthsPastAnyMemory) {
  const Tensor x = broadcast_to(zeros({1}), {int64_t{1} << 59});
  EXPECT_THROW(concat({x, x}, {.axis = 0}), ShapeError);
  EXPECT_THROW(concat(Tensors(33, x), {.axis = 0}), ShapeError);  // 2^64 and a little more
  EXPECT_THROW(stack({x, x}), Error);
}

TEST(Join, SplitGivesViews) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(12, c).reshape({3, 4});
    const Tensors halves = split(x, 2);
    ASSERT_EQ(halves.size(), 2u);
    EXPECT_THAT(values(halves[1]), ElementsAre(2, 3, 6, 7, 10, 11));
    EXPECT_TRUE(halves[1].shares_memory_with(x));
    EXPECT_EQ(split(x, 3, {.axis = 0, .squeeze_axis = true})[2].shape(), Shape{4});
  }
  EXPECT_THAT(message_of<ShapeError>([] {
                split(zeros({2, 5}), 2);
              }),
              HasSubstr("cannot be split into 2 equal parts"));
}

TEST(Join, TileAndRepeatLikeNumPy) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({{1, 2}, {3, 4}}, c);
    EXPECT_THAT(values(tile(x, {2})), ElementsAre(1, 2, 1, 2, 3, 4, 3, 4));
    EXPECT_THAT(values(tile(x, {2, 1})), ElementsAre(1, 2, 3, 4, 1, 2, 3, 4));
    EXPECT_EQ(tile(x, {2, 1, 3}).shape(), (Shape{2, 2, 6}));
    EXPECT_FALSE(tile(x, {1}).shares_memory_with(x));
    EXPECT_THAT(values(repeat(x, 2, 1)), ElementsAre(1, 1, 2, 2, 3, 3, 4, 4));
    EXPECT_THAT(values(repeat(x, 2, 0)), ElementsAre(1, 2, 1, 2, 3, 4, 3, 4));
    EXPECT_EQ(repeat(x, 0, 0).shape(), (Shape{0, 2}));
  }
}

TEST(Join, GradientsGoToEachPart) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor a = array({1.f, 2.f}, c), b = array({3.f}, c);
    a.attach_grad();
    b.attach_grad();
    Tensor y;
    {
      autograd::Record record;
      y = concat({a, b, a}, {.axis = 0});
    }
    BackwardOptions options;
    options.head_gradient = array({1.f, 2.f, 3.f, 4.f, 5.f}, c);
    y.backward(options);
    EXPECT_THAT(values(a.grad()), ElementsAre(5, 7));
    EXPECT_THAT(values(b.grad()), ElementsAre(3));
  }
}

}  // namespace
}  // namespace locus::test
