#include <locus/ops/convolution.h>

#include <algorithm>

#include <locus/core/amp.h>
#include <locus/core/base/at_line.h>
#include <locus/core/observe/memory_events.h>
#include <locus/core/op.h>
#include <locus/ops/call_check.h>
#include <locus/ops/convolution/convolution_kernel.h>
#include <locus/ops/convolution/convolution_samples.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/reduce.h>
#include <locus/ops/view.h>

namespace locus {
namespace {

struct Axes {
  explicit Axes(const Meta& m, const ConvolutionAttrs& a)
      : count(m.rank - 2),
        first(a.channels_last ? 1 : 2),
        channel(a.channels_last ? m.rank - 1 : 1) {}
  int count, first, channel;
};

int64_t at_least(int64_t v, int64_t least, const char* what, int axis) {
  if (v < least)
    throw ValueError("expected ", what, " of at least ", least, ", got ", v, " for spatial axis ",
                     axis);
  return v;
}

void check_ranks(const Meta& x, const char* what, const Meta& w, const char* other) {
  if (x.rank < 3 || x.rank > 5 || w.rank != x.rank)
    throw ShapeError("expected ", what, " with 1 to 3 spatial axes, rank 3 to 5, and ", other,
                     " of the same rank, got ", Shape(x), " and ", Shape(w));
}

void check_groups(int64_t channels, int axis, const char* what, int64_t groups) {
  if (groups < 1) throw ValueError("expected groups of at least 1, got ", groups);
  if (channels % groups != 0)
    throw ShapeError("expected axis ", axis, " of ", what, ", its ", channels,
                     " channels, to be a multiple of groups ", groups);
}

// The result's length along spatial axis `i`.
int64_t convolved(int64_t n, int64_t kernel, const ConvolutionAttrs& a, int i, int axis) {
  at_least(kernel, 1, "a kernel", i);
  const int64_t span = kernel_span(kernel, at_least(a.dilation[i], 1, "a dilation", i));
  const int64_t length = convolved_length(n, span, at_least(a.stride[i], 1, "a stride", i),
                                          at_least(a.padding[i], 0, "a padding", i));
  if (length == 0)
    throw ShapeError("expected axis ", axis, " of the data, ", n, " long with ", a.padding[i],
                     " of padding on both sides, to be at least the ", span,
                     " that the kernel spans: ", kernel, " at dilation ", a.dilation[i]);
  return length;
}

DType infer_convolution(std::span<const Meta> in, const ConvolutionAttrs& a, std::span<Meta> out) {
  const Meta &x = in[0], &w = in[1];
  detail::check_activation(a.activation);
  check_ranks(x, "data", w, "weight");
  const Axes axes(x, a);
  const int64_t channels = x.shape[axes.channel];
  check_groups(channels, axes.channel, "data", a.groups);
  check_groups(w.shape[0], 0, "weight", a.groups);
  if (w.shape[axes.channel] != channels / a.groups)
    throw ShapeError("expected axis ", axes.channel, " of weight to be ", channels / a.groups,
                     ": data's ", channels, " channels (axis ", axes.channel, ") in ", a.groups,
                     a.groups == 1 ? " group" : " groups", ", got ", w.shape[axes.channel]);
  if (in.size() == 3 && (in[2].rank != 1 || in[2].shape[0] != w.shape[0]))
    throw ShapeError("expected bias (", w.shape[0], ",) for weight ", Shape(w), ", got ",
                     Shape(in[2]));
  out[0] = x;
  out[0].shape[axes.channel] = w.shape[0];
  for (int i = 0; i < axes.count; ++i) {
    const int axis = axes.first + i;
    out[0].shape[axis] = convolved(x.shape[axis], w.shape[axis], a, i, axis);
  }
  return one_dtype(in);
}

// ShapeError unless the convolution of `data` with `weight` has the shape of `y`.
void check_result(const Meta& data, const Meta& weight, const Meta& y, const char* what,
                  const ConvolutionAttrs& a) {
  const Meta both[] = {data, weight};
  Meta expected[1];
  infer_convolution(both, a, expected);
  if (Shape(expected[0]) != Shape(y))
    throw ShapeError("expected ", what, " ", Shape(expected[0]), ", the convolution of data ",
                     Shape(data), " with weight ", Shape(weight), ", got ", Shape(y));
}

DType infer_deconvolution(std::span<const Meta> in, const ConvolutionAttrs& a,
                          std::span<Meta> out) {
  const Meta &y = in[0], &w = in[1];
  check_ranks(y, "data", w, "weight");
  const Axes axes(y, a);
  if (a.groups < 1) throw ValueError("expected groups of at least 1, got ", a.groups);
  if (y.shape[axes.channel] != w.shape[0])
    throw ShapeError("expected axis 0 of weight to be ", y.shape[axes.channel],
                     ", data's channels (axis ", axes.channel, "), got ", w.shape[0]);
  if (w.shape[0] % a.groups != 0)
    throw ShapeError("expected axis 0 of weight, its ", w.shape[0],
                     " channels, to be a multiple of groups ", a.groups);
  const int64_t channels = w.shape[axes.channel] * a.groups;
  if (in.size() == 3 && (in[2].rank != 1 || in[2].shape[0] != channels))
    throw ShapeError("expected bias (", channels, ",) for weight ", Shape(w), " and ", a.groups,
                     " groups, got ", Shape(in[2]));
  out[0] = y;
  out[0].shape[axes.channel] = channels;
  for (int i = 0; i < axes.count; ++i) {
    if (a.size[i] < 1)
      throw ShapeError("expected a result of at least 1 along axis ", axes.first + i,
                       ": less padding, or more data; got ", a.size[i]);
    out[0].shape[axes.first + i] = a.size[i];
  }
  check_result(out[0], w, y, "data", a);
  return one_dtype(in);
}

DType infer_weight_grad(std::span<const Meta> in, const ConvolutionAttrs& a, std::span<Meta> out) {
  const Meta &x = in[0], &dy = in[1];
  check_ranks(x, "data", dy, "dy");
  const Axes axes(x, a);
  check_groups(x.shape[axes.channel], axes.channel, "data", a.groups);
  out[0] = x;
  out[0].shape[0] = dy.shape[axes.channel];
  out[0].shape[axes.channel] = x.shape[axes.channel] / a.groups;
  for (int i = 0; i < axes.count; ++i) out[0].shape[axes.first + i] = a.size[i];
  check_result(x, out[0], dy, "dy", a);
  return one_dtype(in);
}

DType infer_backward(std::span<const Meta> in, const ConvolutionBackwardAttrs& a,
                     std::span<Meta> out) {
  const bool relu = a.convolution.activation == FusedActivation::relu;
  const size_t expected = relu ? 4 : 3;
  if (in.size() != expected) throw ShapeError("expected ", expected, " operands, got ", in.size());
  check_result(in[1], in[2], in[0], "dy", a.convolution);
  if (relu && Shape(in[3]) != Shape(in[0]))
    throw ShapeError("expected y to be like dy ", Shape(in[0]), ", got ", Shape(in[3]));
  const int64_t none[] = {0};
  const Meta empty = make_meta(in[0].dtype, none);
  out[0] = a.data ? in[1] : empty;
  out[1] = a.weight ? in[2] : empty;
  out[2] = a.bias ? make_meta(in[0].dtype, std::span(in[2].shape, 1)) : empty;
  return one_dtype(in);
}

// Gradients. y = convolution(x, w), x' = deconvolution(y', w) and w' = weight_grad(x, y') contract
// one trilinear form. The gradients of each are the other two.

const OpRef<ConvolutionAttrs>& convolution_op() {
  static const OpRef<ConvolutionAttrs> op("convolution");
  return op;
}
Tensor convolve(const Tensor& x, const Tensor& w, ConvolutionAttrs a) {
  a.activation = FusedActivation::none;
  return invoke(convolution_op(), {x, w}, a);
}
// `a` with the spatial lengths of `m` as sizes.
ConvolutionAttrs sized(ConvolutionAttrs a, const Meta& m) {
  const Axes axes(m, a);
  a.activation = FusedActivation::none;
  for (int i = 0; i < axes.count; ++i) a.size[i] = m.shape[axes.first + i];
  return a;
}
Tensor data_gradient(const Tensor& dy, const Tensor& w, const Meta& x, const ConvolutionAttrs& a) {
  static const OpRef<ConvolutionAttrs> op("deconvolution");
  return invoke(op, {dy, w}, sized(a, x));
}
Tensor weight_gradient(const Tensor& x, const Tensor& dy, const Meta& w,
                       const ConvolutionAttrs& a) {
  static const OpRef<ConvolutionAttrs> op("convolution_weight_grad");
  return invoke(op, {x, dy}, sized(a, w));
}

// The gradient of the bias. dz is like the result.
Tensor bias_gradient(const Tensor& dz, const Saved& saved, const ConvolutionAttrs& a) {
  const Axes axes(saved.out_meta(), a);
  int64_t dims[kMaxRank] = {1, 1, 1, 1, 1};
  dims[axes.channel] = dz.shape()[axes.channel];
  return sum_to(dz, Shape(dims, dz.ndim())).reshape(saved.in_shape(2));
}

Tensors convolution_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<BinaryAttrs> relu_grad("relu_grad");
  const auto& a = saved.attrs<ConvolutionAttrs>();
  const bool relu = a.activation == FusedActivation::relu;
  const Tensor dz = relu ? invoke(relu_grad, {dout[0], saved.out()}, BinaryAttrs{}) : dout[0];
  Tensors gradients(static_cast<size_t>(saved.n_in()));
  if (saved.needs(0)) gradients[0] = data_gradient(dz, saved.in(1), saved.in_meta(0), a);
  if (saved.needs(1)) gradients[1] = weight_gradient(saved.in(0), dz, saved.in_meta(1), a);
  if (saved.n_in() == 3 && saved.needs(2)) gradients[2] = bias_gradient(dz, saved, a);
  return gradients;
}

// Only relu's mask reads the result.
Keep convolution_keeps(const ConvolutionAttrs& a) {
  return a.activation == FusedActivation::relu ? Keep::both : Keep::inputs;
}

Tensors convolution_fused_gradient(const Saved& saved, std::span<const Tensor> dout) {
  static const OpRef<ConvolutionBackwardAttrs> op("convolution_backward");
  const bool bias = saved.n_in() == 3 && saved.needs(2);
  const Ref in[] = {dout[0], saved.in(0), saved.in(1), saved.out()};
  const ConvolutionBackwardAttrs attrs{saved.attrs<ConvolutionAttrs>(), saved.needs(0),
                                       saved.needs(1), bias};
  const bool relu = attrs.convolution.activation == FusedActivation::relu;
  Tensors gradients{saved.place(0), saved.place(1), bias ? saved.place(2) : Tensor()};
  gradients = invoke_all(op, {in, relu ? 4u : 3u}, attrs, std::move(gradients));
  gradients.resize(static_cast<size_t>(saved.n_in()));
  return gradients;
}

Tensors deconvolution_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const auto& a = saved.attrs<ConvolutionAttrs>();
  Tensors gradients(static_cast<size_t>(saved.n_in()));
  if (saved.needs(0)) gradients[0] = convolve(dout[0], saved.in(1), a);
  if (saved.needs(1)) gradients[1] = weight_gradient(dout[0], saved.in(0), saved.in_meta(1), a);
  if (saved.n_in() == 3 && saved.needs(2)) gradients[2] = bias_gradient(dout[0], saved, a);
  return gradients;
}

