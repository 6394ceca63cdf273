#include <locus/nn/optimizer.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include <locus/core/autograd.h>
#include <locus/core/base/mutex.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/error.h>
#include <locus/nn/options.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>

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
Optimizer::Common checked(const std::string& who, Options o) {
  each_option(o, [&]<class T>(const char* name, T& value, const auto&... range) {
    if constexpr (!std::is_same_v<T, bool>) expect(who, name, value, range...);
  });
  return {o.learning_rate, o.wd, o.clip_gradient, o.multi_precision};
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

struct Optimizer::Progress {
  // The optimizer whose schedule this thread calls.
  static inline thread_local const Progress* asks = nullptr;
  class ScheduleScope : NonCopyable {
   public:
    explicit ScheduleScope(const Progress* p) : before_(std::exchange(asks, p)) {}
    ~ScheduleScope() { asks = before_; }

   private:
    const Progress* const before_;
  };
  std::string name;  // the optimizer's
  options::Range range;
  double learning_rate;  // of the last update, or set
  LRScheduler schedule = {};
  int64_t num_update = 0;
  // Guards counts and rates: several threads may update. Setters run between updates.
  std::shared_ptr<Mutex> mutex = std::make_shared<Mutex>();

  double rate(int64_t n) const {
    if (!schedule) return learning_rate;
    const capture::RecordingPause aside;  // replays ask anew
    const ScheduleScope now(this);
    return schedule(n);
  }
  void add(int64_t& count, int64_t t, double rate) {  // the t-th update of this count
    num_update = std::max(num_update, t);
    learning_rate = rate;
    count = t;
  }
};

// A running update. It is counted when done, because other threads may continue from the count. Its
// replays are counted as they begin.
struct Optimizer::Update {
  bool ended = false;
  int64_t t = 0;  // 0: no step was requested
  double rate = 0;
};

Optimizer::Optimizer(std::string name, const Common& common, const options::Range& rates)
    : name_(std::move(name)),
      common_(checked(name_, common)),
      progress_(std::make_shared<Progress>(Progress{name_, rates, common.learning_rate})) {
  expect(name_, "learning_rate", common.learning_rate, rates);
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
  ++*assigned_;
  return *this;
}

double Optimizer::learning_rate() const { return progress_->rate(progress_->num_update); }
void Optimizer::set_learning_rate(double v) {
  if (progress_->schedule)
    throw Error(name_, ": set_learning_rate(", v,
                "), but the schedule says what it is; take that away with set_schedule({}) first");
  if (!group.count)
    throw ValueError(name_,
                     ": the group's count is a null pointer; expected the number of updates");
  expect(name_, "learning_rate", v, progress_->range);
  progress_->learning_rate = v;
}
void Optimizer::set_schedule(LRScheduler schedule) { progress_->schedule = std::move(schedule); }
int64_t Optimizer::num_update() const { return progress_->num_update; }
void Optimizer::set_num_update(int64_t n) {
  expect(name_, "num_update", n, n >= 0, "a number >= 0");
  progress_->num_update = n;
}

bool Optimizer::has_master(DType weight) const {
  return common_.multi_precision && (weight == f16 || weight == bf16);
}

std::vector<std::string> Optimizer::state_names(DType weight) const {
  std::vector<std::string> names = states_;
  if (has_master(weight)) names.emplace_back("weight32");
  return names;
}

std::string Optimizer::state_name(DType weight, size_t state) const {
  const std::vector<std::string> names = state_names(weight);
  return state < names.size() ? names[state] : std::to_string(state);
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
  const auto now = std::make_shared<Update>();
  run_(group, next_step(group, rescale, now));
  const MutexLock lock(*progress_->mutex);
  now->ended = true;
  if (now->t > 0) progress_->add(*group.count, now->t, now->rate);
}

std::function<Optimizer::Step()> Optimizer::next_step(const ParameterGroup& group,
                                                      double rescale) const {
  return next_step(group, rescale, nullptr);
}

std::function<Optimizer::Step()> Optimizer::next_step(const ParameterGroup& group, double rescale,
                                                      std::shared_ptr<Update> now) const {
  if (capture::active()) capture::depends_on(assigned_);
  return [progress = progress_, count = group.count, factor = group.lr_mult,
          wd = common_.wd * group.wd_mult, rescale, clip = common_.clip_gradient.value_or(-1),
          now = std::move(now)] {
    if (Progress::asks == progress.get())
      throw Error(progress->name,
                  ": its schedule makes an update, which would ask it for the rate; "
                  "expected a function of the number of updates");
    const MutexLock lock(*progress->mutex);
    const int64_t t = *count + 1, n = std::max(progress->num_update, t);
    const double rate = progress->rate(n), lr = rate * factor;
    if (!progress->range.holds(lr)) [[unlikely]]
      expect(progress->name, "learning_rate", text_of(lr, " of update ", n), false,
             progress->range.text);
    // Nothing throws from here on.
    if (now && !now->ended) {
      now->t = t;
      now->rate = rate;
    } else {
      progress->add(*count, t, rate);
    }
    return Step{lr, wd, rescale, clip, t};
  };
}

SGD::SGD(const SGDOptions& o) : Optimizer("SGD", checked("SGD", o)) {
  use<SGDUpdate>(o.momentum == 0 ? sgd_update : sgd_mom_update,
                 [o](auto& u, int64_t) { u.momentum = o.momentum; });
}

NAG::NAG(const NAGOptions& o) : Optimizer("NAG", checked("NAG", o)) {
  use<SGDUpdate>(o.momentum == 0 ? sgd_update : nag_mom_update,
                 [o](auto& u, int64_t) { u.momentum = o.momentum; });
}

Adam::Adam(const AdamOptions& o) : Optimizer("Adam", checked("Adam", o)) {
  use<AdamUpdate>(adam_update, [o](auto& u, int64_t t) {
    u.lr *= std::sqrt(corrected(o.beta2, t)) / corrected(o.beta1, t);
    u.beta1 = o.beta1;
    u.beta2 = o.beta2;
    u.epsilon = o.epsilon;
  });
}

AdamW::AdamW(const AdamWOptions& o) : Optimizer("AdamW", checked("AdamW", o)) {
  use<AdamWUpdate>(adamw_update, [o](auto& u, int64_t t) {
    u.eta = u.lr;
    u.lr = o.correct_bias ? std::sqrt(corrected(o.beta2, t)) / corrected(o.beta1, t) : 1;
    u.beta1 = o.beta1;
    u.beta2 = o.beta2;
    u.epsilon = o.epsilon;
  });
}

Adamax::Adamax(const AdamaxOptions& o) : Optimizer("Adamax", checked("Adamax", o)) {
  use<AdamUpdate>(adamax_update, [o](auto& u, int64_t t) {
    u.lr /= corrected(o.beta1, t);
    u.beta1 = o.beta1;
    u.beta2 = o.beta2;
    u.epsilon = o.epsilon;
  });
}

Nadam::Nadam(const NadamOptions& o) : Optimizer("Nadam", checked("Nadam", o)) {
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

RMSProp::RMSProp(const RMSPropOptions& o) : Optimizer("RMSProp", checked("RMSProp", o)) {
  use<RMSPropUpdate>(o.centered ? rmspropalex_update : rmsprop_update, [o](auto& u, int64_t) {
    u.gamma1 = o.gamma1;
    u.gamma2 = o.gamma2;
    u.epsilon = o.epsilon;
    u.clip_weights = o.clip_weights.value_or(-1);
  });
}

AdaGrad::AdaGrad(const AdaGradOptions& o) : Optimizer("AdaGrad", checked("AdaGrad", o)) {
  use<AdaGradUpdate>(adagrad_update, [o](auto& u, int64_t) { u.epsilon = o.epsilon; });
}

AdaDelta::AdaDelta(const AdaDeltaOptions& o) : Optimizer("AdaDelta", checked("AdaDelta", o)) {
  use<AdaDeltaUpdate>(adadelta_update, [o](auto& u, int64_t) {
    u.rho = o.rho;
    u.epsilon = o.epsilon;
  });
}

Ftrl::Ftrl(const FtrlOptions& o)
    : Optimizer("Ftrl", checked("Ftrl", o), options::positive) {  // divides by the rate
  use<FtrlUpdate>(ftrl_update, [o](auto& u, int64_t) {
    u.lamda1 = o.lamda1;
    u.beta = o.beta;
  });
}

Signum::Signum(const SignumOptions& o) : Optimizer("Signum", checked("Signum", o)) {
  expect(name(), "wd_lh", o.wd_lh, o.momentum > 0 || o.wd_lh == 0, "0 without momentum");
  use<SignumUpdate>(o.momentum == 0 ? signsgd_update : signum_update, [o](auto& u, int64_t) {
    u.momentum = o.momentum;
    u.wd_lh = o.wd_lh;
  });
}

Lion::Lion(const LionOptions& o) : Optimizer("Lion", checked("Lion", o)) {
  use<LionUpdate>(lion_update, [o](auto& u, int64_t) {
    u.beta1 = o.beta1;
    u.beta2 = o.beta2;
  });
}

LAMB::LAMB(const LAMBOptions& o) : Optimizer("LAMB", checked("LAMB", o)) {
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
}

LARS::LARS(const LARSOptions& o) : Optimizer("LARS", checked("LARS", o)) {
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

std::shared_ptr<Optimizer> create(std::string_view name, const OptionValues& options) {
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
}

}  // namespace locus::optim
