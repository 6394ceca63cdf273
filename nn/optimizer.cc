#include <locus/nn/optimizer.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include <locus/core/autograd.h>
#include <locus/core/error.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>

namespace locus::optim {
namespace {

struct Option {
  const char* name;
  double value;
};

void expect(const std::string& who, const Option& o, bool fits, const char* expected) {
  if (!fits) throw ValueError(who, ": ", o.name, " ", o.value, "; expected ", expected);
}
void expect_decay(const Optimizer& who, std::initializer_list<Option> options) {
  for (const Option& o : options)
    expect(who.name(), o, o.value >= 0 && o.value < 1, "a number in [0, 1)");
}
void expect_some(const Optimizer& who, std::initializer_list<Option> options) {
  for (const Option& o : options)
    expect(who.name(), o, o.value >= 0 && std::isfinite(o.value), "a finite number >= 0");
}

template <class Options>
Optimizer::Common common_of(const Options& o) {
  return {o.learning_rate, o.wd, o.clip_gradient, o.multi_precision};
}

// 1 - beta^t, of a beta near 1, too.
double corrected(double beta, int64_t t) {
  return -std::expm1(static_cast<double>(t) * std::log(beta));
}

}  // namespace

struct Optimizer::Progress {
  double learning_rate;
  Schedule schedule;
  int64_t num_update = 0;