Tensors weight_grad_gradient(const Saved& saved, std::span<const Tensor> dout) {
  const auto& a = saved.attrs<ConvolutionAttrs>();
  Tensors gradients(2);
  if (saved.needs(0)) gradients[0] = data_gradient(saved.in(1), dout[0], saved.in_meta(0), a);
  if (saved.needs(1)) gradients[1] = convolve(saved.in(0), dout[0], a);
  return gradients;
}

Tensor as(const Tensor& x, DType d) { return x.dtype() == d ? x : x.astype(d); }

// The attributes for data of this rank.
template <class Options>
ConvolutionAttrs attrs_of(const Options& o, int rank, const char* op) {
  if (rank < 3 || rank > 5)
    throw ShapeError(op, ": expected data with 1 to 3 spatial axes, rank 3 to 5, got rank ", rank);
  ConvolutionAttrs a;
  o.strides.spread(rank - 2, op, "strides", a.stride);
  o.padding.spread(rank - 2, op, "padding", a.padding);
  o.dilation.spread(rank - 2, op, "dilation", a.dilation);
  a.groups = o.groups;
  a.channels_last = channels_last(o.layout, rank - 2, op);
  return a;
}

}  // namespace

Tensor convolution(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const ConvolutionOptions& o, Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("convolution", x);
  detail::expect_tensor("convolution", weight, "weight");
  if (amp::narrows({&x, &weight, &bias})) [[unlikely]]
    return convolution(amp::narrow(x), amp::narrow(weight), amp::narrow(bias), o);
  detail::expect_floating("convolution", {{"data", &x}, {"weight", &weight}, {"bias", &bias}});
  DType d = promote(x.dtype(), weight.dtype());
  if (bias.defined()) d = promote(d, bias.dtype());
  ConvolutionAttrs a = attrs_of(o, x.ndim(), "convolution");
  a.activation = o.activation;
  const Tensor data = as(x, d), w = as(weight, d);
  return bias.defined() ? invoke(convolution_op(), {data, w, as(bias, d)}, a)
                        : invoke(convolution_op(), {data, w}, a);
} catch (const Error&) {
  rethrow_at(from);
}

