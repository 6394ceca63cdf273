// The update rules of the optimizers, each written once for all devices.
//
// A rule has its op's name, its numbers (ops/optim_numbers.h), the number of its states, and
// update(), which changes one weight and its states in the compute type A. A new optimizer is a
// rule in the list below, its numbers, a line in ops/optim.h and one in optim.cc.
#pragma once

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>
#include <locus/ops/kernel/math.h>
#include <locus/ops/optim_numbers.h>

namespace locus {

// NaN passes.
template <class A>
LOCUS_HD A limited(A v, double most) {
  const A limit = most < 0 ? m::infinity(v) : A(most);
  return v > limit ? limit : v < -limit ? -limit : v;
}
// clip(rescale_grad * grad)
template <class A>
LOCUS_HD A gradient(const auto& u, A g) {
  return limited(A(u.rescale_grad) * g, u.clip_gradient);
}
// clip(rescale_grad * grad + wd * weight)
template <class A>
LOCUS_HD A decayed_gradient(const auto& u, A w, A g) {
  return limited(A(u.rescale_grad) * g + A(u.wd) * w, u.clip_gradient);
}
// decay * mean + (1 - decay) * v
template <class A>
LOCUS_HD A moved(double decay, A mean, A v) {
  return A(decay) * mean + A(1 - decay) * v;
}
template <class A>
LOCUS_HD A sign(A v) {
  return v > A(0) ? A(1) : v < A(0) ? A(-1) : v;
}

template <class N, int kCount>
struct Rule {
  using Numbers = N;
  static constexpr int kStates = kCount;
  static constexpr bool kNorms = false;
};
// A rule that depends on norms of whole tensors also has measure() and ratio(). measure() is called
// first, on all elements, and changes nothing. It returns an element of the second norm; the first
// norm is the weight's. ratio() makes one number of both norms. update() multiplies by it in f64:
// the ratio may be outside of A's range when its products are not.
template <class N, int kCount>
struct NormRule : Rule<N, kCount> {
  static constexpr bool kNorms = true;
  static constexpr bool kMatrices = false;  // the ratio of vectors and scalars is 1
};

struct SGDRule : Rule<SGDUpdate, 0> {
  static constexpr const char* kName = "sgd_update";
  template <class A>
  LOCUS_HD static void update(const SGDUpdate& u, A& w, A g) {
    w = A(1 - u.lr * u.wd) * w - A(u.lr) * gradient(u, g);
  }
};

struct SGDMomentumRule : Rule<SGDUpdate, 1> {
  static constexpr const char* kName = "sgd_mom_update";
  template <class A>
  LOCUS_HD static void update(const SGDUpdate& u, A& w, A g, A& mom) {
    mom = A(u.momentum) * mom - A(u.lr) * (gradient(u, g) + A(u.wd) * w);
    w += mom;
  }
};

struct NAGRule : Rule<SGDUpdate, 1> {
  static constexpr const char* kName = "nag_mom_update";
  template <class A>
  LOCUS_HD static void update(const SGDUpdate& u, A& w, A g, A& mom) {
    const A step = A(u.lr) * (gradient(u, g) + A(u.wd) * w);
    mom = A(u.momentum) * mom - step;
    w += A(u.momentum) * mom - step;
  }
};

struct AdamRule : Rule<AdamUpdate, 2> {
  static constexpr const char* kName = "adam_update";
  template <class A>
  LOCUS_HD static void update(const AdamUpdate& u, A& w, A g, A& mean, A& var) {
    g = decayed_gradient(u, w, g);
    mean = moved(u.beta1, mean, g);
    var = moved(u.beta2, var, g * g);
    w -= A(u.lr) * mean / (m::sqrt(var) + A(u.epsilon));
  }
};

struct AdamWRule : Rule<AdamWUpdate, 2> {
  static constexpr const char* kName = "adamw_update";
  template <class A>
  LOCUS_HD static void update(const AdamWUpdate& u, A& w, A g, A& mean, A& var) {
    g = gradient(u, g);
    mean = moved(u.beta1, mean, g);
    var = moved(u.beta2, var, g * g);
    w -= A(u.eta) * (A(u.lr) * mean / (m::sqrt(var) + A(u.epsilon)) + A(u.wd) * w);
  }
};

struct RMSPropRule : Rule<RMSPropUpdate, 1> {
  static constexpr const char* kName = "rmsprop_update";
  template <class A>
  LOCUS_HD static void update(const RMSPropUpdate& u, A& w, A g, A& n) {
    g = decayed_gradient(u, w, g);
    n = moved(u.gamma1, n, g * g);
    w = limited(w - A(u.lr) * g / m::sqrt(n + A(u.epsilon)), u.clip_weights);
  }
};

struct RMSPropAlexRule : Rule<RMSPropUpdate, 3> {
  static constexpr const char* kName = "rmspropalex_update";
  template <class A>
  LOCUS_HD static void update(const RMSPropUpdate& u, A& w, A g, A& n, A& mean, A& delta) {
    g = decayed_gradient(u, w, g);
    n = moved(u.gamma1, n, g * g);
    mean = moved(u.gamma1, mean, g);
    A spread = n - mean * mean;  // rounding may leave less than 0
    spread = spread < A(0) ? A(0) : spread;
    delta = A(u.gamma2) * delta - A(u.lr) * g / m::sqrt(spread + A(u.epsilon));
    w = limited(w + delta, u.clip_weights);
  }
};

struct AdaGradRule : Rule<AdaGradUpdate, 1> {
  static constexpr const char* kName = "adagrad_update";
  template <class A>
  LOCUS_HD static void update(const AdaGradUpdate& u, A& w, A g, A& history) {
    g = gradient(u, g);
    history += g * g;
    w -= A(u.lr) * (g / m::sqrt(history + A(u.epsilon)) + A(u.wd) * w);
  }
};

struct AdaDeltaRule : Rule<AdaDeltaUpdate, 2> {
  static constexpr const char* kName = "adadelta_update";
  template <class A>
  LOCUS_HD static void update(const AdaDeltaUpdate& u, A& w, A g, A& acc_g, A& acc_delta) {
    g = gradient(u, g);
    acc_g = moved(u.rho, acc_g, g * g);
    const A delta = m::sqrt(acc_delta + A(u.epsilon)) / m::sqrt(acc_g + A(u.epsilon)) * g;
    acc_delta = moved(u.rho, acc_delta, delta * delta);
    w -= A(u.lr) * (delta + A(u.wd) * w);
  }
};

struct AdamaxRule : Rule<AdamUpdate, 2> {
  static constexpr const char* kName = "adamax_update";
  template <class A>
  LOCUS_HD static void update(const AdamUpdate& u, A& w, A g, A& mean, A& most) {
    g = decayed_gradient(u, w, g);
    mean = moved(u.beta1, mean, g);
    most = m::max(A(u.beta2) * most, m::abs(g));
    w -= A(u.lr) * mean / (most + A(u.epsilon));
  }
};

struct NadamRule : Rule<NadamUpdate, 2> {
  static constexpr const char* kName = "nadam_update";
  template <class A>
  LOCUS_HD static void update(const NadamUpdate& u, A& w, A g, A& mean, A& var) {
    g = decayed_gradient(u, w, g);
    mean = moved(u.beta1, mean, g);
    var = moved(u.beta2, var, g * g);
    const A ahead = A((1 - u.momentum) / (1 - u.schedule)) * g +
                    A(u.next_momentum / (1 - u.schedule * u.next_momentum)) * mean;
    w -= A(u.lr) * ahead / (m::sqrt(var * A(1 / u.correction2)) + A(u.epsilon));
  }
};

struct FtrlRule : Rule<FtrlUpdate, 2> {
  static constexpr const char* kName = "ftrl_update";
  template <class A>
  LOCUS_HD static void update(const FtrlUpdate& u, A& w, A g, A& z, A& n) {
    if (u.lr == 0) return;  // nothing moves, and z is in units of 1 / lr
    g = gradient(u, g);
    // Avoids squares that underflow or overflow, and differences of nearly equal roots.
    const A before = m::sqrt(n), root = m::hypot(before, g);
    const A growth = g == A(0) ? A(0) : g * (g / (root + before));
    n += g * g;
    z += g - growth * w * A(1 / u.lr);
    const A rate = (A(u.beta) + root) * A(1 / u.lr) + A(u.wd);
    w = m::abs(z) <= A(u.lamda1) ? A(0) : (sign(z) * A(u.lamda1) - z) / rate;
  }
};

struct SignSGDRule : Rule<SignumUpdate, 0> {
  static constexpr const char* kName = "signsgd_update";
  template <class A>
  LOCUS_HD static void update(const SignumUpdate& u, A& w, A g) {
    w = A(1 - u.lr * u.wd) * w - A(u.lr) * sign(g);
  }
};

struct SignumRule : Rule<SignumUpdate, 1> {
  static constexpr const char* kName = "signum_update";
  template <class A>
  LOCUS_HD static void update(const SignumUpdate& u, A& w, A g, A& mom) {
    mom = A(u.momentum) * mom - A(1 - u.momentum) * (gradient(u, g) + A(u.wd) * w);
    w = A(1 - u.lr * u.wd_lh) * w + A(u.lr) * sign(mom);
  }
};

struct LionRule : Rule<LionUpdate, 1> {
  static constexpr const char* kName = "lion_update";
  template <class A>
  LOCUS_HD static void update(const LionUpdate& u, A& w, A g, A& mom) {
    g = gradient(u, g);
    w -= A(u.lr) * (sign(moved(u.beta1, mom, g)) + A(u.wd) * w);
    mom = moved(u.beta2, mom, g);
  }
};

struct LambRule : NormRule<LambUpdate, 2> {
  static constexpr const char* kName = "lamb_update";
  template <class A>
  LOCUS_HD static A direction(const LambUpdate& u, A w, A g, A& mean, A& var) {
    g = gradient(u, g);
    mean = moved(u.beta1, mean, g);
    var = moved(u.beta2, var, g * g);
    const A root = m::sqrt(var * A(1 / u.correction2)) + A(u.epsilon);
    return mean * A(1 / u.correction1) / root + A(u.wd) * w;
  }
  template <class A>
  LOCUS_HD static A measure(const LambUpdate& u, A w, A g, A mean, A var) {
    return direction(u, w, g, mean, var);
  }
  LOCUS_HD static double ratio(const LambUpdate& u, double weight, double step) {
    if (u.lower_bound >= 0 && weight < u.lower_bound) weight = u.lower_bound;
    if (u.upper_bound >= 0 && weight > u.upper_bound) weight = u.upper_bound;
    return weight == 0 || step == 0 ? 1 : weight / step;
  }
  template <class A>
  LOCUS_HD static void update(const LambUpdate& u, double ratio, A& w, A g, A& mean, A& var) {
    w -= A(u.lr * ratio * static_cast<double>(direction(u, w, g, mean, var)));
  }
};

struct LarsRule : NormRule<LarsUpdate, 1> {
  static constexpr const char* kName = "lars_update";
  static constexpr bool kMatrices = true;
  template <class A>
  LOCUS_HD static A measure(const LarsUpdate& u, A, A g, A) {
    return A(u.rescale_grad) * g;
  }
  LOCUS_HD static double ratio(const LarsUpdate& u, double weight, double grad) {
    if (!(weight > 0 && grad > 0)) return 1;
    return u.eta * weight / (grad + u.wd * weight + u.epsilon);
  }
  template <class A>
  LOCUS_HD static void update(const LarsUpdate& u, double ratio, A& w, A g, A& mom) {
    const A step = gradient(u, g) + A(u.wd) * w;
    mom = A(u.momentum) * mom - A(ratio * static_cast<double>(step));
    w += A(u.lr) * mom;
  }
};

template <class... R>
struct RuleList {};
using OptimRules = RuleList<SGDRule, SGDMomentumRule, NAGRule, AdamRule, AdamWRule, RMSPropRule,
                            RMSPropAlexRule, AdaGradRule, AdaDeltaRule, AdamaxRule, NadamRule,
                            FtrlRule, SignSGDRule, SignumRule, LionRule, LambRule, LarsRule>;

template <class Backend, class... R>
constexpr KernelList optim_kernels(RuleList<R...>) {
  KernelList list;
  const auto add = [&]<class Each>(Each) {
    list.add_each(Each::kName, kFloatDTypes,
                  [](auto d) { return Backend::template multi_tensor<CppTypeOf<d>, Each>; });
  };
  (add(R()), ...);
  return list;
}

}  // namespace locus
