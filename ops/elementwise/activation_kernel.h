// Activations and related formulas.
#pragma once

#include <locus/ops/elementwise/form.h>

namespace locus::formula {

// The slope is 2 / sqrt(pi) exp(-x^2).
struct Erf : Unary<"erf", kFloats, 16, kX> {
  static constexpr unsigned kInRange = kX;
  LOCUS_HD auto apply(auto x) const { return m::erf(x); }
  auto grad(auto& x, auto&, auto& dy) const { return erf_grad(dy, x); }
};
struct Softsign : Unary<"softsign", kFloats, 4, kX> {
  LOCUS_HD auto apply(auto x) const {
    return m::abs(x) == m::infinity(x) ? m::copysign(m::c(x, 1), x) : x / (m::c(x, 1) + m::abs(x));
  }
  auto grad(auto& x, auto&, auto& dy) const {
    const auto a = abs(x) + 1;
    return dy / a / a;
  }
};
// log(1 + exp(x)), MXNet's softrelu.
struct Softplus : Unary<"softplus", kFloats, 16, kX> {
  LOCUS_HD auto apply(auto x) const { return m::max(x, m::c(x, 0)) + m::log1p(m::exp(-m::abs(x))); }
  auto grad(auto& x, auto&, auto& dy) const { return dy * sigmoid(x); }
};
// x times the normal distribution's cumulative function: x / 2 (1 + erf(x / sqrt(2))).
struct Gelu : Unary<"gelu", kFloats, 16, kX> {
  static constexpr unsigned kInRange = kX;
  template <class V>
  LOCUS_HD V apply(V x) const {
    if (x == -m::infinity(x)) return m::c(x, 0);
    return m::c(x, 0.5) * x * (m::c(x, 1) + m::erf(x * m::c(x, 0.70710678118654752)));
  }
  auto grad(auto& x, auto&, auto& dy) const { return gelu_grad(dy, x); }
};
// x sigmoid(beta x), also called swish.
struct Silu : Unary<"silu", kFloats, 8, kX> {
  static constexpr unsigned kInRange = kX;
  Real beta = 1;
  static Silu sample() { return {{}, 1.7}; }
  LOCUS_HD auto apply(auto x) const {
    const auto s = m::sigmoid(beta(x) * x);
    return s == 0 ? s : x * s;
  }
  auto grad(auto& x, auto&, auto& dy) const { return silu_grad(dy, x, beta); }
  void check(auto expect) const {
    expect(beta != 0 && expect.holds(beta), "beta", beta,
           "a number other than 0 that the dtype holds");
  }
};
// x tanh(softplus(x)) (Misra, 2019).
struct Mish : Unary<"mish", kFloats, 24, kX> {
  static constexpr unsigned kInRange = kX;
  LOCUS_HD auto apply(auto x) const {
    return x == -m::infinity(x) ? m::c(x, 0) : x * m::tanh(Softplus().apply(x));
  }
  auto grad(auto& x, auto&, auto& dy) const { return mish_grad(dy, x); }
};
struct Relu : Unary<"relu", kAll, 1, kOut> {
  static constexpr unsigned kInRange = kX;
  LOCUS_HD auto apply(auto x) const { return m::max(x, m::c(x, 0)); }
  auto grad(auto&, auto& y, auto& dy) const { return relu_grad(dy, y); }
};
struct Sigmoid : Unary<"sigmoid", kFloats, 8, kOut> {
  static constexpr unsigned kInRange = kX;
  LOCUS_HD auto apply(auto x) const { return m::sigmoid(x); }
  auto grad(auto&, auto& y, auto& dy) const { return sigmoid_grad(dy, y); }
};
struct Tanh : Unary<"tanh", kFloats, 8, kOut> {
  static constexpr unsigned kInRange = kX;
  LOCUS_HD auto apply(auto x) const { return m::tanh(x); }
  auto grad(auto&, auto& y, auto& dy) const { return tanh_grad(dy, y); }
};
struct LeakyRelu : Unary<"leaky_relu", kFloats, 1, kX> {
  static constexpr unsigned kInRange = kX;
  Real slope = .25;
  static LeakyRelu sample() { return {{}, .1}; }
  LOCUS_HD auto apply(auto x) const { return x > 0 ? x : x * slope(x); }
  auto grad(auto& x, auto&, auto& dy) const { return where(x > 0, dy, dy * slope(x)); }
  void check(auto expect) const {
    expect(expect.holds(slope), "slope", slope, "a number that the dtype holds");
  }
};
struct Elu : Unary<"elu", kFloats, 16, kX> {
  Real alpha = 1;
  static Elu sample() { return {{}, .7}; }
  LOCUS_HD auto apply(auto x) const { return x > 0 ? x : alpha(x) * m::expm1(x); }
  auto grad(auto& x, auto&, auto& dy) const {
    return where(x > 0, dy, dy * exp(minimum(x, 0)) * alpha(x));
  }
  void check(auto expect) const {
    expect(expect.holds(alpha), "alpha", alpha, "a number that the dtype holds");
  }
};
struct Selu : Unary<"selu", kFloats, 16, kX> {
  static constexpr double kAlpha = 1.6732632423543772, kScale = 1.0507009873554805;
  LOCUS_HD auto apply(auto x) const {
    return m::c(x, kScale) * (x > 0 ? x : m::c(x, kAlpha) * m::expm1(x));
  }
  auto grad(auto& x, auto&, auto& dy) const {
    return dy * where(x > 0, kScale, exp(minimum(x, 0)) * (kScale * kAlpha));
  }
};
struct HardSigmoid : Unary<"hard_sigmoid", kFloats, 2, kOut> {
  static constexpr unsigned kInRange = kX;
  Real alpha = .2, beta = .5;
  static HardSigmoid sample() { return {{}, .3, .4}; }
  LOCUS_HD auto apply(auto x) const {
    return m::min(m::max(alpha(x) * x + beta(x), m::c(x, 0)), m::c(x, 1));
  }
  auto grad(auto& x, auto& y, auto& dy) const {
    return where(logical_and(y > 0, y < 1), dy * alpha(x), 0);
  }
  void check(auto expect) const {
    expect(expect.holds(alpha), "alpha", alpha, "a number that the dtype holds");
    expect(expect.holds(beta), "beta", beta, "a number that the dtype holds");
  }
};
struct HardSwish : Unary<"hard_swish", kFloats, 4, kX> {
  LOCUS_HD auto apply(auto x) const {
    return x <= -3 ? m::c(x, 0) : x >= 3 ? x : x * (x + m::c(x, 3)) / m::c(x, 6);
  }
  auto grad(auto& x, auto&, auto& dy) const {
    return dy * where(x <= -3, 0, where(x >= 3, 1, x / 3 + .5));
  }
};
struct SmoothL1 : Widens<Unary<"smooth_l1", kFloats, 2, kX>> {
  Real scalar = 1;
  static SmoothL1 sample() { return {{}, 1.3}; }
  LOCUS_HD auto apply(auto x) const {
    const auto s = scalar(x), a = m::abs(x), end = m::c(x, 1) / (s * s);
    return a > end ? a - m::c(x, .5) * end : m::c(x, .5) * (s * x) * (s * x);
  }
  auto grad(auto& x, auto&, auto& dy) const {
    const auto steep = x * scalar(x) * scalar(x);
    return dy * where(abs(steep) > 1, sign(x), steep);
  }
  void check(auto expect) const {
    expect(scalar > 0 && expect.holds(scalar), "scalar", scalar,
           "a number above 0 that the dtype holds");
  }
};
// For integers the bounds are cut to integers.
struct Clip : Unary<"clip", kNumbers, 1, kX> {
  static constexpr unsigned kInRange = kX;
  static constexpr bool kCountsBool = true;
  Real a_min = -1, a_max = 1;
  static Clip sample() { return {{}, -.7, 1.3}; }
  // g++ does not vectorize max() within min().
  LOCUS_HD auto apply(auto x) const {
    const auto most = a_max(x), y = m::max(x, a_min(x));
    return y >= most ? most : y;
  }
  auto grad(auto& x, auto&, auto& dy) const {
    return where(logical_or(a_min(x) > x, x > a_max(x)), 0, dy);
  }
  void check(auto expect) const {
    expect(a_min <= a_max, "a_min", a_min, "a number that is not above a_max");
  }
};
struct Softcap : Unary<"softcap", kFloats, 16, kOut> {
  static constexpr unsigned kInRange = kX;
  Real c = 1;
  static Softcap sample() { return {{}, 1.7}; }
  LOCUS_HD auto apply(auto x) const { return c(x) * m::tanh(x / c(x)); }
  auto grad(auto&, auto& y, auto& dy) const { return dy * (1 - square(y / c(y))); }
  void check(auto expect) const {
    expect(c > 0 && expect.holds(c), "c", c, "a number above 0 that the dtype holds");
  }
};

// x if x > 0, else y x: leaky_relu with a learned slope.
struct Prelu : Binary<"prelu", kFloats, 1, kX | kY> {
  static constexpr unsigned kInRange = kX | kY;
  static constexpr bool kNamed = false;  // alpha lies along axis 1
  LOCUS_HD auto apply(auto x, auto y) const { return x > 0 ? x : x * y; }
  auto dx(auto& x, auto& y, auto&, auto& d) const { return where(x > 0, d, d * y); }
  auto dy(auto& x, auto&, auto&, auto& d) const {
    if constexpr (requires { x.shape(); })
      return d * minimum(x, 0);
    else
      return d * (x < 0 ? x : 0);
  }
};

// Gradients of activations, one launch each. From dy and the result y:
struct ReluGrad : Binary<"relu_grad", kFloats, 1, kY> {
  static constexpr bool kExact = true;
  static constexpr unsigned kInRange = kX;
  LOCUS_HD auto apply(auto dy, auto y) const { return y <= 0 ? m::c(y, 0) : dy; }
  auto dx(auto&, auto& y, auto&, auto& d) const { return relu_grad(d, y); }
};
struct SigmoidGrad : Binary<"sigmoid_grad", kFloats, 1, kX | kY> {
  static constexpr unsigned kInRange = kX;
  LOCUS_HD auto apply(auto dy, auto y) const { return dy * y * (m::c(y, 1) - y); }
  auto dx(auto&, auto& y, auto&, auto& d) const { return sigmoid_grad(d, y); }
  auto dy(auto& x, auto& y, auto&, auto& d) const { return d * x * (1 - 2 * y); }
};
struct TanhGrad : Binary<"tanh_grad", kFloats, 1, kX | kY> {
  static constexpr unsigned kInRange = kX;
  LOCUS_HD auto apply(auto dy, auto y) const { return dy * (m::c(y, 1) - y * y); }
  auto dx(auto&, auto& y, auto&, auto& d) const { return tanh_grad(d, y); }
  auto dy(auto& x, auto& y, auto&, auto& d) const { return d * x * y * -2; }
};
// From dy and the data x, the operand y. Their own gradients clip x to [-1000, 1000]: outside,
// slopes are constant, and infinity times 0 would be NaN.
struct ErfGrad : Binary<"erf_grad", kFloats, 16, kX | kY> {
  static constexpr unsigned kInRange = kX;
  LOCUS_HD auto apply(auto dy, auto x) const {
    return dy * (m::exp(-(x * x)) * m::c(x, 1.1283791670955126));
  }
  auto dx(auto&, auto& x, auto&, auto& d) const { return erf_grad(d, x); }
  auto dy(auto& dy, auto& x, auto&, auto& d) const {
    const auto v = clip(x, -1e3, 1e3);
    return d * dy * (exp(-(v * v)) * v * -2.2567583341910251);
  }
};
struct GeluGrad : Binary<"gelu_grad", kFloats, 16, kX | kY> {
  static constexpr unsigned kInRange = kX;
  LOCUS_HD auto apply(auto dy, auto x) const {
    const auto half = m::c(x, 0.5), density = m::exp(-half * x * x);
    const auto low = (density == 0 ? density : x) * density * m::c(x, 0.3989422804014327);
    return dy * (half + half * m::erf(x * m::c(x, 0.70710678118654752)) + low);
  }
  auto dx(auto&, auto& x, auto&, auto& d) const { return gelu_grad(d, x); }
  auto dy(auto& dy, auto& x, auto&, auto& d) const {
    const auto v = clip(x, -1e3, 1e3), square = v * v;
    return d * dy * (exp(square * -.5) * (2 - square) * 0.3989422804014327);
  }
};
struct SiluGrad : Binary<"silu_grad", kFloats, 8, kX | kY> {
  static constexpr unsigned kInRange = kX;
  Real beta = 1;
  static SiluGrad sample() { return {{}, 1.7}; }
  LOCUS_HD auto apply(auto dy, auto x) const {
    const auto t = beta(x) * x, one = m::c(x, 1), e = m::exp(-m::abs(t));
    const auto part = one / (one + e), slope = e * part * part;
    return dy * ((t < 0 ? e : one) * part + (slope == 0 ? slope : t) * slope);
  }
  auto dx(auto&, auto& x, auto&, auto& d) const { return silu_grad(d, x, beta); }
  auto dy(auto& dy, auto& x, auto&, auto& d) const {
    const auto t = clip(x * beta(x), -1e3, 1e3), s = sigmoid(t), rest = sigmoid(-t);
    return d * dy * (s * rest * (t * (rest - s) + 2) * beta(x));
  }
};
struct MishGrad : Binary<"mish_grad", kFloats, 24, kX | kY> {
  static constexpr unsigned kInRange = kX;
  LOCUS_HD auto apply(auto dy, auto x) const {
    const auto t = m::tanh(Softplus().apply(x)), slope = m::sigmoid(x) * (m::c(x, 1) - t * t);
    return dy * (t + (slope == 0 ? slope : x) * slope);
  }
  auto dx(auto&, auto& x, auto&, auto& d) const { return mish_grad(d, x); }
  auto dy(auto& dy, auto& x, auto&, auto& d) const {
    const auto v = clip(x, -1e3, 1e3), s = sigmoid(v), t = tanh(softplus(v));
    return d * dy * (s * (1 - t * t) * (v * (1 - s - t * s * 2) + 2));
  }
};

using ActivationOps =
    List<Erf, Softsign, Softplus, Gelu, Silu, Mish, Relu, Sigmoid, Tanh, LeakyRelu, Elu, Selu,
         HardSigmoid, HardSwish, SmoothL1, Clip, Softcap, Prelu, ReluGrad, SigmoidGrad, TanhGrad,
         ErfGrad, GeluGrad, SiluGrad, MishGrad>;

}  // namespace locus::formula

