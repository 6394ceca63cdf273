#include <locus/ops/view.h>

#include <locus/core/autograd.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus::test {
namespace {

template <class T>
concept SqueezeOfBracedAxes = requires(const T& x) {
  squeeze(x, {0, 1});
};
static_assert(!SqueezeOfBracedAxes<Tensor>, "a Caller is not made of numbers");

using testing::ElementsAre;
using testing::HasSubstr;

TEST(View, ReshapeIsAViewWithMXNetsCodes) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(24, c).reshape({2, 3, 4});
    for (const Shape& s :
         {Shape{6, 4}, Shape{-1}, Shape{0, -1}, Shape{0, 0, 2, 2}, Shape{1, 24, 1}}) {
      const Tensor y = x.reshape(s);
      EXPECT_TRUE(y.shares_memory_with(x));
      EXPECT_EQ(values(y), values(x));
    }
    EXPECT_EQ(x.reshape({0, -1}).shape(), (Shape{2, 12}));
    EXPECT_EQ(x.reshape({0, 0, 2, 2}).shape(), (Shape{2, 3, 2, 2}));
    EXPECT_EQ(x(0, 0, 0).reshape({1, 1}).shape(), (Shape{1, 1}));
    EXPECT_EQ(zeros({0, 3}, c).reshape({3, 0}).shape(), (Shape{3, 0}));
    EXPECT_EQ(zeros({2, 0}, c).reshape({0, 0, 5}).shape(), (Shape{0, 0, 5}));
  }
}

TEST(View, ReshapeOfStridesIsAViewWhereOneExistsElseACopy) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(24, c).reshape({4, 6});
    const Tensor every = x(Slice({}, {}, 2));  // rows 0 and 2
    const Tensor split = every.reshape({2, 2, 3});
    EXPECT_TRUE(split.shares_memory_with(x));
    EXPECT_EQ(values(split), values(every));
    const Tensor flat = every.reshape({-1});
    EXPECT_FALSE(flat.shares_memory_with(x));
    EXPECT_THAT(values(flat), ElementsAre(0, 1, 2, 3, 4, 5, 12, 13, 14, 15, 16, 17));
    EXPECT_THAT(values(x(Slice(0, 2), Slice(0, 2)).T().reshape({4})), ElementsAre(0, 6, 1, 7));
    EXPECT_TRUE(x.T().reshape({3, 2, 4}).shares_memory_with(x));
    EXPECT_EQ(values(x.T().reshape({3, 2, 4})), values(x.T()));
  }
}

TEST(View, ReshapeErrorsSayTheSizes) {
  const Tensor x = arange(30);
  EXPECT_THAT(message_of<ShapeError>([&] {
                x.reshape({2, 3});
              }),
              HasSubstr("Cannot reshape array of size 30 into shape (2,3)"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                x.reshape({-1, 7});
              }),
              HasSubstr("Cannot reshape array of size 30 into shape (-1,7)"));
  EXPECT_THAT(message_of<ShapeError>([] {
                zeros({2, 3}, {f16}).reshape({4});
              }),
              HasSubstr("reshape: cpu(0) (2,3) f16"));
  EXPECT_THAT(message_of<ShapeError>([] { broadcast_to(zeros({3}, {f64}), {4}); }),
              HasSubstr("broadcast_to: data cpu(0) (3,) f64"));
  EXPECT_THROW(x.reshape({-1, -1}), ShapeError);
  EXPECT_THROW(x.reshape({30, 0}), ShapeError);
  EXPECT_EQ(zeros({0, 3}).reshape({-1, 0}).shape(), (Shape{0, 3}));  // 0 keeps the axis
}

TEST(View, TransposesShareMemory) {
  for (Context c : contexts()) {
    const Tensor x = arange(6, c).reshape({1, 2, 3});
    EXPECT_EQ(x.T().shape(), (Shape{3, 2, 1}));
    EXPECT_THAT(values(x.T()), ElementsAre(0, 3, 1, 4, 2, 5));
    EXPECT_EQ(transpose(x, {1, -1, 0}).shape(), (Shape{2, 3, 1}));
    EXPECT_EQ(x.transpose({1, -1, 0}).shape(), (Shape{2, 3, 1}));
    EXPECT_EQ(x.transpose().shape(), (Shape{3, 2, 1}));
    EXPECT_TRUE(x.transpose().shares_memory_with(x));
    const std::vector<int> axes{1, 2, 0};
    EXPECT_EQ(x.transpose(axes).shape(), (Shape{2, 3, 1}));
    EXPECT_EQ(swapaxes(x, 0, -1).shape(), (Shape{3, 2, 1}));
    EXPECT_TRUE(swapaxes(x, 0, 1).shares_memory_with(x));
  }
  const Tensor x = zeros({2, 3});
  EXPECT_THROW(x.transpose({0}), ShapeError);
  EXPECT_THROW(transpose(x, {0}), ShapeError);
  EXPECT_THROW(transpose(x, {0, 0}), ShapeError);
  EXPECT_THROW(transpose(x, {0, 2}), ShapeError);
}

TEST(View, AxesComeAndGo) {
  const Tensor x = zeros({2, 1, 3, 1});
  EXPECT_EQ(expand_dims(x, -1).shape(), (Shape{2, 1, 3, 1, 1}));
  EXPECT_EQ(expand_dims(x, 0).shape(), (Shape{1, 2, 1, 3, 1}));
  EXPECT_EQ(squeeze(x).shape(), (Shape{2, 3}));
  EXPECT_EQ(squeeze(x, -1).shape(), (Shape{2, 1, 3}));
  EXPECT_THROW(squeeze(x, 0), ShapeError);
  EXPECT_THROW(expand_dims(x, 5), ShapeError);
  EXPECT_EQ(flatten(x).shape(), (Shape{2, 3}));
  EXPECT_EQ(flatten(zeros({5})).shape(), (Shape{5, 1}));
  EXPECT_EQ(flatten(zeros({0, 3})).shape(), (Shape{0, 3}));
}

