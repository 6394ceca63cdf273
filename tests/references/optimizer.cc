// Optimizer updates by MXNet's formulas (ops/optim.h).
#include <algorithm>

#include <locus/ops/optim_numbers.h>
#include "tests/references/reference.h"

namespace locus::test {
namespace {

Real clip(Real v, double most) { return most < 0 ? v : v > most ? most : v < -most ? -most : v; }
Real clipped(const auto& u, Real g) { return clip(u.rescale_grad * g, u.clip_gradient); }
Real with_decay(const auto& u, Real w, Real g) {
  return clip(u.rescale_grad * g + u.wd * w, u.clip_gradient);
}
void mix(Real& mean, Real decay, Real v) { mean = decay * mean + (1 - decay) * v; }
Real sign(Real v) { return v > 0 ? 1 : v < 0 ? -1 : v; }

void sgd(const SGDUpdate& u, Real& w, Real g, Real*) {
  w = (1 - Real{u.lr} * u.wd) * w - u.lr * clipped(u, g);
}
void sgd_mom(const SGDUpdate& u, Real& w, Real g, Real* s) {
  s[0] = u.momentum * s[0] - u.lr * (clipped(u, g) + u.wd * w);
  w += s[0];
}
void nag(const SGDUpdate& u, Real& w, Real g, Real* s) {
  const Real d = clipped(u, g) + u.wd * w;
  s[0] = u.momentum * s[0] - u.lr * d;
  w += u.momentum * s[0] - u.lr * d;
}
void adam(const AdamUpdate& u, Real& w, Real g, Real* s) {
  g = with_decay(u, w, g);
  mix(s[0], u.beta1, g);
  mix(s[1], u.beta2, g * g);
  w -= u.lr * s[0] / (std::sqrt(s[1]) + u.epsilon);
}
void adamw(const AdamWUpdate& u, Real& w, Real g, Real* s) {
  g = clipped(u, g);
  mix(s[0], u.beta1, g);
  mix(s[1], u.beta2, g * g);
  w -= u.eta * (u.lr * s[0] / (std::sqrt(s[1]) + u.epsilon) + u.wd * w);
}
void adamax(const AdamUpdate& u, Real& w, Real g, Real* s) {
  g = with_decay(u, w, g);
  mix(s[0], u.beta1, g);
  const Real faded = u.beta2 * s[1], size = std::fabs(g);
  s[1] = std::isnan(faded) || std::isnan(size) ? kNaN : std::max(faded, size);
  w -= u.lr * s[0] / (s[1] + u.epsilon);
}
void nadam(const NadamUpdate& u, Real& w, Real g, Real* s) {
  g = with_decay(u, w, g);
  mix(s[0], u.beta1, g);
  mix(s[1], u.beta2, g * g);
  const Real now = g / (1 - Real{u.schedule}),
             next = s[0] / (1 - Real{u.schedule} * u.next_momentum);
  w -= u.lr * ((1 - Real{u.momentum}) * now + u.next_momentum * next) /
       (std::sqrt(s[1] / u.correction2) + u.epsilon);
}
void rmsprop(const RMSPropUpdate& u, Real& w, Real g, Real* s) {
  g = with_decay(u, w, g);
  mix(s[0], u.gamma1, g * g);
  w = clip(w - u.lr * g / std::sqrt(s[0] + u.epsilon), u.clip_weights);
}
void rmspropalex(const RMSPropUpdate& u, Real& w, Real g, Real* s) {
  g = with_decay(u, w, g);
  mix(s[0], u.gamma1, g * g);
  mix(s[1], u.gamma1, g);
  Real spread = s[0] - s[1] * s[1];
  if (spread < 0) spread = 0;
  s[2] = u.gamma2 * s[2] - u.lr * g / std::sqrt(spread + u.epsilon);
  w = clip(w + s[2], u.clip_weights);
}
void adagrad(const AdaGradUpdate& u, Real& w, Real g, Real* s) {
  g = clipped(u, g);
  s[0] += g * g;
  w -= u.lr * (g / std::sqrt(s[0] + u.epsilon) + u.wd * w);
}
void adadelta(const AdaDeltaUpdate& u, Real& w, Real g, Real* s) {
  g = clipped(u, g);
  mix(s[0], u.rho, g * g);
  const Real delta = g * std::sqrt((s[1] + u.epsilon) / (s[0] + u.epsilon));
  mix(s[1], u.rho, delta * delta);
  w -= u.lr * (delta + u.wd * w);
}
// Avoids cancellation in sqrt(n + g^2) - sqrt(n).
void ftrl(const FtrlUpdate& u, Real& w, Real g, Real* s) {
  g = clipped(u, g);
  const Real before = std::sqrt(s[1]);
  s[1] += g * g;
  const Real root = std::sqrt(s[1]), growth = g == 0 ? 0 : g * g / (root + before);
  s[0] += g - growth * w / u.lr;
  const Real rate = (u.beta + root) / u.lr + u.wd;
  w = std::fabs(s[0]) <= u.lamda1 ? 0 : (sign(s[0]) * u.lamda1 - s[0]) / rate;
}
void signsgd(const SignumUpdate& u, Real& w, Real g, Real*) {
  w = (1 - Real{u.lr} * u.wd) * w - u.lr * sign(g);
}
void signum(const SignumUpdate& u, Real& w, Real g, Real* s) {
  mix(s[0], u.momentum, -(clipped(u, g) + u.wd * w));
  w = (1 - Real{u.lr} * u.wd_lh) * w + u.lr * sign(s[0]);
}
void lion(const LionUpdate& u, Real& w, Real g, Real* s) {
  g = clipped(u, g);
  Real direction = s[0];
  mix(direction, u.beta1, g);
  w -= u.lr * (sign(direction) + u.wd * w);
  mix(s[0], u.beta2, g);
}

struct Updated {
  Array w, g;
  std::vector<Array> s;
};
Real norm_of(const std::vector<Real>& v) {
  Real sum = 0;
  for (const Real x : v) sum += x * x;
  return std::sqrt(sum);
}
void lamb(const LambUpdate& u, Updated& t) {
  std::vector<Real> d(t.w.values.size());
  for (size_t i = 0; i < d.size(); ++i) {
    Real &mean = t.s[0].values[i], &var = t.s[1].values[i];
    const Real g = clipped(u, t.g.values[i]);
    mix(mean, u.beta1, g);
    mix(var, u.beta2, g * g);
    d[i] =
        mean / u.correction1 / (std::sqrt(var / u.correction2) + u.epsilon) + u.wd * t.w.values[i];
  }
  Real weight = norm_of(t.w.values);
  const Real step = norm_of(d);
  if (u.lower_bound >= 0 && weight < u.lower_bound) weight = u.lower_bound;
  if (u.upper_bound >= 0 && weight > u.upper_bound) weight = u.upper_bound;
  const Real ratio = weight == 0 || step == 0 ? 1 : weight / step;
  for (size_t i = 0; i < d.size(); ++i) t.w.values[i] -= u.lr * ratio * d[i];
}
void lars(const LarsUpdate& u, Updated& t) {
  const Real weight = norm_of(t.w.values), grad = u.rescale_grad * norm_of(t.g.values);
  const bool counts = t.w.rank() > 1 && weight > 0 && grad > 0;
  const Real ratio = counts ? u.eta * weight / (grad + u.wd * weight + u.epsilon) : 1;
  for (size_t i = 0; i < t.w.values.size(); ++i) {
    Real &w = t.w.values[i], &mom = t.s[0].values[i];
    mom = u.momentum * mom - ratio * (clipped(u, t.g.values[i]) + u.wd * w);
    w += u.lr * mom;
  }
}

// f takes numbers and one tensor of a call with `states` states each.
template <class N>
Reference of_tensors(std::string op, size_t states, void (*f)(const N&, Updated&)) {
  return reference<Live<N>>(std::move(op), [=](const Arrays& in, const Live<N>& numbers) {
    Arrays out;
    for (size_t at = 0; at < in.size(); at += 2 + states) {
      Updated t{in[at], in[at + 1], {}};
      for (size_t k = 0; k < states; ++k) t.s.push_back(in[at + 2 + k]);
      f(numbers.value, t);
      out.push_back(t.w);
      for (const Array& s : t.s) out.push_back(s);
    }
    return out;
  });
}
// f takes numbers, one weight, its gradient and its states.
template <class N>
Reference of_elements(std::string op, size_t states, void (*f)(const N&, Real&, Real, Real*)) {
  return reference<Live<N>>(std::move(op), [=](const Arrays& in, const Live<N>& numbers) {
    Arrays out;
    for (size_t at = 0; at < in.size(); at += 2 + states) {
      Arrays t{in[at]};
      for (size_t k = 0; k < states; ++k) t.push_back(in[at + 2 + k]);
      for (size_t i = 0; i < t[0].values.size(); ++i) {
        Real s[3] = {};
        for (size_t k = 0; k < states; ++k) s[k] = t[1 + k].values[i];
        f(numbers.value, t[0].values[i], in[at + 1].values[i], s);
        for (size_t k = 0; k < states; ++k) t[1 + k].values[i] = s[k];
      }
      out.insert(out.end(), t.begin(), t.end());
    }
    return out;
  });
}

const References kReferences{{
    of_elements("sgd_update", 0, sgd),
    of_elements("sgd_mom_update", 1, sgd_mom),
    of_elements("nag_mom_update", 1, nag),
    of_elements("adam_update", 2, adam),
    of_elements("adamw_update", 2, adamw),
    of_elements("rmsprop_update", 1, rmsprop),
    of_elements("rmspropalex_update", 3, rmspropalex),
    of_elements("adagrad_update", 1, adagrad),
    of_elements("adadelta_update", 2, adadelta),
    of_elements("adamax_update", 2, adamax),
    of_elements("nadam_update", 2, nadam),
    of_elements("ftrl_update", 2, ftrl),
    of_elements("signsgd_update", 0, signsgd),
    of_elements("signum_update", 1, signum),
    of_elements("lion_update", 1, lion),
    within_exponents(480, of_tensors("lamb_update", 2, lamb)),
    within_exponents(480, of_tensors("lars_update", 1, lars)),
}};

}  // namespace
}  // namespace locus::test
