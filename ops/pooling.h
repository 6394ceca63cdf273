// Pooling over 1, 2 or 3 spatial axes.
//
//   const Tensor y = max_pool(x, 2);      // NCHW: windows of 2 x 2, strides of 2
//
// Layouts: NCW, NCHW, NCDHW, and with the channels last NWC, NHWC, NDHWC. The result has x's batch
// and channels, and one element for each window that fits. dtypes: f32, f64, f16, bf16. Pooling is
// differentiable to any order. Results repeat bit by bit.
//
// - ShapeError: x is not of rank 3 to 5, or an axis does not fit; the text names the axis.
// - ValueError: an option is out of range.
// - DTypeError: x is integer or bool.
#pragma once

#include <string_view>

#include <locus/core/tensor.h>
#include <locus/ops/register.h>
#include <locus/ops/spatial_axes.h>

namespace locus {

struct PoolingOptions {
  Extent strides = 0;  // 0: the length of the window
  Extent padding = 0;  // less than the window
  // false: an axis of length n becomes floor((n + 2·padding - window) / stride) + 1, MXNet's
  // `valid`. true: ceil() instead of floor(), MXNet's `full`, but no window begins behind the data.
  bool ceil_mode = false;
  bool count_include_pad = true;  // avg_pool: padding counts as zeros
  std::string_view layout = {};   // unset: channels first
};

// The maximum of each window. If a window holds NaN, the result is its first NaN, as in NumPy's
// max. The gradient goes to the element that gave the result: of equal elements, the first in
// row-major order. Higher gradients follow the same element.
Tensor max_pool(const Tensor& x, const Extent& window, const PoolingOptions& = {},
                Caller = Caller::here());
// The mean of each window. Sums are added in f64.
Tensor avg_pool(const Tensor& x, const Extent& window, const PoolingOptions& = {},
                Caller = Caller::here());

// Pools all spatial axes in one window. Spatial axes of the result have length 1.
Tensor global_max_pool(const Tensor& x, std::string_view layout = {}, Caller = Caller::here());
Tensor global_avg_pool(const Tensor& x, std::string_view layout = {}, Caller = Caller::here());
// The means of `size` windows along each axis: MXNet's AdaptiveAvgPooling2D. Along an axis of n
// elements, window i is [floor(i·n / size), ceil((i + 1)·n / size)).
Tensor adaptive_avg_pool(const Tensor& x, const Extent& size, std::string_view layout = {},
                         Caller = Caller::here());

}  // namespace locus
