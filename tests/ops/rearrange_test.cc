#include <locus/ops/rearrange.h>

#include <cmath>

#include <locus/core/autograd.h>
#include <locus/core/stream.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/join.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Pad, ModesGoOnBeyondTheAxis) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({1, 2, 3}, c);
    const auto padded = [&](PadMode mode) { return values(pad(x, {{5, 4}}, {.mode = mode})); };
    EXPECT_THAT(padded(PadMode::constant), ElementsAre(0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0));
    EXPECT_THAT(padded(PadMode::edge), ElementsAre(1, 1, 1, 1, 1, 1, 2, 3, 3, 3, 3, 3));
    EXPECT_THAT(padded(PadMode::reflect), ElementsAre(2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3));
    EXPECT_THAT(padded(PadMode::symmetric), ElementsAre(2, 3, 3, 2, 1, 1, 2, 3, 3, 2, 1, 1));
    EXPECT_THAT(padded(PadMode::wrap), ElementsAre(2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1));
    EXPECT_THAT(values(pad(array({7}, c), 2, {.mode = PadMode::reflect})),
                ElementsAre(7, 7, 7, 7, 7));
  }
}

TEST(Pad, TakesAWidthForEachAxisAndAConstantOfTheDType) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({{1, 2}, {3, 4}}, c);
    EXPECT_THAT(values(pad(x, {{0, 1}, {1, 0}}, {.constant_values = -1})),
                ElementsAre(-1, 1, 2, -1, 3, 4, -1, -1, -1));
    EXPECT_EQ(pad(x.T()[0], 1).shape(), Shape{4});
    EXPECT_EQ(pad(zeros({0, 2}, c), {{1, 1}, {0, 0}}, {.constant_values = 2}).shape(),
              (Shape{2, 2}));
    EXPECT_EQ(pad(full({}, 3, {c}), 4).item<float>(), 3);
    // An axis that stays whole is copied in runs, also with gaps in the input.
    const Tensor wide = arange(24, c).reshape({2, 3, 4});
    EXPECT_THAT(values(pad(wide(Slice(), Slice(1, 2), Slice(0, 4, 3)), {{0, 0}, {1, 0}, {0, 0}})),
                ElementsAre(0, 0, 4, 7, 0, 0, 16, 19));
  }
}

TEST(Pad, RefusesBadWidthsBeforeItWrites) {
  const Tensor x = zeros({2, 3});
  EXPECT_THAT(message_of<ShapeError>([&] {
                pad(x, {{1, 1}, {1, 1}, {1, 1}});
              }),
              HasSubstr("expected widths for 1 or 2 axes, got 3"));
  EXPECT_THAT(message_of<ValueError>([&] {
                pad(x, {{0, 0}, {-1, 2}});
              }),
              HasSubstr("got (-1, 2) for axis 1"));
  EXPECT_THAT(message_of<ValueError>([&] {
                pad(zeros({2, 0}), 1, {.mode = PadMode::wrap});
              }),
              HasSubstr("axis 1 is empty"));
  EXPECT_THAT(message_of<DTypeError>([&] { pad(zeros({2}, {u8}), 1, {.constant_values = 300}); }),
              HasSubstr("300"));
  EXPECT_THROW(pad(x, {{INT64_MAX, INT64_MAX}}), ShapeError);
}

TEST(Pad, GradientsAddInEveryMode) {
  for (Context c : contexts())
    for (const PadMode mode :
         {PadMode::constant, PadMode::edge, PadMode::reflect, PadMode::symmetric, PadMode::wrap}) {
      SCOPED_TRACE(to_string(c) + " " + std::to_string(static_cast<int>(mode)));
      check_gradients(
          [&](const Tensors& x) -> Tensors {
            return {pad(x[0], {{4, 9}, {2, 1}}, {.mode = mode})};
          },
          {sample_values(c, f64, {3, 4})});
      const Tensor x = ones({2}, {c, f16});
      x.attach_grad();
      Tensor y;
      {
        autograd::Record record;
        y = pad(x, 3001, {.mode = mode});
      }
      y.backward();  // sums of 16-bit numbers are added in f32
      const double each = mode == PadMode::constant ? 1 : 3002;
      EXPECT_THAT(values(x.grad()), ElementsAre(each, each));
    }
}

