#include <locus/nn/conv_layers.h>

#include <algorithm>

#include <locus/core/error.h>
#include <locus/ops/convolution.h>

namespace locus::nn {

ConvLayer::ConvLayer(int axes, int64_t channels, const Extent& kernel, const ConvOptions& o)
    : axes_(axes), transposed_(false), channels_(channels) {
  create(kernel, o);
}

ConvLayer::ConvLayer(int axes, int64_t channels, const Extent& kernel,
                     const ConvTransposeOptions& o)
    : axes_(axes), transposed_(true), channels_(channels) {
  o.output_padding.spread(axes, name(), "output_padding", output_padding_);
  create(kernel, {o.strides, o.padding, o.dilation, o.groups, o.layout, o.activation, o.use_bias,
                  o.weight_initializer, o.bias_initializer, o.in_channels, o.dtype});
}

void ConvLayer::create(const Extent& kernel, const ConvOptions& o) {
  groups_ = o.groups;
  activation_ = o.activation;
  channels_last_ = channels_last(o.layout, axes_, name());
  kernel.spread(axes_, name(), "kernel", kernel_);
  o.strides.spread(axes_, name(), "strides", strides_);
  o.padding.spread(axes_, name(), "padding", padding_);
  o.dilation.spread(axes_, name(), "dilation", dilation_);
  if (channels_ <= 0 || groups_ <= 0 || o.in_channels < 0 || channels_ % groups_ != 0 ||
      o.in_channels % groups_ != 0)
    throw ShapeError(name(), ": channels ", channels_, ", in_channels ", o.in_channels, ", groups ",
                     groups_, "; expected channels > 0, both multiples of groups");
  for (int i = 0; i < axes_; ++i)
    if (kernel_[i] < 1 || strides_[i] < 1 || padding_[i] < 0 || dilation_[i] < 1 ||
        output_padding_[i] < 0 || output_padding_[i] >= strides_[i])
      throw ValueError(name(), ": kernel ", kernel_[i], ", stride ", strides_[i], ", padding ",
                       padding_[i], ", dilation ", dilation_[i], ", output_padding ",
                       output_padding_[i], " for spatial axis ", i,
                       "; expected kernel, stride and dilation > 0, padding >= 0, 0 <= "
                       "output_padding < stride");
  weight_ = add_parameter("weight", weight_shape(o.in_channels),
                          {.init = o.weight_initializer, .dtype = o.dtype});
  if (o.use_bias)
    bias_ = add_parameter(
        "bias", {channels_},
        {.init = o.bias_initializer ? o.bias_initializer : init::Zero(), .dtype = o.dtype});
}

Shape ConvLayer::weight_shape(int64_t in) const {
  int64_t dims[kMaxSpatial + 2] = {transposed_ ? in : channels_};
  dims[channels_last_ ? axes_ + 1 : 1] = (transposed_ ? channels_ : in) / groups_;
  std::copy_n(kernel_, axes_, dims + (channels_last_ ? 1 : 2));
  return Shape(dims, axes_ + 2);
}

void ConvLayer::check(const Tensor& x) const {
  const std::string_view layout = layout_name(channels_last_, axes_);
  const int channel = channels_last_ ? axes_ + 1 : 1;
  const Shape shape = x.shape();
  if (shape.rank() != axes_ + 2)
    throw ShapeError(name(), ": input ", describe(x), "; expected ", axes_ + 2, " axes, ", layout);
  const int64_t in = shape[channel];
  if (in == 0)
    throw ShapeError(name(), ": input ", describe(x), " has no channels; expected at least one on ",
                     "axis ", channel, " (", layout, ")");
  const Shape weight = weight_.shape();  // read once: another thread may complete it
  if (weight_shape(in) == weight && in % groups_ == 0) return;
  const int64_t known = transposed_ ? weight[0] : weight[channel] * groups_;
  if (known != 0)
    throw ShapeError(name(), ": input ", describe(x), "; expected ", known, " channels on axis ",
                     channel, " (", layout, "), got ", in);
  if (in % groups_ != 0)
    throw ShapeError(name(), ": input ", describe(x), "; expected channels on axis ", channel, " (",
                     layout, "), a multiple of groups ", groups_, ", got ", in);
  if (weight_.deferred()) weight_.infer_shape(weight_shape(in));
}

Tensor ConvLayer::forward(const Tensor& x) {
  check(x);
  refuse_other_dtype(x, weight_);
  const Context where = x.context();
  const Tensor weight = weight_.data(where);
  const Tensor bias = bias_.valid() ? bias_.data(where) : Tensor();
  const auto extent = [&](const int64_t(&v)[kMaxSpatial]) {
    return axes_ == 1 ? Extent{v[0]} : axes_ == 2 ? Extent{v[0], v[1]} : Extent{v[0], v[1], v[2]};
  };
  const Extent strides = extent(strides_), padding = extent(padding_), dilation = extent(dilation_);
  const std::string_view layout = layout_name(channels_last_, axes_);
  const Tensor y =
      transposed_
          ? deconvolution(x, weight, bias,
                          {strides, padding, dilation, extent(output_padding_), groups_, layout})
          : convolution(x, weight, bias,
                        {strides, padding, dilation, groups_, layout, activation_.fused});
  return !transposed_ && activation_.fused != locus::FusedActivation::none ? y : activation_(y);
}

std::string ConvLayer::name() const {
  return text_of("Conv", axes_, transposed_ ? "DTranspose" : "D");
}

std::string ConvLayer::repr() const {
  const auto tuple = [&](const int64_t(&v)[kMaxSpatial]) {
    std::string text = "(" + std::to_string(v[0]);
    for (int i = 1; i < axes_; ++i) text += ", " + std::to_string(v[i]);
    return text + (axes_ == 1 ? ",)" : ")");
  };
  const auto all = [&](const int64_t(&v)[kMaxSpatial], int64_t value) {
    return std::all_of(v, v + axes_, [&](int64_t e) { return e == value; });
  };
  const Shape weight = weight_.shape();
  const int64_t in = transposed_ ? weight[0] : weight[channels_last_ ? axes_ + 1 : 1];
  std::string text = text_of(name(), "(", in == 0 ? "None" : std::to_string(in), " -> ", channels_,
                             ", kernel_size=", tuple(kernel_), ", stride=", tuple(strides_));
  if (!all(padding_, 0)) text += ", padding=" + tuple(padding_);
  if (!all(dilation_, 1)) text += ", dilation=" + tuple(dilation_);
  if (!all(output_padding_, 0)) text += ", output_padding=" + tuple(output_padding_);
  if (groups_ != 1) text += ", groups=" + std::to_string(groups_);
  if (!bias_.valid()) text += ", bias=False";
  if (activation_.apply != nullptr) text += text_of(", Activation(", activation_.name, ")");
  return text + ")";
}

}  // namespace locus::nn
