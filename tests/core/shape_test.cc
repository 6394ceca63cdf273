#include <locus/core/shape.h>

#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

TEST(Shapes, PrintAsNumPyDoes) {
  EXPECT_EQ(to_string(Shape{}), "()");
  EXPECT_EQ(to_string(Shape{3}), "(3,)");
  EXPECT_EQ(to_string(Shape{2, 3}), "(2,3)");
}

TEST(Shapes, CountNegativeAxesFromTheEnd) {
  const Shape s{2, 3, 4};
  EXPECT_EQ(s[-1], 4);
  EXPECT_EQ(s[0], 2);
  EXPECT_EQ(s.size(), 24);
  EXPECT_THROW(s[3], ShapeError);
  EXPECT_THROW(s[-4], ShapeError);
}

TEST(Shapes, Broadcast) {
  EXPECT_EQ(broadcast_shapes({2, 1, 4}, {3, 1}), (Shape{2, 3, 4}));
  EXPECT_EQ(broadcast_shapes({}, {3}), (Shape{3}));
  EXPECT_EQ(broadcast_shapes({0, 3}, {1, 3}), (Shape{0, 3}));
  EXPECT_EQ(broadcast_shapes({1}, {0}), (Shape{0}));
  EXPECT_THROW(broadcast_shapes({2, 3}, {4}), ShapeError);
  EXPECT_THROW(broadcast_shapes({0}, {2}), ShapeError);
}

TEST(Shapes, BroadcastToOneAnotherOneWay) {
  EXPECT_TRUE(broadcasts_to({3, 1}, {2, 3, 4}));
  EXPECT_TRUE(broadcasts_to({}, {3}));
  EXPECT_TRUE(broadcasts_to({1}, {0}));
  EXPECT_FALSE(broadcasts_to({2, 3, 4}, {3, 1}));
  EXPECT_FALSE(broadcasts_to({4}, {1}));
  EXPECT_FALSE(broadcasts_to({1, 3}, {3}));
}

TEST(Shapes, GainAndLoseAxes) {
  const Meta m = make_meta(f32, Shape{2, 3});
  EXPECT_EQ(Shape(with_axis(m, 0, 5)), (Shape{5, 2, 3}));
  EXPECT_EQ(Shape(with_axis(m, 2, 5)), (Shape{2, 3, 5}));
  EXPECT_EQ(Shape(without_axis(m, 0)), (Shape{3}));
  EXPECT_THROW(with_axis(make_meta(f32, Shape{1, 1, 1, 1, 1, 1, 1, 1}), 0, 1), ShapeError);
}

TEST(Errors, AreMadeOfTheirParts) {
  const int8_t axis = 3;
  const ShapeError e("data ", Shape{2, 3}, " on ", cpu(1), ": axis ", axis, std::string("; "), 2.5);
  EXPECT_STREQ(e.what(), "data (2,3) on cpu(1): axis 3; 2.5");
  EXPECT_EQ(listed(Shape{4, 5}, {}, " or "), "4 or 5");
  EXPECT_EQ(listed(std::vector<int>{}), "");
}

TEST(Shapes, AreRangesOfTheirAxes) {
  EXPECT_EQ((std::span<const int64_t>(Shape{2, 3}).size()), 2u);
  EXPECT_EQ(make_meta(f32, Shape{2, 3}).rank, 2);
}

TEST(Shapes, HaveAtMostEightAxes) { EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), ShapeError); }

TEST(Shapes, RefuseMoreElementsThanMemoryHolds) {
  constexpr int64_t kBig = int64_t{1} << 31;
  for (const Shape& s : {Shape{kBig << 31}, Shape{kBig, kBig}, Shape{2 * kBig, 2 * kBig}}) {
    EXPECT_THROW(zeros(s), ShapeError) << s;
    EXPECT_THROW(broadcast_to(ones({1}), s), ShapeError) << s;
  }
  EXPECT_THROW(broadcast_to(ones({1, 1}), {kBig, 1}) + broadcast_to(ones({1, 1}), {1, kBig}),
               ShapeError);
  EXPECT_EQ(zeros({kBig, 0, 5}).size(), 0);
}

TEST(Shapes, HaveStridesWithoutOverflowBeforeTheyAreChecked) {
  const int64_t huge = int64_t{1} << 40;
  const Meta m = with_axis(with_axis(make_meta(f32, Shape{3}), 0, huge), 0, huge);
  int64_t strides[kMaxRank];
  row_major(m, strides);
  EXPECT_EQ(strides[1], 3);
  EXPECT_THROW(bytes_of(m), ShapeError);
}

TEST(Shapes, RefuseNegativeLengthsWhereTheyMeanNothing) {
  EXPECT_THROW(make_meta(f32, Shape{2, -1}), ShapeError);
}

}  // namespace
}  // namespace locus::test
