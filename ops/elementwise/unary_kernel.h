// The formulas of one operand, each with its gradient beside it.
//
// grad(x, y, dy) is the gradient of y = apply(x), composed of ops on Tensors, so that gradients of
// any order exist; kKeep says which of x and y it reads (the other is undefined). kLow and kHigh
// bound the samples of tests. Adding an op takes a formula here, its name in UnaryOps, and a
// function in unary.h.
#pragma once

#include <locus/ops/elementwise/elementwise_kernel.h>

namespace locus::formula {

template <unsigned Kinds, int Cost, Keep Kept>
struct Unary : Form<1, Kinds, Cost> {
  static constexpr Keep kKeep = Kept;
  static constexpr double kLow = -2, kHigh = 2;
};
inline constexpr unsigned kNumbers = kFloats | kInts;

struct Negative : Unary<kNumbers, 1, Keep::none> {
  static constexpr const char* name = "negative";
  template <class V>
  LOCUS_HD static V apply(V x) {
    if constexpr (std::is_integral_v<V>)
      return m::subtract(V(0), x);
    else
      return -x;
  }
  template <class V>
  static V grad(const V&, const V&, const V& dy) {
    return -dy;
  }
};
struct Abs : Unary<kNumbers, 1, Keep::inputs> {
  static constexpr const char* name = "abs";
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::abs(x);
  }
  template <class V>
  static V grad(const V& x, const V&, const V& dy) {
    return dy * sign(x);
  }
};
// -1, 0 or 1; NaN stays NaN.
struct Sign : Unary<kNumbers, 1, Keep::none> {
  static constexpr const char* name = "sign";
  template <class V>
  LOCUS_HD static V apply(V x) {
    if constexpr (std::is_integral_v<V>)
      return static_cast<V>((x > 0) - (x < 0));
    else
      return x > 0 ? m::c(x, 1) : x < 0 ? m::c(x, -1) : x;
  }
  template <class V>
  static V grad(const V&, const V&, const V& dy) {
    return zeros_like(dy);
  }
};
struct Square : Unary<kNumbers, 1, Keep::inputs> {
  static constexpr const char* name = "square";
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::multiply(x, x);
  }
  template <class V>
  static V grad(const V& x, const V&, const V& dy) {
    return dy * x * 2;
  }
};
struct Floor : Unary<kNumbers, 2, Keep::none> {
  static constexpr const char* name = "floor";
  template <class V>
  LOCUS_HD static V apply(V x) {
    if constexpr (std::is_integral_v<V>)
      return x;
    else
      return m::floor(x);
  }
  template <class V>
  static V grad(const V&, const V&, const V& dy) {
    return zeros_like(dy);
  }
};
struct Ceil : Unary<kNumbers, 2, Keep::none> {
  static constexpr const char* name = "ceil";
  template <class V>
  LOCUS_HD static V apply(V x) {
    if constexpr (std::is_integral_v<V>)
      return x;
    else
      return m::ceil(x);
  }
  template <class V>
  static V grad(const V&, const V&, const V& dy) {
    return zeros_like(dy);
  }
};
struct Trunc : Unary<kNumbers, 2, Keep::none> {
  static constexpr const char* name = "trunc";
  template <class V>
  LOCUS_HD static V apply(V x) {
    if constexpr (std::is_integral_v<V>)
      return x;
    else
      return m::trunc(x);
  }
  template <class V>
  static V grad(const V&, const V&, const V& dy) {
    return zeros_like(dy);
  }
};
// Halves away from zero.
struct Round : Unary<kNumbers, 2, Keep::none> {
  static constexpr const char* name = "round";
  template <class V>
  LOCUS_HD static V apply(V x) {
    if constexpr (std::is_integral_v<V>)
      return x;
    else
      return m::round(x);
  }
  template <class V>
  static V grad(const V&, const V&, const V& dy) {
    return zeros_like(dy);
  }
};
// Halves to even.
struct Rint : Unary<kNumbers, 2, Keep::none> {
  static constexpr const char* name = "rint";
  template <class V>
  LOCUS_HD static V apply(V x) {
    if constexpr (std::is_integral_v<V>)
      return x;
    else
      return m::rint(x);
  }
  template <class V>
  static V grad(const V&, const V&, const V& dy) {
    return zeros_like(dy);
  }
};
struct Sqrt : Unary<kFloats, 4, Keep::outputs> {
  static constexpr const char* name = "sqrt";
  static constexpr double kLow = 0.2, kHigh = 4;
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::sqrt(x);
  }
  template <class V>
  static V grad(const V&, const V& y, const V& dy) {
    return dy / (y * 2);
  }
};
struct Rsqrt : Unary<kFloats, 8, Keep::both> {
  static constexpr const char* name = "rsqrt";
  static constexpr double kLow = 0.2, kHigh = 4;
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::c(x, 1) / m::sqrt(x);
  }
  template <class V>
  static V grad(const V& x, const V& y, const V& dy) {
    return dy * y / (x * -2);
  }
};
struct Cbrt : Unary<kFloats, 16, Keep::outputs> {
  static constexpr const char* name = "cbrt";
  static constexpr double kLow = 0.2, kHigh = 4;
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::cbrt(x);
  }
  template <class V>
  static V grad(const V&, const V& y, const V& dy) {
    return dy / (y * y * 3);
  }
};
struct Reciprocal : Unary<kFloats, 4, Keep::outputs> {
  static constexpr const char* name = "reciprocal";
  static constexpr double kLow = 0.3, kHigh = 3;
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::c(x, 1) / x;
  }
  template <class V>
  static V grad(const V&, const V& y, const V& dy) {
    return -(dy * y * y);
  }
};
struct Exp : Unary<kFloats, 8, Keep::outputs> {
  static constexpr const char* name = "exp";
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::exp(x);
  }
  template <class V>
  static V grad(const V&, const V& y, const V& dy) {
    return dy * y;
  }
};
struct Expm1 : Unary<kFloats, 16, Keep::outputs> {
  static constexpr const char* name = "expm1";
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::expm1(x);
  }
  template <class V>
  static V grad(const V&, const V& y, const V& dy) {
    return dy * (y + 1);
  }
};
struct Log : Unary<kFloats, 8, Keep::inputs> {
  static constexpr const char* name = "log";
  static constexpr double kLow = 0.2, kHigh = 4;
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::log(x);
  }
  template <class V>
  static V grad(const V& x, const V&, const V& dy) {
    return dy / x;
  }
};
struct Log2 : Unary<kFloats, 16, Keep::inputs> {
  static constexpr const char* name = "log2";
  static constexpr double kLow = 0.2, kHigh = 4;
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::log2(x);
  }
  template <class V>
  static V grad(const V& x, const V&, const V& dy) {
    return dy / (x * 0.69314718055994531);
  }
};
struct Log10 : Unary<kFloats, 16, Keep::inputs> {
  static constexpr const char* name = "log10";
  static constexpr double kLow = 0.2, kHigh = 4;
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::log10(x);
  }
  template <class V>
  static V grad(const V& x, const V&, const V& dy) {
    return dy / (x * 2.3025850929940457);
  }
};
struct Log1p : Unary<kFloats, 16, Keep::inputs> {
  static constexpr const char* name = "log1p";
  static constexpr double kLow = -0.7, kHigh = 3;
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::log1p(x);
  }
  template <class V>
  static V grad(const V& x, const V&, const V& dy) {
    return dy / (x + 1);
  }
};
// The slope is 2 / sqrt(pi) exp(-x^2).
struct Erf : Unary<kFloats, 16, Keep::inputs> {
  static constexpr const char* name = "erf";
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::erf(x);
  }
  template <class V>
  static V grad(const V& x, const V&, const V& dy) {
    return dy * (exp(-(x * x)) * 1.1283791670955126);
  }
};
struct Softsign : Unary<kFloats, 4, Keep::inputs> {
  static constexpr const char* name = "softsign";
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::abs(x) == m::infinity(x) ? m::copysign(m::c(x, 1), x) : x / (m::c(x, 1) + m::abs(x));
  }
  template <class V>
  static V grad(const V& x, const V&, const V& dy) {
    return dy / square(abs(x) + 1);
  }
};
// log(1 + exp(x)), MXNet's softrelu.
struct Softplus : Unary<kFloats, 16, Keep::inputs> {
  static constexpr const char* name = "softplus";
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::max(x, m::c(x, 0)) + m::log1p(m::exp(-m::abs(x)));
  }
  template <class V>
  static V grad(const V& x, const V&, const V& dy) {
    return dy * sigmoid(x);
  }
};
// x times the normal distribution's cumulative function: x / 2 (1 + erf(x / sqrt(2))).
struct Gelu : Unary<kFloats, 16, Keep::inputs> {
  static constexpr const char* name = "gelu";
  template <class V>
  LOCUS_HD static V apply(V x) {
    if (x == -m::infinity(x)) return m::c(x, 0);
    return m::c(x, 0.5) * x * (m::c(x, 1) + m::erf(x * m::c(x, 0.70710678118654752)));
  }
  template <class V>
  static V grad(const V& x, const V&, const V& dy) {
    const V cumulative = erf(x * 0.70710678118654752) * 0.5 + 0.5;
    return dy * (cumulative + x * exp(x * x * -0.5) * 0.3989422804014327);
  }
};
// x sigmoid(x), also called swish.
struct Silu : Unary<kFloats, 8, Keep::inputs> {
  static constexpr const char* name = "silu";
  template <class V>
  LOCUS_HD static V apply(V x) {
    return x == -m::infinity(x) ? m::c(x, 0) : x * m::sigmoid(x);
  }
  template <class V>
  static V grad(const V& x, const V&, const V& dy) {
    const V s = sigmoid(x);
    return dy * s * (x * (1 - s) + 1);
  }
};