TEST(Roll, TakesLongShiftsAndRepeatedAxes) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(6, c).reshape({2, 3});
    EXPECT_THAT(values(roll(x, 2)), ElementsAre(4, 5, 0, 1, 2, 3));
    EXPECT_THAT(values(roll(x, -7, 1)), ElementsAre(1, 2, 0, 4, 5, 3));
    EXPECT_THAT(values(roll(x, {1, 1}, {0, -1})), ElementsAre(5, 3, 4, 2, 0, 1));
    EXPECT_EQ(values(roll(x, 1, {0, 1})), values(roll(x, {1, 1}, {0, 1})));
    EXPECT_THAT(values(roll(x, {1}, {1, 1})), ElementsAre(1, 2, 0, 4, 5, 3));
    EXPECT_THAT(values(roll(x.T(), INT64_MIN, 0)), ElementsAre(2, 5, 0, 3, 1, 4));
    EXPECT_EQ(roll(zeros({0, 2}, c), 3, 0).shape(), (Shape{0, 2}));
  }
  EXPECT_THAT(message_of<ValueError>([] {
                roll(zeros({2, 2}), {1, 2, 3}, {0, 1});
              }),
              HasSubstr("got 3 shifts and 2 axes"));
  EXPECT_THROW(roll(zeros({2}), 1, 1), ShapeError);
}

TEST(Triangles, KeepElementsOfEachMatrix) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(1, 13, c).reshape({2, 2, 3});
    EXPECT_THAT(values(tril(x)), ElementsAre(1, 0, 0, 4, 5, 0, 7, 0, 0, 10, 11, 0));
    EXPECT_THAT(values(triu(x, 1)), ElementsAre(0, 2, 3, 0, 0, 6, 0, 8, 9, 0, 0, 12));
    EXPECT_EQ(values(tril(x, INT64_MAX)), values(x));
    EXPECT_EQ(values(triu(x, INT64_MIN)), values(x));
    EXPECT_THAT(values(triu(array({1, 2}, c))), ElementsAre(1, 2, 0, 2));
    // NaN and infinities are left out, not multiplied by 0.
    EXPECT_THAT(values(tril(full({2, 2}, NAN, {c}), -2)), ElementsAre(0, 0, 0, 0));
  }
  EXPECT_THROW(tril(zeros({})), ShapeError);
}

TEST(Diag, MakesAMatrixOrGivesAView) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({1, 2}, c), matrix = diag(x, -1);
    EXPECT_THAT(values(matrix), ElementsAre(0, 0, 0, 1, 0, 0, 0, 2, 0));
    EXPECT_THAT(values(diag(matrix, -1)), ElementsAre(1, 2));
    EXPECT_TRUE(diag(matrix).shares_memory_with(matrix));
    EXPECT_EQ(diag(zeros({0}, c), 2).shape(), (Shape{2, 2}));
  }
  EXPECT_THROW(diag(zeros({2, 2, 2})), ShapeError);
  EXPECT_THROW(diag(zeros({2}), INT64_MIN), ShapeError);
}

