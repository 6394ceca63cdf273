// Images in other sizes and orders: interpolate, depth to space and back, windows as columns.
//
//   const Tensor y = interpolate(x, {64, 48}, {.mode = InterpolateMode::bilinear});
//
// Data has the batch and the channels first: NCW, NCHW or NCDHW. Gradients exist to any order and
// add in a fixed order, so they have the same bits each run. A tensor of another rank is a
// ShapeError.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/register.h>
#include <locus/ops/spatial_axes.h>

namespace locus {

// linear, bilinear and trilinear are one method, for 1, 2 and 3 spatial axes, as in PyTorch.
enum class InterpolateMode : uint8_t { nearest, linear, bilinear, trilinear };
struct InterpolateOptions {
  InterpolateMode mode = InterpolateMode::nearest;
  // Not for `nearest`. true: the first and last elements keep their places. false: elements are
  // areas, and their centres lie at half positions.
  bool align_corners = false;
};
// x with other spatial lengths. Along an axis of n elements that becomes m long:
// - nearest: element i of the result is element floor(i n / m) of x. All dtypes.
// - linear: element i of the result interpolates x at (i + 1/2) n / m - 1/2, or with align_corners
//   at i (n - 1) / (m - 1). Positions are exact fractions. Floating dtypes; f16 and bf16 are
//   computed in f32. There is no antialiasing.
// Errors:
// - ShapeError: a length below 1, an empty spatial axis, or lengths whose product n m is 2^62 or
//   more.
// - ValueError: a mode of another number of axes, or align_corners with `nearest`.
// - DTypeError: an integer or bool tensor with a linear mode.
Tensor interpolate(const Tensor& x, const Extent& size, const InterpolateOptions& = {},
                   Caller = Caller::here());

// space_to_depth turns (N, C, H, W) into (N, C·b·b, H / b, W / b), as in MXNet; depth_to_space is
// the inverse. Channel (i·b + j)·C + c of the depth has the elements (i, j) of each block of
// channel c. If b does not divide H and W, or b·b the channels of a depth, the call throws
// ShapeError.
Tensor space_to_depth(const Tensor& x, int64_t block_size, Caller = Caller::here());
Tensor depth_to_space(const Tensor& x, int64_t block_size, Caller = Caller::here());

struct Im2colOptions {
  Extent stride = 1, dilate = 1, pad = 0;
};
// The windows of a convolution as columns: (N, C·kernel, windows), as in MXNet. Positions in the
// kernel and windows are in row-major order. Padding is zeros. An option out of range is a
// ValueError.
Tensor im2col(const Tensor& x, const Extent& kernel, const Im2colOptions& = {},
              Caller = Caller::here());
// Adds columns back to the elements of a tensor (N, C, output_size...): the gradient of im2col.
// Floating dtypes. Elements that lie in several windows are added in the order of their positions
// in the window.
Tensor col2im(const Tensor& columns, const Extent& output_size, const Extent& kernel,
              const Im2colOptions& = {}, Caller = Caller::here());

}  // namespace locus