Tensor deconvolution(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const DeconvolutionOptions& o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<ConvolutionAttrs> op("deconvolution");
  detail::expect_tensor("deconvolution", x);
  detail::expect_tensor("deconvolution", weight, "weight");
  if (amp::narrows({&x, &weight, &bias})) [[unlikely]]
    return deconvolution(amp::narrow(x), amp::narrow(weight), amp::narrow(bias), o);
  detail::expect_floating("deconvolution", {{"data", &x}, {"weight", &weight}, {"bias", &bias}});
  const int rank = x.ndim();
  ConvolutionAttrs a = attrs_of(o, rank, "deconvolution");
  if (weight.ndim() != rank)
    throw ShapeError("deconvolution: expected weight of data's rank ", rank, ", got ",
                     weight.shape());
  int64_t adj[kMaxSpatial];
  o.adj.spread(rank - 2, "deconvolution", "adj", adj);
  for (int i = 0; i < rank - 2; ++i) {
    const int axis = (a.channels_last ? 1 : 2) + i;
    if (adj[i] < 0 || adj[i] >= std::max<int64_t>(a.stride[i], 1))
      throw ValueError("deconvolution: expected 0 <= adj < stride ", a.stride[i],
                       " for spatial axis ", i, ", got ", adj[i]);
    a.size[i] = (x.shape()[axis] - 1) * a.stride[i] - 2 * a.padding[i] +
                kernel_span(weight.shape()[axis], a.dilation[i]) + adj[i];
  }
  DType d = promote(x.dtype(), weight.dtype());
  if (bias.defined()) d = promote(d, bias.dtype());
  const Tensor data = as(x, d), w = as(weight, d);
  return bias.defined() ? invoke(op, {data, w, as(bias, d)}, a) : invoke(op, {data, w}, a);
} catch (const Error&) {
  rethrow_at(from);
}