TEST(Meshgrid, RunsAlongAxesInBothOrders) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({1, 2, 3}, c), y = array({4, 5}, c), z = array({6}, c);
    const Tensors xy = meshgrid({x, y, z}), ij = meshgrid({x, y}, {.indexing = Indexing::ij});
    EXPECT_EQ(xy[2].shape(), (Shape{2, 3, 1}));
    EXPECT_THAT(values(xy[0]), ElementsAre(1, 2, 3, 1, 2, 3));
    EXPECT_THAT(values(xy[1]), ElementsAre(4, 4, 4, 5, 5, 5));
    EXPECT_THAT(values(ij[0]), ElementsAre(1, 1, 2, 2, 3, 3));
    EXPECT_FALSE(meshgrid({x})[0].shares_memory_with(x));
  }
  EXPECT_TRUE(meshgrid({}).empty());
  const std::vector<Context> all = distinct_contexts();
  EXPECT_THAT(message_of<ContextMismatch>([&] {
                meshgrid({ones({2}, all[0]), ones({3}, all[1])});
              }),
              HasSubstr("; move one first: xs[1].as_in_context("));
  EXPECT_THROW(meshgrid(Tensors(9, zeros({1}))), ShapeError);
}

TEST(Views, MoveAxesTurnAndGiveDiagonals) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(24, c).reshape({2, 3, 4});
    EXPECT_EQ(moveaxis(x, {0, 1}, {-1, 0}).shape(), (Shape{3, 4, 2}));
    EXPECT_EQ(values(moveaxis(x, 2, 0)), values(x.transpose({2, 0, 1})));
    const Tensor m = x[0];
    EXPECT_THAT(values(rot90(m)), ElementsAre(3, 7, 11, 2, 6, 10, 1, 5, 9, 0, 4, 8));
    EXPECT_EQ(values(rot90(m, -1)), values(rot90(m, 3, {0, 1})));
    EXPECT_EQ(values(rot90(rot90(m, 2), 2)), values(m));
    const Tensor d = diagonal(x, 1, 1, 2);
    EXPECT_THAT(values(d), ElementsAre(1, 6, 11, 13, 18, 23));
    EXPECT_TRUE(d.shares_memory_with(x));
    EXPECT_EQ(diagonal(x, 99).shape(), (Shape{4, 0}));
    EXPECT_EQ(diagonal(x, INT64_MIN).shape(), (Shape{4, 0}));
    check_gradients([](const Tensors& in) -> Tensors { return {diagonal(in[0], -1, 2, 0)}; },
                    {sample_values(c, f64, {3, 2, 3})});
  }
  EXPECT_THAT(message_of<ShapeError>([] {
                moveaxis(zeros({2, 2}), {0, -2}, {0, 1});
              }),
              HasSubstr("expected each axis once"));
  EXPECT_THROW(moveaxis(zeros({2, 2}), {0}, {0, 1}), ShapeError);
  EXPECT_THROW(rot90(zeros({2, 2}), 1, {0, -2}), ShapeError);
  EXPECT_THROW(diagonal(zeros({2, 2}), 0, 1, -1), ShapeError);
}

TEST(Pieces, PositionsAreEndsOfSlices) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(6, c);
    const Tensors parts = split(x, {3, 1, -1, 99}, {.axis = 0});
    ASSERT_EQ(parts.size(), 5u);
    EXPECT_THAT(values(parts[0]), ElementsAre(0, 1, 2));
    EXPECT_EQ(parts[1].shape(), Shape{0});
    EXPECT_THAT(values(parts[2]), ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(values(parts[3]), ElementsAre(5));
    EXPECT_EQ(parts[4].shape(), Shape{0});
    EXPECT_TRUE(parts[2].shares_memory_with(x));
    EXPECT_EQ(array_split(x, 4)[1].shape(), Shape{2});
    EXPECT_EQ(array_split(x, 4)[2].shape(), Shape{1});
  }
  const Tensor m = zeros({3, 5});
  EXPECT_EQ(array_split(m, 2)[1].shape(), (Shape{1, 5}));
  EXPECT_EQ(array_split(m, 2, {.axis = 1})[1].shape(), (Shape{3, 2}));
  EXPECT_THROW(array_split(zeros({2, 2}), 0), ShapeError);
  EXPECT_THROW(array_split(zeros({2, 2}), int64_t{1} << 33), ShapeError);
  EXPECT_THROW(split(zeros({0}), int64_t{1} << 33, {.axis = 0}), ShapeError);
  EXPECT_THROW(split(zeros({2, 3}), {1}, {.squeeze_axis = true}), ShapeError);
}