#ifdef LOCUS_FUNCTIONS
namespace locus {
Tensor erf(const Tensor& x, Caller from) { return call(formula::Erf(), x, from); }
Tensor softsign(const Tensor& x, Caller from) { return call(formula::Softsign(), x, from); }
Tensor softplus(const Tensor& x, Caller from) { return call(formula::Softplus(), x, from); }
Tensor gelu(const Tensor& x, Caller from) { return call(formula::Gelu(), x, from); }
Tensor silu(const Tensor& x, Caller from) { return call(formula::Silu(), x, from); }
Tensor swish(const Tensor& x, double beta, Caller from) {
  return beta == 0 ? multiply({x, from}, .5) : call(formula::Silu{{}, beta}, x, from);
}
Tensor mish(const Tensor& x, Caller from) { return call(formula::Mish(), x, from); }
Tensor relu(const Tensor& x, Caller from) { return call(formula::Relu(), x, from); }
Tensor sigmoid(const Tensor& x, Caller from) { return call(formula::Sigmoid(), x, from); }
Tensor tanh(const Tensor& x, Caller from) { return call(formula::Tanh(), x, from); }
Tensor leaky_relu(const Tensor& x, double slope, Caller from) {
  return call(formula::LeakyRelu{{}, slope}, x, from);
}
Tensor elu(const Tensor& x, double alpha, Caller from) {
  return call(formula::Elu{{}, alpha}, x, from);
}
Tensor selu(const Tensor& x, Caller from) { return call(formula::Selu(), x, from); }
Tensor hard_sigmoid(const Tensor& x, double alpha, double beta, Caller from) {
  return call(formula::HardSigmoid{{}, alpha, beta}, x, from);
}
Tensor hard_swish(const Tensor& x, Caller from) { return call(formula::HardSwish(), x, from); }
Tensor smooth_l1(const Tensor& x, double scalar, Caller from) {
  return call(formula::SmoothL1{{}, scalar}, x, from);
}
Tensor clip(const Tensor& x, double a_min, double a_max, Caller from) try {
  const UserLine user_line(from);
  const auto held = [&](double v) {  // i8 and u8 are computed in i32 on a GPU
    const DType d = x.dtype();
    return d == u8                 ? std::clamp(v, 0., 255.)
           : d == i8 || d == bool_ ? std::clamp(v, -128., 127.)
                                   : v;
  };
  return call(formula::Clip{{}, held(a_min), held(a_max)}, x, from);
} catch (const Error&) {
  rethrow_at(from);
}
Tensor softcap(const Tensor& x, double c, Caller from) {
  return call(formula::Softcap{{}, c}, x, from);
}
Tensor prelu(const Tensor& x, const Tensor& alpha, Caller from) try {
  const UserLine user_line(from);
  int64_t lengths[kMaxRank];  // of alpha, which broadcasts along axis 1
  std::fill_n(lengths, kMaxRank, 1);
  const bool one = alpha.size() == 1, channels = x.ndim() > 1;
  if (!one && !(channels && alpha.shape() == Shape{x.shape()[1]}))
    throw ShapeError("prelu: data ", describe(x), ", alpha ", describe(alpha),
                     "; expected an alpha of one number",
                     channels ? text_of(", or of shape ", Shape{x.shape()[1]},
                                        ", a slope for each channel of axis 1")
                              : ", since the data has no axis 1");
  if (!one) lengths[1] = alpha.size();
  return call(formula::Prelu(), x, alpha.reshape(Shape(lengths, x.ndim())));
} catch (const Error&) {
  rethrow_at(from);
}
static Tensor relu_grad(const Operand& dy, const Operand& y) {
  return call(formula::ReluGrad(), dy, y);
}
static Tensor sigmoid_grad(const Operand& dy, const Operand& y) {
  return call(formula::SigmoidGrad(), dy, y);
}
static Tensor tanh_grad(const Operand& dy, const Operand& y) {
  return call(formula::TanhGrad(), dy, y);
}
static Tensor erf_grad(const Operand& dy, const Operand& x) {
  return call(formula::ErfGrad(), dy, x);
}
static Tensor gelu_grad(const Operand& dy, const Operand& x) {
  return call(formula::GeluGrad(), dy, x);
}
static Tensor silu_grad(const Operand& dy, const Operand& x, double beta) {
  return call(formula::SiluGrad{{}, beta}, dy, x);
}
static Tensor mish_grad(const Operand& dy, const Operand& x) {
  return call(formula::MishGrad(), dy, x);
}
}  // namespace locus
#endif