TEST(View, BroadcastHasStrideZero) {
  for (Context c : contexts()) {
    const Tensor x = array({{1}, {2}}, c);
    const Tensor y = broadcast_to(x, {2, 2, 3});
    EXPECT_EQ(y.strides(), (std::vector<int64_t>{0, 1, 0}));
    EXPECT_THAT(values(y), ElementsAre(1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2));
  }
  EXPECT_THROW(broadcast_to(zeros({2}), {3}), ShapeError);
  EXPECT_THROW(broadcast_to(zeros({2, 2}), {2}), ShapeError);
}

TEST(View, BroadcastsAreNotWrittenTo) {
  const Tensor row = array({1.f, 2.f, 3.f});
  Tensor rows = broadcast_to(row, {4, 3});
  const std::string text = test::message_of<Error>([&] { rows += 1; });
  EXPECT_THAT(text, testing::HasSubstr("broadcast view"));
  EXPECT_THROW(rows(Slice()) = 5, Error);
  EXPECT_THROW(ones({4, 3}).copyto(rows), Error);
  EXPECT_THROW(ones({4, 3}).copyto(broadcast_to(array({1.0}), {4, 3})), Error);
  EXPECT_EQ(row.to_vector<float>(), (std::vector<float>{1, 2, 3}));
}

TEST(View, SlicesLikePython) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor r = arange(10, c);
    EXPECT_THAT(values(r(Slice(2, 7, 2))), ElementsAre(2, 4, 6));
    EXPECT_THAT(values(r(Slice(-3, {}))), ElementsAre(7, 8, 9));
    EXPECT_THAT(values(r(Slice({}, {}, -4))), ElementsAre(9, 5, 1));
    EXPECT_THAT(values(r(Slice(7, 2, -2))), ElementsAre(7, 5, 3));
    EXPECT_THAT(values(r(Slice(2, -100, -1))), ElementsAre(2, 1, 0));
    EXPECT_THAT(values(r(Slice(8, 100))), ElementsAre(8, 9));
    EXPECT_EQ(r(Slice(5, 2)).shape(), Shape{0});
    EXPECT_EQ(r(Slice(50, 60)).shape(), Shape{0});
    EXPECT_THAT(values(flip(r(Slice(0, 3)), 0)), ElementsAre(2, 1, 0));
    EXPECT_EQ(r[3].shape(), Shape());
    EXPECT_EQ(r[3].item<float>(), 3);
    EXPECT_EQ(r[-1].item<float>(), 9);
  }
  EXPECT_THROW(arange(3)(Slice(0, 3, 0)), Error);
}

TEST(View, MixesPositionsNewAxesAndEllipsis) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(24, c).reshape({2, 3, 4});
    EXPECT_EQ(x(1, Slice(), 2).shape(), Shape{3});
    EXPECT_THAT(values(x(1, Slice(), 2)), ElementsAre(14, 18, 22));
    EXPECT_EQ(x(ellipsis, 1).shape(), (Shape{2, 3}));
    EXPECT_EQ(x(0, ellipsis, newaxis).shape(), (Shape{3, 4, 1}));
    EXPECT_EQ(x(newaxis, ellipsis).shape(), (Shape{1, 2, 3, 4}));
    EXPECT_EQ(x(Slice(), newaxis, Slice({}, {}, -1), 0).shape(), (Shape{2, 1, 3}));
    EXPECT_THAT(values(x(Slice(), newaxis, Slice({}, {}, -1), 0)),
                ElementsAre(8, 4, 0, 20, 16, 12));
    EXPECT_TRUE(x(1, ellipsis, 2).shares_memory_with(x));
    EXPECT_EQ(x[1][2][3].item<float>(), 23);
  }
}

TEST(View, IndicesOutOfRangeAreIndexErrors) {
  const Tensor x = zeros({3, 2});
  EXPECT_THAT(message_of<IndexError>([&] { x[5]; }),
              HasSubstr("index 5 is out of bounds for axis 0 with size 3; expected -3 to 2"));
  EXPECT_THAT(message_of<IndexError>([&] { x(0, -3); }),
              HasSubstr("index -3 is out of bounds for axis 1 with size 2"));
  EXPECT_THAT(message_of<IndexError>([&] { x(0, 0, 0); }), HasSubstr("2-dimensional, but 3"));
  EXPECT_THROW(x(ellipsis, ellipsis), IndexError);
}

TEST(View, WritingToAViewWritesToItsBase) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Tensor x = zeros({2, 3}, c);
    x(0, Slice()) = 7;
    x.T()[2] = array({1, 2}, c);
    EXPECT_THAT(values(x), ElementsAre(7, 7, 1, 0, 0, 2));
  }
}

TEST(View, GradientsReachTheBase) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = sample_values(c, f64, {3, 4});
    x.attach_grad();
    {
      autograd::Record record;
      const Tensor y = x(Slice({}, {}, -2), Slice(1, 3)).T().reshape({4})(Slice(1, {}));
      y.backward();
    }
    // y leaves out x[2][1]; x[0][1], x[2][2] and x[0][2] stay.
    EXPECT_THAT(values(x.grad()), ElementsAre(0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0));
  }
}

}  // namespace
}  // namespace locus::test