  double rate() const { return schedule ? schedule(num_update) : learning_rate; }
};

Optimizer::Optimizer(std::string name, const Common& common)
    : name_(std::move(name)),
      common_(common),
      progress_(std::make_shared<Progress>(Progress{common.learning_rate, {}})) {
  expect_some(*this, {{"learning_rate", common.learning_rate}, {"wd", common.wd}});
  const double clip = common.clip_gradient.value_or(0);
  expect(name_, {"clip_gradient", clip}, clip >= 0, "a limit >= 0");
}

Optimizer::Optimizer(const Optimizer& other)
    : name_(other.name_),
      common_(other.common_),
      progress_(std::make_shared<Progress>(*other.progress_)),
      states_(other.states_),
      run_(other.run_) {}

Optimizer& Optimizer::operator=(const Optimizer& other) {
  *progress_ = *other.progress_;
  name_ = other.name_;
  common_ = other.common_;
  states_ = other.states_;
  run_ = other.run_;
  return *this;
}

double Optimizer::learning_rate() const { return progress_->rate(); }
void Optimizer::set_learning_rate(double v) {
  if (progress_->schedule)
    throw Error(name_, ": set_learning_rate(", v,
                "), but the schedule says what it is; take that away with set_schedule({}) first");
  progress_->learning_rate = v;
}
void Optimizer::set_schedule(Schedule schedule) {
  progress_->learning_rate = learning_rate();
  progress_->schedule = std::move(schedule);
}
int64_t Optimizer::num_update() const { return progress_->num_update; }
void Optimizer::set_num_update(int64_t n) { progress_->num_update = n; }

bool Optimizer::has_master(DType weight) const {
  return common_.multi_precision && (weight == f16 || weight == bf16);
}

std::vector<std::string> Optimizer::state_names(DType weight) const {
  std::vector<std::string> names = states_;
  if (has_master(weight)) names.emplace_back("weight32");
  return names;
}

Tensors Optimizer::create_state(const Tensor& weight) const {
  const bool master = has_master(weight.dtype());
  Tensors state;
  for (size_t i = 0; i < states_.size(); ++i)
    state.push_back(zeros(weight.shape(), {weight.context(), master ? f32 : weight.dtype()}));
  if (master) state.push_back(cast(weight, f32));
  return state;
}

void Optimizer::update(ParameterGroup& group, double rescale) {
  if (!run_) throw Error(name_, ": override update(), or say in the constructor which op to use");
  const int64_t before = *group.count;
  try {
    run_(group, next_step(group, rescale));
  } catch (...) {
    *group.count = before;
    throw;
  }
}

std::function<Optimizer::Step()> Optimizer::next_step(const ParameterGroup& group,
                                                      double rescale) const {
  return [progress = progress_, count = group.count, factor = group.lr_mult,
          wd = common_.wd * group.wd_mult, rescale, clip = common_.clip_gradient.value_or(-1)] {
    progress->num_update = std::max(progress->num_update, ++*count);
    return Step{progress->rate() * factor, wd, rescale, clip, *count};
  };
}

SGD::SGD(const SGDOptions& o) : Optimizer("SGD", common_of(o)) {
  expect_some(*this, {{"momentum", o.momentum}});
  use<SGDUpdate>(o.momentum == 0 ? sgd_update : sgd_mom_update,
                 [o](auto& u, int64_t) { u.momentum = o.momentum; });
}

NAG::NAG(const NAGOptions& o) : Optimizer("NAG", common_of(o)) {
  expect_some(*this, {{"momentum", o.momentum}});
  use<SGDUpdate>(o.momentum == 0 ? sgd_update : nag_mom_update,
                 [o](auto& u, int64_t) { u.momentum = o.momentum; });
}

Adam::Adam(const AdamOptions& o) : Optimizer("Adam", common_of(o)) {
  expect_decay(*this, {{"beta1", o.beta1}, {"beta2", o.beta2}});
  expect_some(*this, {{"epsilon", o.epsilon}});
  use<AdamUpdate>(adam_update, [o](auto& u, int64_t t) {
    u.lr *= std::sqrt(corrected(o.beta2, t)) / corrected(o.beta1, t);
    u.beta1 = o.beta1;
    u.beta2 = o.beta2;
    u.epsilon = o.epsilon;
  });
}

AdamW::AdamW(const AdamWOptions& o) : Optimizer("AdamW", common_of(o)) {
  expect_decay(*this, {{"beta1", o.beta1}, {"beta2", o.beta2}});
  expect_some(*this, {{"epsilon", o.epsilon}});
  use<AdamWUpdate>(adamw_update, [o](auto& u, int64_t t) {
    u.eta = u.lr;
    u.lr = o.correct_bias ? std::sqrt(corrected(o.beta2, t)) / corrected(o.beta1, t) : 1;
    u.beta1 = o.beta1;
    u.beta2 = o.beta2;
    u.epsilon = o.epsilon;
  });
}

Adamax::Adamax(const AdamaxOptions& o) : Optimizer("Adamax", common_of(o)) {
  expect_decay(*this, {{"beta1", o.beta1}, {"beta2", o.beta2}});
  expect_some(*this, {{"epsilon", o.epsilon}});
  use<AdamUpdate>(adamax_update, [o](auto& u, int64_t t) {
    u.lr /= corrected(o.beta1, t);
    u.beta1 = o.beta1;
    u.beta2 = o.beta2;
    u.epsilon = o.epsilon;
  });
}

Nadam::Nadam(const NadamOptions& o) : Optimizer("Nadam", common_of(o)) {
  expect_decay(*this, {{"beta1", o.beta1}, {"beta2", o.beta2}});
  expect_some(*this, {{"epsilon", o.epsilon}, {"schedule_decay", o.schedule_decay}});
  use<NadamUpdate>(nadam_update, [o](auto& u, int64_t t) {
    const auto momentum = [&](int64_t i) {
      return o.beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(i) * o.schedule_decay));
    };
    // The product of all up to t; what is below the last bit of 1 counts for nothing.
    const double fall = std::pow(0.96, o.schedule_decay);
    double product = 1, power = 1;
    for (int64_t i = 1; i <= t && product > 1e-20; ++i)
      product *= o.beta1 * (1 - 0.5 * (power *= fall));
    u.beta1 = o.beta1;
    u.beta2 = o.beta2;
    u.epsilon = o.epsilon;
    u.momentum = momentum(t);
    u.next_momentum = momentum(t + 1);
    u.schedule = product;
    u.correction2 = corrected(o.beta2, t);
  });
}

