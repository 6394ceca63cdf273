#include <locus/nn/activation_layers.h>

#include <locus/core/base/at_line.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/nn/options.h>
#include <locus/ops/activation.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/softmax.h>
#include <locus/ops/trigonometry.h>

namespace locus::nn {

constinit const Activation relu{"relu", [](const Tensor& x) { return locus::relu(x); },
                                locus::FusedActivation::relu};
constinit const Activation sigmoid{"sigmoid", [](const Tensor& x) { return locus::sigmoid(x); }};
constinit const Activation tanh{"tanh", [](const Tensor& x) { return locus::tanh(x); }};
constinit const Activation softrelu{"softrelu", [](const Tensor& x) { return softplus(x); }};
constinit const Activation softsign{"softsign", [](const Tensor& x) { return locus::softsign(x); }};
constinit const Activation log_sigmoid{"log_sigmoid",
                                       [](const Tensor& x) { return -softplus(-x); }};
constinit const Activation gelu{"gelu", [](const Tensor& x) { return locus::gelu(x); }};
constinit const Activation silu{"silu", [](const Tensor& x) { return locus::silu(x); }};
constinit const Activation mish{"mish", [](const Tensor& x) { return locus::mish(x); }};
constinit const Activation elu{"elu", [](const Tensor& x) { return locus::elu(x); }};
constinit const Activation selu{"selu", [](const Tensor& x) { return locus::selu(x); }};
constinit const Activation relu6{"relu6", [](const Tensor& x) { return clip(x, 0, 6); }};
constinit const Activation hard_sigmoid{"hard_sigmoid",
                                        [](const Tensor& x) { return locus::hard_sigmoid(x); }};
constinit const Activation hard_swish{"hard_swish",
                                      [](const Tensor& x) { return locus::hard_swish(x); }};

Tensor Activation::operator()(const Tensor& x, Caller from) const try {
  const UserLine user_line(from);
  return apply ? apply(x) : x;
} catch (const Error&) {
  rethrow_at(from);
}

Activate::Activate(std::string_view name) {
  static const Activation kAll[] = {relu,        sigmoid,      tanh,       softrelu, softsign,
                                    log_sigmoid, gelu,         silu,       mish,     elu,
                                    selu,        hard_sigmoid, hard_swish, relu6};
  for (const Activation& a : kAll)
    if (a.name == name) {
      activation_ = a;
      return;
    }
  throw ValueError("Activate: no activation '", name, "'; expected one of ",
                   listed(kAll, [](const Activation& a) { return a.name; }));
}

std::string Activate::repr() const { return text_of("Activation(", activation_.name, ")"); }

LeakyReLU::LeakyReLU(double alpha)
    : ActivationLayer([alpha](const Tensor& x) { return leaky_relu(x, alpha); }, text_of(alpha)) {
  options::expect("LeakyReLU", "alpha", alpha, options::not_negative);
}
ELU::ELU(double alpha)
    : ActivationLayer([alpha](const Tensor& x) { return locus::elu(x, alpha); }, text_of(alpha)) {
  options::expect("ELU", "alpha", alpha, options::finite);
}
Swish::Swish(double beta)
    : ActivationLayer([beta](const Tensor& x) { return swish(x, beta); }, text_of(beta)) {
  options::expect("Swish", "beta", beta, options::finite);
}
Hardtanh::Hardtanh(double a_min, double a_max)
    : ActivationLayer([=](const Tensor& x) { return clip(x, a_min, a_max); },
                      text_of(a_min, ", ", a_max)) {
  options::expect("Hardtanh", "a_min", a_min, a_min <= a_max, "at most a_max ", a_max);
}
Softmax::Softmax(int axis)
    : ActivationLayer([axis](const Tensor& x) { return softmax(x, {.axis = axis}); },
                      text_of("axis=", axis)) {}

PReLU::PReLU(const PReLUOptions& o) {
  if (o.in_channels <= 0)
    throw ShapeError("PReLU: in_channels ", o.in_channels, "; expected a number above 0");
  alpha_ = add_parameter("alpha", {o.in_channels}, {.init = o.alpha_initializer, .dtype = o.dtype});
}

Tensor PReLU::forward(const Tensor& x) {
  const Tensor alpha = alpha_.data(x.context());
  const bool fits = x.dtype() == alpha.dtype() || !is_floating(x.dtype());
  return prelu(x, fits ? alpha : alpha.astype(x.dtype()));
}

std::string PReLU::repr() const { return text_of("PReLU(", alpha_.shape()[0], ")"); }

}  // namespace locus::nn
