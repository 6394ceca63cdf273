// The functions of ops/resize.h.
#include <locus/ops/resize.h>

#include <algorithm>

#include <locus/core/base/at_line.h>
#include <locus/core/memory/storage.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/ops/call_check.h>
#include <locus/ops/copy.h>
#include <locus/ops/rearrange/rearrange_parts.h>
#include <locus/ops/view.h>

namespace locus {
namespace {

int spatial_axes(const Tensor& x, const char* op) {
  detail::expect_tensor(op, x);
  if (x.ndim() < 3 || x.ndim() > 5)
    throw ShapeError(op, ": ", describe(x),
                     ": expected data with 1 to 3 spatial axes, rank 3 to 5");
  return x.ndim() - 2;
}

Tensor nearest(const Tensor& x, const int64_t (&size)[kMaxSpatial]) {
  static const OpRef<Nearest> op(Nearest::kName);
  Nearest r{{}, {x.shape()[0], x.shape()[1]}};
  for (int s = 0; s < x.ndim() - 2; ++s) r.size[2 + s] = size[s];
  return invoke(op, {x}, r);
}

// From the last axis to the first, as PyTorch adds.
Tensor linear(const Tensor& x, const int64_t (&size)[kMaxSpatial], bool align_corners) {
  static const OpRef<Linear> op("resize_linear");
  return detail::in_f32(x, [&](Tensor y) {
    for (int s = x.ndim() - 2; s-- > 0;)
      if (size[s] != x.shape()[2 + s]) y = invoke(op, {y}, {size[s], 2 + s, align_corners});
    return y.shares_memory_with(x) ? copy(y) : y;
  });
}

// x with axes of length b moved, in the shape `split`, transposed, in the shape `result`.
Tensor reordered(const Tensor& x, const Shape& split, std::initializer_list<int> axes,
                 const Shape& result) {
  const Tensor y = detail::reshape_exact(transpose(detail::reshape_exact(x, split), axes), result);
  return y.shares_memory_with(x) ? copy(y) : y;
}

Shape image_shape(const Tensor& x, int64_t b, const char* op) {
  detail::expect_tensor(op, x);
  if (x.ndim() != 4)
    throw ShapeError(op, ": ", describe(x), ": expected data of shape (N, C, H, W)");
  if (b < 1) throw ValueError(op, ": expected a block_size of at least 1, got ", b);
  return x.shape();
}
[[noreturn]] void indivisible(const Tensor& x, const char* op, const char* what, int64_t b) {
  throw ShapeError(op, ": ", describe(x), ": expected ", what, " for block_size ", b);
}

Windows windows_of(int axes, const Extent& kernel, const Im2colOptions& o, const char* op) {
  Windows w;
  kernel.spread(axes, op, "kernel", w.kernel);
  o.stride.spread(axes, op, "stride", w.stride);
  o.dilate.spread(axes, op, "dilate", w.dilate);
  o.pad.spread(axes, op, "pad", w.pad);
  return w;
}

}  // namespace

Tensor interpolate(const Tensor& x, const Extent& size, const InterpolateOptions& o,
                   Caller from) try {
  const UserLine user_line(from);
  const int axes = spatial_axes(x, "interpolate");
  int64_t lengths[kMaxSpatial];
  size.spread(axes, "interpolate", "size", lengths);
  for (int s = 0; s < axes; ++s)
    if (lengths[s] < 1 || x.shape()[2 + s] < 1)
      throw ShapeError("interpolate: ", describe(x), ": expected lengths of at least 1, got ",
                       lengths[s], " elements of ", x.shape()[2 + s], " along axis ", 2 + s);
  if (o.mode == InterpolateMode::nearest) {
    if (o.align_corners)
      throw ValueError(
          "interpolate: align_corners is an option of the linear modes, not of nearest");
    return nearest(x, lengths);
  }
  if (static_cast<int>(o.mode) != axes)
    throw ValueError("interpolate: ", describe(x), ": mode ", static_cast<int>(o.mode),
                     "; expected nearest, or linear, bilinear, trilinear for 1, 2, 3 spatial axes");
  detail::expect_floating("interpolate", {{"data", &x}});
  return linear(x, lengths, o.align_corners);
} catch (const Error&) {
  detail::rethrow_as("interpolate", from);
}

Tensor space_to_depth(const Tensor& x, int64_t b, Caller from) try {
  const UserLine user_line(from);
  const Shape s = image_shape(x, b, "space_to_depth");
  if (s[2] % b != 0 || s[3] % b != 0)
    indivisible(x, "space_to_depth", "a height and a width that it divides", b);
  int64_t depth = 0;
  if (__builtin_mul_overflow(s[1], b, &depth) || __builtin_mul_overflow(depth, b, &depth))
    indivisible(x, "space_to_depth", "a number of channels that 63 bits count", b);
  return reordered(x, {s[0], s[1], s[2] / b, b, s[3] / b, b}, {0, 3, 5, 1, 2, 4},
                   {s[0], depth, s[2] / b, s[3] / b});
} catch (const Error&) {
  detail::rethrow_as("space_to_depth", from);
}
Tensor depth_to_space(const Tensor& x, int64_t b, Caller from) try {
  const UserLine user_line(from);
  const Shape s = image_shape(x, b, "depth_to_space");
  if (b > (int64_t{1} << 31) || s[1] % (b * b) != 0)
    indivisible(x, "depth_to_space", "a number of channels that its square divides", b);
  const int64_t channels = s[1] / (b * b);
  return reordered(x, {s[0], b, b, channels, s[2], s[3]}, {0, 3, 4, 1, 5, 2},
                   {s[0], channels, s[2] * b, s[3] * b});
} catch (const Error&) {
  detail::rethrow_as("depth_to_space", from);
}

Tensor im2col(const Tensor& x, const Extent& kernel, const Im2colOptions& o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<Windows> op(Windows::kName);
  const int axes = spatial_axes(x, "im2col");
  const Windows w = windows_of(axes, kernel, o, "im2col");
  const Tensor y = invoke(op, {x}, w);
  int64_t rows = y.shape()[1], windows = 1;
  for (int s = 0; s < axes; ++s) {
    rows *= y.shape()[2 + s];
    windows *= y.shape()[2 + axes + s];
  }
  return detail::reshape_exact(y, {y.shape()[0], rows, windows});
} catch (const Error&) {
  detail::rethrow_as("im2col", from);
}

Tensor col2im(const Tensor& columns, const Extent& output_size, const Extent& kernel,
              const Im2colOptions& o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<Columns> op(Columns::kName);
  detail::expect_tensor("col2im", columns, "columns");
  const int axes = std::max({output_size.size(), kernel.size(), 1});
  Columns c{windows_of(axes, kernel, o, "col2im")};
  output_size.spread(axes, "col2im", "output_size", c.size);
  int64_t positions = 1, windows = 1;
  int64_t split[kMaxRank];
  bool fits = true;
  for (int s = 0; s < axes; ++s) {
    split[2 + s] = c.kernel[s];
    split[2 + axes + s] = detail::window_count(c.size[s], c, s, "col2im: ");
    fits = fits && !__builtin_mul_overflow(positions, c.kernel[s], &positions) &&
           !__builtin_mul_overflow(windows, split[2 + axes + s], &windows);
  }
  if (!fits || columns.ndim() != 3 || columns.shape()[1] % positions != 0 ||
      columns.shape()[2] != windows)
    throw ShapeError("col2im: ", describe(columns), ": expected columns of shape (N, C * ",
                     positions, ", ", windows, ")");
  split[0] = columns.shape()[0];
  split[1] = columns.shape()[1] / positions;
  return invoke(op, {detail::reshape_exact(columns, Shape(split, 2 + 2 * axes))}, c);
} catch (const Error&) {
  detail::rethrow_as("col2im", from);
}

}  // namespace locus
