// Convolutions over 1, 2 or 3 spatial axes, and their transposes.
//
//   const Tensor y = convolution(x, weight, bias, {.padding = 1});   // x NCHW, weight OIHW
//
// Layouts: NCW, NCHW, NCDHW, and with the channels last NWC, NHWC, NDHWC. weight has MXNet's shape
// (out, in / groups, kernel...); with the channels last (out, kernel..., in / groups).
//
// dtypes: f32, f64, f16, bf16. f16 and bf16 are computed in f32 and rounded once. Operands of
// different floating dtypes are promoted as in NumPy. Sums are added in blocks, in one order for
// any number of threads. All functions are differentiable to any order.
//
// Errors: ShapeError names the axis and the expected length. Options out of range are a ValueError,
// integers and booleans a DTypeError, operands on different contexts a ContextMismatch.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/matmul_attrs.h>
#include <locus/ops/register.h>
#include <locus/ops/spatial_axes.h>

namespace locus {

struct ConvolutionOptions {
  Extent strides = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  std::string_view layout = {};  // unset: channels first
  FusedActivation activation = FusedActivation::none;
};

// Cross-correlation, then the activation:
//   y[n][o][p] = bias[o] + sum over i, k of weight[o][i][k] · x[n][i][p·stride - padding +
//                k·dilation]
// An axis of length n becomes
//   floor((n + 2·padding - dilation·(kernel - 1) - 1) / stride) + 1.
// bias is (out,) or undefined. With groups, the out channels of a group read only the in channels
// of that group.
Tensor convolution(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                   const ConvolutionOptions& = {}, Caller = Caller::here());

struct DeconvolutionOptions {
  Extent strides = 1, padding = 0, dilation = 1;
  Extent adj = 0;  // extra length at the end of the result, 0 <= adj < stride
  int64_t groups = 1;
  std::string_view layout = {};
};

// The transpose of the convolution with this weight, plus bias: MXNet's Deconvolution. weight is
// (in, out / groups, kernel...). An axis of length n becomes
//   (n - 1)·stride - 2·padding + dilation·(kernel - 1) + 1 + adj.
Tensor deconvolution(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                     const DeconvolutionOptions& = {}, Caller = Caller::here());

// The gradient of convolution(x, weight) with respect to weight. dy is the gradient of the result;
// `kernel` is the size of the weight's kernels.
Tensor convolution_weight_grad(const Tensor& x, const Tensor& dy, const Extent& kernel,
                               const ConvolutionOptions& = {}, Caller = Caller::here());

// --- Details ---
//
// - NaN and infinities in the data spread to every result that reads them.
// - Padding counts as 0. In a deconvolution and in a gradient of data, the gaps of strides count as
// 0, too. If such a zero meets a weight that is not finite, the result is unspecified: 0 or NaN.
// The same holds for a gradient of the weight with a dy that is not finite.
// - The plain backward pass of a convolution is one op, with the mask of relu and the sum of the
// bias gradient. With create_graph it is composed of the three functions above, each linear in
// either operand.

}  // namespace locus