RMSProp::RMSProp(const RMSPropOptions& o) : Optimizer("RMSProp", common_of(o)) {
  expect_decay(*this, {{"gamma1", o.gamma1}, {"gamma2", o.gamma2}});
  const double clip = o.clip_weights.value_or(0);
  expect_some(*this, {{"epsilon", o.epsilon}, {"clip_weights", clip}});
  use<RMSPropUpdate>(o.centered ? rmspropalex_update : rmsprop_update, [o](auto& u, int64_t) {
    u.gamma1 = o.gamma1;
    u.gamma2 = o.gamma2;
    u.epsilon = o.epsilon;
    u.clip_weights = o.clip_weights.value_or(-1);
  });
}

AdaGrad::AdaGrad(const AdaGradOptions& o) : Optimizer("AdaGrad", common_of(o)) {
  expect_some(*this, {{"epsilon", o.epsilon}});
  use<AdaGradUpdate>(adagrad_update, [o](auto& u, int64_t) { u.epsilon = o.epsilon; });
}

AdaDelta::AdaDelta(const AdaDeltaOptions& o) : Optimizer("AdaDelta", common_of(o)) {
  expect_decay(*this, {{"rho", o.rho}});
  expect_some(*this, {{"epsilon", o.epsilon}});
  use<AdaDeltaUpdate>(adadelta_update, [o](auto& u, int64_t) {
    u.rho = o.rho;
    u.epsilon = o.epsilon;
  });
}

Ftrl::Ftrl(const FtrlOptions& o) : Optimizer("Ftrl", common_of(o)) {
  expect(name(), {"learning_rate", o.learning_rate}, o.learning_rate > 0, "a number > 0");
  expect_some(*this, {{"lamda1", o.lamda1}, {"beta", o.beta}});
  use<FtrlUpdate>(ftrl_update, [o](auto& u, int64_t) {
    u.lamda1 = o.lamda1;
    u.beta = o.beta;
  });
}

Signum::Signum(const SignumOptions& o) : Optimizer("Signum", common_of(o)) {
  expect_decay(*this, {{"momentum", o.momentum}});
  expect_some(*this, {{"wd_lh", o.wd_lh}});
  expect(name(), {"wd_lh", o.wd_lh}, o.momentum > 0 || o.wd_lh == 0, "0 without momentum");
  use<SignumUpdate>(o.momentum == 0 ? signsgd_update : signum_update, [o](auto& u, int64_t) {
    u.momentum = o.momentum;
    u.wd_lh = o.wd_lh;
  });
}

Lion::Lion(const LionOptions& o) : Optimizer("Lion", common_of(o)) {
  expect_decay(*this, {{"beta1", o.beta1}, {"beta2", o.beta2}});
  use<LionUpdate>(lion_update, [o](auto& u, int64_t) {
    u.beta1 = o.beta1;
    u.beta2 = o.beta2;
  });
}

LAMB::LAMB(const LAMBOptions& o) : Optimizer("LAMB", common_of(o)) {
  expect_decay(*this, {{"beta1", o.beta1}, {"beta2", o.beta2}});
  const double lower = o.lower_bound.value_or(0), upper = o.upper_bound.value_or(lower);
  expect_some(*this, {{"epsilon", o.epsilon}, {"lower_bound", lower}, {"upper_bound", upper}});
  expect(name(), {"upper_bound", upper}, upper >= lower, "at least lower_bound");
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
}

LARS::LARS(const LARSOptions& o) : Optimizer("LARS", common_of(o)) {
  expect_some(*this, {{"momentum", o.momentum}, {"eta", o.eta}, {"epsilon", o.epsilon}});
  use<LarsUpdate>(lars_update, [o](auto& u, int64_t) {
    u.momentum = o.momentum;
    u.eta = o.eta;
    u.epsilon = o.epsilon;
  });
}

}  // namespace locus::optim
