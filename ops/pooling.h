// Pooling over 1, 2 or 3 spatial axes.
//
// Layouts: NCW, NCHW, NCDHW, and with the channels last NWC, NHWC, NDHWC: x of rank 3 to 5; the
// result has x's batch and channels, and as many windows as fit along each spatial axis. dtypes
// f32, f64, f16, bf16. Differentiable to any order, by kernels that write each element once: the
// same bits each time.
//
// max_pool: the first NaN of a window, as NumPy's max, else its maximum. The gradient goes to that
// element, of equal ones the first in row-major order, and so do gradients of gradients.
//
// Errors: ShapeError naming the axis and what was expected, ValueError for options, DTypeError for
// integers and booleans.
#pragma once

#include <string_view>

#include <locus/core/tensor.h>
#include <locus/ops/register.h>
#include <locus/ops/spatial_axes.h>

namespace locus {

struct PoolingOptions {
  Extent strides = 0;  // 0: as long as the window
  Extent padding = 0;  // less than the window
  // An axis of length n becomes floor((n + 2·padding - window) / stride) + 1, MXNet's convention
  // `valid`; ceil() with this, `full`, except that no window begins behind the data.
  bool ceil_mode = false;
  bool count_include_pad = true;  // avg_pool: padding counts as zeros
  std::string_view layout = {};   // unset: the channels first
};

Tensor max_pool(const Tensor& x, const Extent& window, const PoolingOptions& = {},
                Caller = Caller::here());
// The mean of each window, added up in f64.
Tensor avg_pool(const Tensor& x, const Extent& window, const PoolingOptions& = {},
                Caller = Caller::here());

// One window: spatial axes of length 1.
Tensor global_max_pool(const Tensor& x, std::string_view layout = {}, Caller = Caller::here());
Tensor global_avg_pool(const Tensor& x, std::string_view layout = {}, Caller = Caller::here());
// Means over as many windows as `size` says, as even as they can be: of n elements those in
// [floor(i·n / size), ceil((i + 1)·n / size)). MXNet's AdaptiveAvgPooling2D.
Tensor adaptive_avg_pool(const Tensor& x, const Extent& size, std::string_view layout = {},
                         Caller = Caller::here());

}  // namespace locus