// Activations whose backward pass is one launch: Fused, an op of (dy, y) with a gradient of its
// own, stands in the place of grad().
struct ReluGrad : Form<2, kFloats> {
  static constexpr const char* name = "relu_grad";
  template <class V>
  LOCUS_HD static V apply(V dy, V y) {
    return y <= m::c(y, 0) ? m::c(y, 0) : dy;
  }
};
struct SigmoidGrad : Form<2, kFloats> {
  static constexpr const char* name = "sigmoid_grad";
  template <class V>
  LOCUS_HD static V apply(V dy, V y) {
    return dy * y * (m::c(y, 1) - y);
  }
};
struct TanhGrad : Form<2, kFloats> {
  static constexpr const char* name = "tanh_grad";
  template <class V>
  LOCUS_HD static V apply(V dy, V y) {
    return dy * (m::c(y, 1) - y * y);
  }
};
struct Relu : Unary<kNumbers, 1, Keep::outputs> {
  static constexpr const char* name = "relu";
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::max(x, m::c(x, 0));
  }
  using Fused = ReluGrad;
};
struct Sigmoid : Unary<kFloats, 8, Keep::outputs> {
  static constexpr const char* name = "sigmoid";
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::sigmoid(x);
  }
  using Fused = SigmoidGrad;
};
struct Tanh : Unary<kFloats, 8, Keep::outputs> {
  static constexpr const char* name = "tanh";
  template <class V>
  LOCUS_HD static V apply(V x) {
    return m::tanh(x);
  }
  using Fused = TanhGrad;
};

// nvcc takes the lists apart: the first in unary.cu, the others in activation.cu.
using ArithmeticOps = List<Negative, Abs, Sign, Square, Floor, Ceil, Trunc, Round, Rint, Sqrt,
                           Rsqrt, Cbrt, Reciprocal>;
using ExponentialOps = List<Exp, Expm1, Log, Log2, Log10, Log1p>;
using ActivationOps = List<Relu, Sigmoid, Tanh, Softsign, Softplus, Gelu, Silu, Erf>;
using UnaryOps = Join<Join<ArithmeticOps, ExponentialOps>, ActivationOps>;
using UnaryGradOps = List<ReluGrad, SigmoidGrad, TanhGrad>;

}  // namespace locus::formula
