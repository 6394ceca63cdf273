#include <locus/ops/resize.h>

#include <cmath>

#include <locus/core/autograd.h>
#include <locus/ops/convolution.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/matmul.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Interpolate, NearestTakesTheFloor) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({1, 2, 3}, {c, u8}).reshape({1, 1, 3});
    EXPECT_THAT(values(interpolate(x, {7})), ElementsAre(1, 1, 1, 2, 2, 3, 3));
    EXPECT_THAT(values(interpolate(x, {2})), ElementsAre(1, 2));
    check_gradients(
        [](const Tensors& in) -> Tensors {
          return {interpolate(in[0], {5, 2})};
        },
        {sample_values(c, f64, {1, 2, 3, 4})});
  }
}

TEST(Interpolate, LinearHasCentresOrCorners) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({0.f, 4.f}, c).reshape({1, 1, 2});
    const auto linear = [&](int64_t n, bool corners) {
      return values(interpolate(x, {n}, {InterpolateMode::linear, corners}));
    };
    EXPECT_THAT(linear(4, false), ElementsAre(0, 1, 3, 4));
    EXPECT_THAT(linear(5, true), ElementsAre(0, 1, 2, 3, 4));
    EXPECT_THAT(linear(1, false), ElementsAre(2));
    EXPECT_THAT(linear(1, true), ElementsAre(0));
    // An infinity does not reach results that have no part of it.
    const Tensor far = array({1.f, INFINITY}, c).reshape({1, 1, 2});
    EXPECT_EQ(values(interpolate(far, {3}, {InterpolateMode::linear, true}))[0], 1);
    EXPECT_EQ(values(interpolate(far, {3}, {InterpolateMode::linear, true}))[2], INFINITY);
    for (const bool corners : {false, true})
      check_gradients(
          [=](const Tensors& in) -> Tensors {
            return {interpolate(in[0], {2, 7, 3}, {InterpolateMode::trilinear, corners})};
          },
          {sample_values(c, f64, {1, 1, 3, 4, 2})});
  }
}

TEST(Interpolate, RefusesLengthsWhoseProductIsTooLarge) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    constexpr int64_t kLong = int64_t{1} << 58;
    const auto row = [&](DType d) { return broadcast_to(ones({1, 1, 1}, {c, d}), {1, 1, kLong}); };
    EXPECT_THAT(values(interpolate(row(u8), {2})), ElementsAre(1, 1));
    const auto refused = [](const Tensor& x, InterpolateMode mode) {
      EXPECT_THAT(message_of<ShapeError>([&] { interpolate(x, {16}, {mode}); }),
                  HasSubstr("expected lengths whose product is less than 2^62"));
    };
    refused(row(u8), InterpolateMode::nearest);
    refused(row(f32), InterpolateMode::linear);
  }
}

TEST(Interpolate, ComputesSixteenBitsInF32) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = sample_values(c, f16, {1, 2, 5, 6});
    const InterpolateOptions o{InterpolateMode::bilinear};
    const Tensor y = interpolate(x, {9, 4}, o);
    EXPECT_EQ(y.dtype(), f16);
    EXPECT_EQ(values(y), values(interpolate(x.astype(f32), {9, 4}, o).astype(f16)));
  }
}

TEST(Interpolate, RefusesWhatItCannotDo) {
  const Tensor x = zeros({1, 1, 2, 2});
  EXPECT_THROW(interpolate(x, {0, 2}), ShapeError);
  EXPECT_THROW(interpolate(zeros({1, 1, 0, 2}), {2, 2}), ShapeError);
  EXPECT_THROW(interpolate(zeros({2, 2}), 2), ShapeError);
  EXPECT_THROW(interpolate(x, 2, {.align_corners = true}), ValueError);
  EXPECT_THAT(message_of<ValueError>([&] { interpolate(x, 2, {InterpolateMode::linear}); }),
              HasSubstr("trilinear for 1, 2, 3 spatial axes"));
  EXPECT_THROW(interpolate(x.astype(i32), 4, {InterpolateMode::bilinear}), DTypeError);
}

TEST(Depth, GoesToSpaceAndBack) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(8, c).reshape({1, 8, 1, 1});
    EXPECT_THAT(values(depth_to_space(x, 2)), ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
    EXPECT_EQ(values(space_to_depth(depth_to_space(x, 2), 2)), values(x));
    EXPECT_FALSE(depth_to_space(x, 1).shares_memory_with(x));
  }
  EXPECT_THROW(space_to_depth(zeros({1, 1, 4, 3}), 2), ShapeError);
  EXPECT_THROW(depth_to_space(zeros({1, 6, 4, 4}), 2), ShapeError);
  EXPECT_THROW(depth_to_space(zeros({4, 4, 4}), 2), ShapeError);
  EXPECT_THROW(depth_to_space(zeros({1, 4, 4, 4}), 0), ValueError);
}

TEST(Columns, AreTheWindowsOfAConvolution) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = sample_values(c, f64, {2, 3, 7, 6}), w = sample_values(c, f64, {4, 3, 3, 2});
    const Im2colOptions o{.stride = {2, 1}, .dilate = {1, 2}, .pad = {1, 0}};
    const Tensor columns = im2col(x, {3, 2}, o);
    const Tensor direct =
        convolution(x, w, {}, {.strides = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}});
    expect_near(values(matmul(w.reshape({4, -1}), columns)), values(direct), 1e-12, "product");
    check_gradients(
        [&](const Tensors& in) -> Tensors {
          return {im2col(in[0], {3, 2}, o), col2im(in[1], {7, 6}, {3, 2}, o)};
        },
        {x, sample_values(c, f64, columns.shape())});
  }
}

TEST(Columns, AddWhereWindowsOverlap) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor columns = ones({1, 3, 4}, c);  // windows of 3 in 6 elements
    EXPECT_THAT(values(col2im(columns, {6}, {3})), ElementsAre(1, 2, 3, 3, 2, 1));
    EXPECT_THAT(values(col2im(columns, {4}, {3}, {.pad = 1})), ElementsAre(2, 3, 3, 2));
  }
  EXPECT_THAT(message_of<ShapeError>([] {
                col2im(zeros({1, 3, 5}), {6}, {3});
              }),
              HasSubstr("expected columns of shape (N, C * 3, 4)"));
  EXPECT_THROW(im2col(zeros({1, 1, 2, 2}), 3), ShapeError);
  EXPECT_THROW(im2col(zeros({1, 1, 4, 4}), 2, {.stride = 0}), ValueError);
}

}  // namespace
}  // namespace locus::test
