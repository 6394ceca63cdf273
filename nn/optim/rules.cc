// The optimizers of the library: ranges of their options, numbers of their ops, names.
#include <algorithm>
#include <cctype>
#include <cmath>

#include <locus/core/base/at_line.h>
#include <locus/core/error.h>
#include <locus/nn/optimizer.h>
#include <locus/nn/options.h>

namespace locus::optim {
namespace {

using options::decay, options::expect, options::not_negative;

// Calls f for each option of o. Equal names have equal ranges.
void each_option(auto& o, const auto& f) {
  f("learning_rate", o.learning_rate, not_negative);
  f("wd", o.wd, not_negative);
  f("clip_gradient", o.clip_gradient, not_negative);
  f("multi_precision", o.multi_precision);
  if constexpr (requires { o.momentum; }) f("momentum", o.momentum, decay);
  if constexpr (requires { o.beta1; }) f("beta1", o.beta1, decay);
  if constexpr (requires { o.beta2; }) f("beta2", o.beta2, decay);
  if constexpr (requires { o.gamma1; }) f("gamma1", o.gamma1, decay);
  if constexpr (requires { o.gamma2; }) f("gamma2", o.gamma2, decay);
  if constexpr (requires { o.rho; }) f("rho", o.rho, decay);
  if constexpr (requires { o.epsilon; }) f("epsilon", o.epsilon, not_negative);
  if constexpr (requires { o.schedule_decay; }) f("schedule_decay", o.schedule_decay, not_negative);
  if constexpr (requires { o.lamda1; }) f("lamda1", o.lamda1, not_negative);
  if constexpr (requires { o.beta; }) f("beta", o.beta, not_negative);
  if constexpr (requires { o.wd_lh; }) f("wd_lh", o.wd_lh, not_negative);
  if constexpr (requires { o.eta; }) f("eta", o.eta, not_negative);
  if constexpr (requires { o.clip_weights; }) f("clip_weights", o.clip_weights, not_negative);
  if constexpr (requires { o.lower_bound; }) f("lower_bound", o.lower_bound, not_negative);
  if constexpr (requires { o.upper_bound; }) f("upper_bound", o.upper_bound, not_negative);
  if constexpr (requires { o.correct_bias; }) f("correct_bias", o.correct_bias);
  if constexpr (requires { o.bias_correction; }) f("bias_correction", o.bias_correction);
  if constexpr (requires { o.centered; }) f("centered", o.centered);
}

template <class Options>
Optimizer::Common checked(const std::string& who, Options o, Caller from) try {
  each_option(o, [&]<class T>(const char* name, T& value, const auto&... range) {
    if constexpr (!std::is_same_v<T, bool>) expect(who, name, value, range...);
  });
  return {o.learning_rate, o.wd, o.clip_gradient, o.multi_precision};
} catch (const Error&) {
  rethrow_at(from);
}

// 1 - beta^t, also for beta near 1.
double corrected(double beta, int64_t t) {
  return -std::expm1(static_cast<double>(t) * std::log(beta));
}

// Nadam's product of momenta up to t: beta1^t times all 1 - q^i / 2. Its logarithm is the sum over
// k of -(q^k + ... + q^kt) / (k 2^k), geometric series.
double product_of_momenta(const NadamOptions& o, double t) {
  const double log_q = o.schedule_decay * std::log(0.96);
  double sum = t * std::log(o.beta1);
  for (int k = 1; k <= 60; ++k) {
    const double step = k * log_q;
    const double series = step == 0 ? t : std::exp(step) * std::expm1(t * step) / std::expm1(step);
    sum -= std::ldexp(series, -k) / k;
  }
  return std::exp(sum);
}

}  // namespace

SGD::SGD(const SGDOptions& o, Caller from) : Optimizer("SGD", checked("SGD", o, from)) {
  use<SGDUpdate>(o.momentum == 0 ? sgd_update : sgd_mom_update,
                 [o](auto& u, int64_t) { u.momentum = o.momentum; });
}

NAG::NAG(const NAGOptions& o, Caller from) : Optimizer("NAG", checked("NAG", o, from)) {
  use<SGDUpdate>(o.momentum == 0 ? sgd_update : nag_mom_update,
                 [o](auto& u, int64_t) { u.momentum = o.momentum; });
}

Adam::Adam(const AdamOptions& o, Caller from) : Optimizer("Adam", checked("Adam", o, from)) {
  use<AdamUpdate>(adam_update, [o](auto& u, int64_t t) {
    u.lr *= std::sqrt(corrected(o.beta2, t)) / corrected(o.beta1, t);
    u.beta1 = o.beta1;
    u.beta2 = o.beta2;
    u.epsilon = o.epsilon;
  });
}

AdamW::AdamW(const AdamWOptions& o, Caller from) : Optimizer("AdamW", checked("AdamW", o, from)) {
  use<AdamWUpdate>(adamw_update, [o](auto& u, int64_t t) {
    u.eta = u.lr;
    u.lr = o.correct_bias ? std::sqrt(corrected(o.beta2, t)) / corrected(o.beta1, t) : 1;
    u.beta1 = o.beta1;
    u.beta2 = o.beta2;
    u.epsilon = o.epsilon;
  });
}

Adamax::Adamax(const AdamaxOptions& o, Caller from)
    : Optimizer("Adamax", checked("Adamax", o, from)) {
  use<AdamUpdate>(adamax_update, [o](auto& u, int64_t t) {
    u.lr /= corrected(o.beta1, t);
    u.beta1 = o.beta1;
    u.beta2 = o.beta2;
    u.epsilon = o.epsilon;
  });
}

Nadam::Nadam(const NadamOptions& o, Caller from) : Optimizer("Nadam", checked("Nadam", o, from)) {
  use<NadamUpdate>(nadam_update, [o](auto& u, int64_t t) {
    const auto momentum = [&](int64_t i) {
      return o.beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(i) * o.schedule_decay));
    };
    u.beta1 = o.beta1;
    u.beta2 = o.beta2;
    u.epsilon = o.epsilon;
    u.momentum = momentum(t);
    u.next_momentum = momentum(t + 1);
    u.schedule = product_of_momenta(o, static_cast<double>(t));
    u.correction2 = corrected(o.beta2, t);
  });
}

