#include <locus/nn/norm_layers.h>

#include <algorithm>

#include <locus/core/error.h>
#include <locus/ops/norm.h>

namespace locus::nn {
namespace {

const char* text(bool b) { return b ? "True" : "False"; }

}  // namespace

void NormLayer::add_gamma(int64_t channels, bool scale, const Init& init, DType dtype) {
  if (channels < 0)
    throw ShapeError(type_name(), ": in_channels ", channels,
                     "; expected a number >= 0, 0: not known yet");
  gamma_ =
      add_parameter("gamma", {channels}, {.differentiable = scale, .init = init, .dtype = dtype});
}

Parameter NormLayer::add(const char* name, bool differentiable, const Init& init) {
  return others_.emplace_back(
      add_parameter(name, gamma_.shape(),
                    {.differentiable = differentiable, .init = init, .dtype = gamma_.dtype()}));
}

void NormLayer::prepare(const Tensor& x, int axis, int least_axes) {
  const int axes = x.ndim(), at = axis < 0 ? axis + axes : axis;
  if (axes < least_axes || at < 0 || at >= axes)
    throw ShapeError(type_name(), ": input ", describe(x), "; expected at least ",
                     std::max(least_axes, axis < 0 ? -axis : axis + 1), " axes, with an axis ",
                     axis, " of channels");
  if ((inexact(x.dtype()) == f64) != (gamma_.dtype() == f64))
    throw DTypeError(type_name(), ": input ", describe(x), "; expected ",
                     gamma_.dtype() == f64 ? "f64, as" : "f32, f16 or bf16 with",
                     " the layer's parameters, which are ", name(gamma_.dtype()),
                     "; x.astype() casts the input");
  const int64_t n = x.shape()[at], known = gamma_.shape()[0];
  if (n == 0)
    throw ShapeError(type_name(), ": input ", describe(x),
                     " has no channels; expected at least one on axis ", axis);
  if (known != 0 && known != n)
    throw ShapeError(type_name(), ": input ", describe(x), "; expected ", known,
                     " channels on axis ", axis);
  if (gamma_.initialized() || !gamma_.deferred()) return;
  for (const Parameter& p : others_) p.infer_shape({n});
  gamma_.infer_shape({n});  // last: other threads check gamma only
}

std::string NormLayer::channels() const { return std::to_string(gamma_.shape()[0]); }

BatchNorm::BatchNorm(const BatchNormOptions& o) : options_(o) {
  options::expect("BatchNorm", "momentum", o.momentum, options::share);
  add_affine(o);
  running_mean_ = add("running_mean", false, o.running_mean_initializer);
  running_var_ = add("running_var", false, o.running_variance_initializer);
}

Tensor BatchNorm::forward(const Tensor& x) {
  prepare(x, options_.axis, 1);
  const Context c = x.context();
  return batch_norm(x, gamma_.data(c), beta_.data(c), running_mean_.data(c), running_var_.data(c),
                    norm());
}

locus::BatchNormOptions BatchNorm::norm() const {
  return {.axis = options_.axis,
          .momentum = options_.momentum,
          .epsilon = options_.epsilon,
          .use_global_stats = options_.use_global_stats};
}

std::string BatchNorm::repr() const {
  return text_of(type_name(), "(axis=", options_.axis, ", eps=", options_.epsilon,
                 ", momentum=", options_.momentum, ", fix_gamma=", text(!options_.scale),
                 ", use_global_stats=", text(options_.use_global_stats),
                 ", in_channels=", channels() == "0" ? "None" : channels(), ")");
}

LayerNorm::LayerNorm(const LayerNormOptions& o) : options_(o) { add_affine(o); }

Tensor LayerNorm::forward(const Tensor& x) {
  prepare(x, options_.axis, 1);
  return layer_norm(x, gamma_.data(x.context()), beta_.data(x.context()),
                    {.axis = options_.axis, .epsilon = options_.epsilon});
}

std::string LayerNorm::repr() const {
  return text_of("LayerNorm(eps=", options_.epsilon, ", axis=", options_.axis,
                 ", center=", text(options_.center), ", scale=", text(options_.scale),
                 ", in_channels=", channels(), ")");
}

GroupNorm::GroupNorm(const GroupNormOptions& o) : options_(o) {
  options::expect("GroupNorm", "num_groups", o.num_groups, options::count);
  add_affine(o);
}

Tensor GroupNorm::forward(const Tensor& x) {
  prepare(x, 1, 2);
  return group_norm(x, gamma_.data(x.context()), beta_.data(x.context()),
                    {.num_groups = options_.num_groups, .epsilon = options_.epsilon});
}

std::string GroupNorm::repr() const {
  return text_of("GroupNorm(eps=", options_.epsilon, ", num_groups=", options_.num_groups,
                 ", center=", text(options_.center), ", scale=", text(options_.scale),
                 ", in_channels=", channels(), ")");
}

InstanceNorm::InstanceNorm(const InstanceNormOptions& o) : options_(o) { add_affine(o); }

Tensor InstanceNorm::forward(const Tensor& x) {
  prepare(x, options_.axis, 2);
  return instance_norm(x, gamma_.data(x.context()), beta_.data(x.context()),
                       {.axis = options_.axis, .epsilon = options_.epsilon});
}

std::string InstanceNorm::repr() const {
  return text_of("InstanceNorm(eps=", options_.epsilon, ", axis=", options_.axis,
                 ", center=", text(options_.center), ", scale=", text(options_.scale),
                 ", in_channels=", channels(), ")");
}

RMSNorm::RMSNorm(const RMSNormOptions& o) : options_(o) { add_affine(o); }

Tensor RMSNorm::forward(const Tensor& x) {
  prepare(x, options_.axis, 1);
  return rms_norm(x, gamma_.data(x.context()),
                  {.axis = options_.axis, .epsilon = options_.epsilon});
}

std::string RMSNorm::repr() const {
  return text_of("RMSNorm(eps=", options_.epsilon, ", axis=", options_.axis,
                 ", scale=", text(options_.scale), ", in_channels=", channels(), ")");
}

}  // namespace locus::nn