TEST(Repeat, TakesCounts) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({{1, 2}, {3, 4}}, c);
    EXPECT_THAT(values(repeat(x, array({2, 0}, c), 1)), ElementsAre(1, 1, 3, 3));
    EXPECT_THAT(values(repeat(x, array({0, 1, 2, 1}, {c, u8}))), ElementsAre(2, 3, 3, 4));
    EXPECT_THAT(values(repeat(x, 2)), ElementsAre(1, 1, 2, 2, 3, 3, 4, 4));
    EXPECT_EQ(repeat(x, full({}, 3, {c, i32}), 0).shape(), (Shape{6, 2}));
    EXPECT_THROW(repeat(x, array({1, -1}, c), 0), ValueError);
    EXPECT_THROW(repeat(x, array({1, 1, 1}, c), 0), ShapeError);
    if (c != cpu(0)) {
      EXPECT_THROW(repeat(x, array({1, 1}), 0), ContextMismatch);
    }
    EXPECT_THROW(repeat(x, array({1.5, 1.5}, c), 0), DTypeError);
    check_gradients(
        [&](const Tensors& in) -> Tensors {
          return {repeat(in[0], array({3, 0, 1}, c), -1)};
        },
        {sample_values(c, f64, {2, 3})});
  }
}

TEST(FlatIndex, RefusesWhatLiesOutside) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensors parts = unravel_index(array({{0, 7}, {23, 11}}, {c, i32}), {2, 3, 4});
    EXPECT_EQ(parts[0].shape(), (Shape{2, 2}));
    EXPECT_THAT(values(parts[2]), ElementsAre(0, 3, 3, 3));
    EXPECT_THAT(values(ravel_multi_index(parts, {2, 3, 4})), ElementsAre(0, 7, 23, 11));
    const Tensor rows = array({-1, 5}, c);
    EXPECT_THAT(values(ravel_multi_index({rows, zeros({}, {c, i64})}, {3, 4}, IndexMode::wrap)),
                ElementsAre(8, 8));
    EXPECT_THAT(values(ravel_multi_index({rows}, {3}, IndexMode::clip)), ElementsAre(0, 2));
    const auto refused = [&](const auto& call) {
      return message_of<IndexError>([&] {
        call();
        wait_all();
      });
    };
    EXPECT_THAT(refused([&] {
                  unravel_index(array({1, -1}, c), {2, 2});
                }),
                HasSubstr("index -1 is out of bounds for axis 0 with size 4; expected 0 to 3"));
    EXPECT_THAT(refused([&] { unravel_index(array({4}, c), {2, 2}); }), HasSubstr("index 4"));
    EXPECT_THAT(refused([&] {
                  ravel_multi_index({array({0, -1}, c)}, {3});
                }),
                HasSubstr("index -1 is out of bounds for axis 0 with size 3"));
    EXPECT_THROW(unravel_index(array({1.5}, c), {2}), DTypeError);
    EXPECT_THROW(ravel_multi_index({rows}, {3, 4}), ShapeError);
  }
}

TEST(Repeat, TakesEightAxes) {
  const Shape thin{1, 1, 1, 1, 1, 1, 2, 3};
  const Tensor x = arange(6).reshape(thin);
  EXPECT_EQ(repeat(x, 2, 6).shape(), (Shape{1, 1, 1, 1, 1, 1, 4, 3}));
  EXPECT_THAT(values(repeat(x, 2, 6)), ElementsAre(0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5));
  EXPECT_THAT(values(repeat(x, 2, 7)), ElementsAre(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5));
  EXPECT_THAT(values(tile(x, {1, 1, 1, 1, 1, 1, 2, 1})),
              ElementsAre(0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5));
  EXPECT_THAT(values(tile(x, {2})), ElementsAre(0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5));
}

}  // namespace
}  // namespace locus::test