RMSProp::RMSProp(const RMSPropOptions& o, Caller from)
    : Optimizer("RMSProp", checked("RMSProp", o, from)) {
  use<RMSPropUpdate>(o.centered ? rmspropalex_update : rmsprop_update, [o](auto& u, int64_t) {
    u.gamma1 = o.gamma1;
    u.gamma2 = o.gamma2;
    u.epsilon = o.epsilon;
    u.clip_weights = o.clip_weights.value_or(-1);
  });
}

AdaGrad::AdaGrad(const AdaGradOptions& o, Caller from)
    : Optimizer("AdaGrad", checked("AdaGrad", o, from)) {
  use<AdaGradUpdate>(adagrad_update, [o](auto& u, int64_t) { u.epsilon = o.epsilon; });
}

AdaDelta::AdaDelta(const AdaDeltaOptions& o, Caller from)
    : Optimizer("AdaDelta", checked("AdaDelta", o, from)) {
  use<AdaDeltaUpdate>(adadelta_update, [o](auto& u, int64_t) {
    u.rho = o.rho;
    u.epsilon = o.epsilon;
  });
}

Ftrl::Ftrl(const FtrlOptions& o, Caller from)
    : Optimizer("Ftrl", checked("Ftrl", o, from), options::positive, from) {  // divides by the rate
  use<FtrlUpdate>(ftrl_update, [o](auto& u, int64_t) {
    u.lamda1 = o.lamda1;
    u.beta = o.beta;
  });
}

Signum::Signum(const SignumOptions& o, Caller from) try
    : Optimizer("Signum", checked("Signum", o, from)) {
  expect(name(), "wd_lh", o.wd_lh, o.momentum > 0 || o.wd_lh == 0, "0 without momentum");
  use<SignumUpdate>(o.momentum == 0 ? signsgd_update : signum_update, [o](auto& u, int64_t) {
    u.momentum = o.momentum;
    u.wd_lh = o.wd_lh;
  });
} catch (const Error&) {
  rethrow_at(from);
}

