// Errors of axes out of range name the operand.
#include <locus/nn/data.h>
#include <locus/ops/collective.h>
#include <locus/ops/create.h>
#include <locus/ops/gather.h>
#include <locus/ops/index.h>
#include <locus/ops/join.h>
#include <locus/ops/named.h>
#include <locus/ops/norm.h>
#include <locus/ops/order.h>
#include <locus/ops/rearrange.h>
#include <locus/ops/reduce.h>
#include <locus/ops/scan.h>
#include <locus/ops/softmax.h>
#include <locus/ops/statistics.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Axis, OutOfRangeNamesTheOperandAndTheRange) {
  for (const Context c : contexts()) {
    const Tensor x = ones({2, 3}, c), ids = zeros({2}, {c, i32}), gamma = ones({3}, c);
    const auto expect = [&](const char* begin, const char* operand, const char* range,
                            const auto& f) {
      EXPECT_THAT(message_of<ShapeError>(f), AllOf(StartsWith(text_of(begin, ": axis 5 is")),
                                                   HasSubstr(text_of(c, " ", operand)),
                                                   HasSubstr(text_of("; expected ", range))));
    };
    const char* const operand = "(2,3) f32";
    expect("softmax", operand, "-2 to 1", [&] { softmax(x, {.axis = 5}); });
    expect("sum", operand, "-2 to 1", [&] { sum(x, 5); });
    expect("mean", "(2,3) i32", "-2 to 1", [&] { mean(x.astype(i32), 5); });
    expect("concat", operand, "-2 to 1", [&] { concat({x, x}, {.axis = 5}); });
    expect("stack", "(2,3) f32 with a new axis", "-3 to 2", [&] { stack({x, x}, {.axis = 5}); });
    expect("expand_dims", "(2,3) f32 with a new axis", "-3 to 2", [&] { expand_dims(x, 5); });
    expect("squeeze", operand, "-2 to 1", [&] { squeeze(x, 5); });
    expect("swapaxes", operand, "-2 to 1", [&] { swapaxes(x, 0, 5); });
    expect("flip", operand, "-2 to 1", [&] { flip(x, 5); });
    expect("split", operand, "-2 to 1", [&] { split(x, 2, {.axis = 5}); });
    expect("take", operand, "-2 to 1", [&] { take(x, ids, {.axis = 5}); });
    expect("pick", operand, "-2 to 1", [&] { pick(x, ids, {.axis = 5}); });
    expect("layer_norm", operand, "-2 to 1", [&] { layer_norm(x, gamma, gamma, {.axis = 5}); });
    expect("all_gather", operand, "-2 to 1", [&] { all_gather(Group(c), {x}, {.axis = 5}); });
    expect("split_and_load", operand, "-2 to 1", [&] { split_and_load(x, c, {.batch_axis = 5}); });
  }
  EXPECT_THAT(
      message_of<ShapeError>([] { softmax(ones({})); }),
      HasSubstr("axis -1 is out of bounds for a tensor of 0 axes, cpu(0) () f32; expected a "
                "tensor with axes"));
}

// 2^32 and 2^32 - 1 have the 32 lowest bits of 0 and -1.
TEST(Axis, OfMoreThan32BitsIsOutOfRange) {
  for (const Context c : contexts())
    for (const int64_t axis : {int64_t{1} << 32, (int64_t{1} << 32) - 1}) {
      const Tensor x = ones({2, 3}, c), row = ones({2}, {c, i64}), ids = zeros({2, 3}, {c, i64});
      const auto refuses = [&](const auto& f) {
        EXPECT_THAT(message_of<ShapeError>(f), HasSubstr(text_of(": axis ", axis, " is out of")));
      };
      refuses([&] { cumsum(x, axis); });
      refuses([&] { cumprod(x, {.axis = axis}); });
      refuses([&] { logcumsumexp(x, axis); });
      refuses([&] { cummax(x, axis); });
      refuses([&] { cummin(x, {.axis = axis}); });
      refuses([&] { take_along_axis(x, ids, axis); });
      refuses([&] { put_along_axis(x, ids, 1, {.axis = axis}); });
      refuses([&] { index_add(x, axis, row, x); });
      refuses([&] { compress(row, x, {.axis = axis}); });
      refuses([&] { roll(x, 1, axis); });
      refuses([&] { topk(x, 1, axis); });
      refuses([&] { median(x, axis); });
      refuses([&] { diff(x, {.axis = axis}); });
      refuses([&] { array_split(x, 2, {.axis = axis}); });
      refuses([&] { invoke("cumsum", {x}, {{"axis", axis}}); });
      refuses([&] { invoke("cummax", {x}, {{"axis", axis}}); });
      refuses([&] { invoke("take_along_axis", {x, ids}, {{"axis", axis}}); });
      refuses([&] { invoke("put_along_axis", {x, ids, 1}, {{"axis", axis}}); });
      refuses([&] { invoke("index_add", {x, row, x}, {{"axis", axis}}); });
      refuses([&] { invoke("compress", {row, x}, {{"axis", axis}}); });
      refuses([&] { invoke("array_split", {x}, {{"num_outputs", 2}, {"axis", axis}}); });
      EXPECT_THROW(sequence_mask(x, ones({3}, c), {.axis = axis}), ValueError);
    }
}

// Axis 2^32 is not axis 0.
TEST(Axis, SixtyFourBitsAreNotCut) {
  const Tensor x = ones({1, 3});
  const int64_t far = int64_t{1} << 32;
  EXPECT_THROW(flip(x, far), ShapeError);
  EXPECT_THROW(squeeze(x, far), ShapeError);
  EXPECT_THROW(expand_dims(x, far), ShapeError);
  EXPECT_THROW(swapaxes(x, far, 1), ShapeError);
  EXPECT_THROW(moveaxis(x, far, 1), ShapeError);
  EXPECT_THROW(rot90(x, 1, {far, 1}), ShapeError);
  EXPECT_THROW(diagonal(x, 0, far, 1), ShapeError);
  EXPECT_THROW(slice_axis(x, far, Slice(0, 1)), ShapeError);
  EXPECT_THROW(repeat(x, 2, far), ShapeError);
  EXPECT_THROW(repeat(x, array({1}), far), ShapeError);
}

}  // namespace
}  // namespace locus::test