Tensor convolution_weight_grad(const Tensor& x, const Tensor& dy, const Extent& kernel,
                               const ConvolutionOptions& o, Caller from) try {
  const UserLine user_line(from);
  static const OpRef<ConvolutionAttrs> op("convolution_weight_grad");
  detail::expect_tensor("convolution_weight_grad", x);
  detail::expect_tensor("convolution_weight_grad", dy, "dy");
  detail::expect_floating("convolution_weight_grad", {{"data", &x}, {"dy", &dy}});
  ConvolutionAttrs a = attrs_of(o, x.ndim(), "convolution_weight_grad");
  kernel.spread(x.ndim() - 2, "convolution_weight_grad", "kernel", a.size);
  const DType d = promote(x.dtype(), dy.dtype());
  return invoke(op, {as(x, d), as(dy, d)}, a);
} catch (const Error&) {
  rethrow_at(from);
}

void register_convolution() {
  OpDef<ConvolutionAttrs>("convolution", {"data", "weight", "bias"})
      .inputs(2, 3)
      .infer<&infer_convolution>()
      .gradient<&convolution_gradient>(Keep::inputs)
      .keeps<&convolution_keeps>()
      .fused_gradient<&convolution_fused_gradient>()
      .samples<&convolution_samples::forward>();
  OpDef<ConvolutionAttrs>("deconvolution", {"data", "weight", "bias"})
      .inputs(2, 3)
      .infer<&infer_deconvolution>()
      .gradient<&deconvolution_gradient>(Keep::inputs)
      .samples<&convolution_samples::transpose>();
  OpDef<ConvolutionAttrs>("convolution_weight_grad", {"data", "dy"})
      .infer<&infer_weight_grad>()
      .gradient<&weight_grad_gradient>(Keep::inputs)
      .samples<&convolution_samples::weight_grad>();
  OpDef<ConvolutionBackwardAttrs>("convolution_backward", {"dy", "data", "weight", "y"})
      .inputs(3, 4)
      .outputs(3)
      .infer<&infer_backward>()
      .no_gradient(
          "the first order only: with create_graph convolution is differentiated through "
          "deconvolution and convolution_weight_grad")
      .samples<&convolution_samples::backward>();
}

}  // namespace locus
