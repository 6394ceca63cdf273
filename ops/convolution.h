// Convolutions over 1, 2 or 3 spatial axes, and their transposes.
//
// Layouts: NCW, NCHW, NCDHW, and with the channels last NWC, NHWC, NDHWC. weight is MXNet's:
// (out, in / groups, kernel...), with the channels last (out, kernel..., in / groups). dtypes f32,
// f64, f16, bf16; the last two are computed in f32 and rounded once; operands of different floating
// dtypes are promoted as NumPy promotes them. Sums are added up in blocks, in the same order each
// time, for any number of threads.
//
// NaN and infinities of data spread to every result that they meet. What lies beyond the data
// (padding; in a deconvolution and in a gradient of data also the gaps of strides) counts as 0.
// What that gives with a weight that is not finite, or in a gradient of the weight with such a dy,
// is unspecified: 0 or NaN.
//
// All are differentiable to any order. The plain backward pass of a convolution is one op, with the
// mask of relu and the sum of the bias gradient; with create_graph it is composed of the three that
// are here, each linear in either operand.
//
// Errors: ShapeError naming the axis and what was expected, ValueError for options, DTypeError for
// integers and booleans, ContextMismatch.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/matmul_attrs.h>
#include <locus/ops/register.h>
#include <locus/ops/spatial_axes.h>

namespace locus {

struct ConvolutionOptions {
  Extent strides = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  std::string_view layout = {};  // unset: the channels first
  Activation activation = Activation::none;
};

// y[n][o][p] = bias[o] + the sum over i, k of weight[o][i][k] · x[n][i][p·stride - padding +
// k·dilation], then the activation: cross-correlation, as all frameworks have it. An axis of length
// n becomes floor((n + 2·padding - dilation·(kernel - 1) - 1) / stride) + 1. bias, when defined, is
// (out,). With groups, the out channels of a group see its in channels alone.
Tensor convolution(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                   const ConvolutionOptions& = {}, Caller = Caller::here());

struct DeconvolutionOptions {
  Extent strides = 1, padding = 0, dilation = 1;
  Extent adj = 0;  // more of the result at its end, 0 <= adj < stride
  int64_t groups = 1;
  std::string_view layout = {};
};

// The transpose of the convolution with this weight, (in, out / groups, kernel...) here, plus bias:
// MXNet's Deconvolution. An axis of length n becomes
// (n - 1)·stride - 2·padding + dilation·(kernel - 1) + 1 + adj.
Tensor deconvolution(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                     const DeconvolutionOptions& = {}, Caller = Caller::here());

// The gradient of convolution(x, weight) by a weight with kernels of this size, where that of the
// result is dy.
Tensor convolution_weight_grad(const Tensor& x, const Tensor& dy, const Extent& kernel,
                               const ConvolutionOptions& = {}, Caller = Caller::here());

}  // namespace locus