Lion::Lion(const LionOptions& o, Caller from) : Optimizer("Lion", checked("Lion", o, from)) {
  use<LionUpdate>(lion_update, [o](auto& u, int64_t) {
    u.beta1 = o.beta1;
    u.beta2 = o.beta2;
  });
}

LAMB::LAMB(const LAMBOptions& o, Caller from) try : Optimizer("LAMB", checked("LAMB", o, from)) {
  const double lower = o.lower_bound.value_or(0), upper = o.upper_bound.value_or(lower);
  expect(name(), "upper_bound", upper, upper >= lower, "at least lower_bound");
  use<LambUpdate>(lamb_update, [o](auto& u, int64_t t) {
    u.beta1 = o.beta1;
    u.beta2 = o.beta2;
    u.epsilon = o.epsilon;
    u.lower_bound = o.lower_bound.value_or(-1);
    u.upper_bound = o.upper_bound.value_or(-1);
    if (!o.bias_correction) return;
    u.correction1 = corrected(o.beta1, t);
    u.correction2 = corrected(o.beta2, t);
  });
} catch (const Error&) {
  rethrow_at(from);
}

LARS::LARS(const LARSOptions& o, Caller from) : Optimizer("LARS", checked("LARS", o, from)) {
  use<LarsUpdate>(lars_update, [o](auto& u, int64_t) {
    u.momentum = o.momentum;
    u.eta = o.eta;
    u.epsilon = o.epsilon;
  });
}

namespace {

template <class Rule, class Options>
std::shared_ptr<Optimizer> make(const std::string& who, const OptionValues& given) {
  Options o;
  std::string known;
  size_t taken = 0;
  each_option(o, [&]<class T>(const char* name, T& value, const auto&...) {
    known += text_of(known.empty() ? "" : ", ", name);
    const auto it = given.find(name);
    if (it == given.end()) return;
    ++taken;
    const double v = it->second;
    if constexpr (std::is_same_v<T, bool>) expect(who, name, v, v == 0 || v == 1, "true or false");
    value = static_cast<T>(v);
  });
  if (taken < given.size())
    throw ValueError(who, ": options ", listed(given, [](const auto& each) { return each.first; }),
                     "; expected some of ", known);
  return std::make_shared<Rule>(o);
}

}  // namespace

std::shared_ptr<Optimizer> create(std::string_view name, const OptionValues& options,
                                  Caller from) try {
  struct NamedOptimizer {
    const char* name;
    std::shared_ptr<Optimizer> (*make)(const std::string&, const OptionValues&);
  };
  static constexpr NamedOptimizer kKnown[] = {
      {"sgd", &make<SGD, SGDOptions>},
      {"nag", &make<NAG, NAGOptions>},
      {"adam", &make<Adam, AdamOptions>},
      {"adamw", &make<AdamW, AdamWOptions>},
      {"adamax", &make<Adamax, AdamaxOptions>},
      {"nadam", &make<Nadam, NadamOptions>},
      {"rmsprop", &make<RMSProp, RMSPropOptions>},
      {"adagrad", &make<AdaGrad, AdaGradOptions>},
      {"adadelta", &make<AdaDelta, AdaDeltaOptions>},
      {"ftrl", &make<Ftrl, FtrlOptions>},
      {"signum", &make<Signum, SignumOptions>},
      {"lion", &make<Lion, LionOptions>},
      {"lamb", &make<LAMB, LAMBOptions>},
      {"lars", &make<LARS, LARSOptions>},
  };
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const NamedOptimizer& known : kKnown)
    if (lower == known.name) return known.make(text_of("optim::create: ", lower), options);
  throw ValueError("optim::create: \"", name, "\"; expected one of ",
                   listed(kKnown, [](const NamedOptimizer& k) { return k.name; }));
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace locus::optim
