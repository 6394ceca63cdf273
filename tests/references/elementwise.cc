#include <locus/ops/elementwise/activation_kernel.h>
#include <locus/ops/elementwise/kernels.h>
#include <locus/ops/elementwise/unary_kernel.h>
#include "tests/references/unary.h"

namespace locus::test {
namespace {

template <class A = BinaryAttrs, class F>
Reference binary(std::string op, F form) {
  return each_exact(reference<A>(std::move(op), [form](const Arrays& in, const A& a) -> Arrays {
    const auto f = [&](Real x, Real y) -> Real {
      if constexpr (std::is_invocable_v<F, Real, Real>)
        return form(x, y);
      else
        return form(x, y, a.formula);
    };
    if (in.size() == 2) return {combined(in[0], in[1], f)};
    const Array number({}, in[0].dtype, held(real(a.scalar), in[0].dtype));
    return {a.scalar_first ? combined(number, in[0], f) : combined(in[0], number, f)};
  }));
}
// f also takes whether operands are integers.
template <class F>
Reference of_kinds(std::string op, F f) {
  return each_exact(
      reference<BinaryAttrs>(std::move(op), [f](const Arrays& in, const BinaryAttrs& a) -> Arrays {
        const bool whole = !is_floating(in[0].dtype);
        const auto g = [&](Real x, Real y) { return f(x, y, whole); };
        if (in.size() == 2) return {combined(in[0], in[1], g)};
        const Array number({}, in[0].dtype, held(real(a.scalar), in[0].dtype));
        return {a.scalar_first ? combined(number, in[0], g) : combined(in[0], number, g)};
      }));
}

// f of three operands, each an input or a number.
template <class F>
Reference ternary(std::string op, F f) {
  return each_exact(reference<TernaryAttrs>(
      std::move(op), [f](const Arrays& in, const TernaryAttrs& a) -> Arrays {
        const Array x = a.x_scalar ? Array({}, a.dtype, held(real(a.x), a.dtype)) : in[1];
        const Array y = a.y_scalar ? Array({}, a.dtype, held(real(a.y), a.dtype)) : in.back();
        const auto shape = common_shape(common_shape(in[0].shape, x.shape), y.shape);
        Array z = spread(in[0], shape);
        const Array second = spread(x, shape), third = spread(y, shape);
        for (size_t i = 0; i < z.values.size(); ++i)
          z.values[i] = f(z.values[i], second.values[i], third.values[i]);
        return {z};
      }));
}

Real sign(Real x) { return std::isnan(x) ? x : static_cast<Real>((x > 0) - (x < 0)); }
Real sigmoid(Real x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
Real softplus(Real x) {
  if (std::isnan(x)) return x;
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}
// x times a share that is 0 at -inf, where the product's limit is 0.
Real gated(Real x, Real share) { return x == -kInf ? 0 : x * share; }
// x times a density that vanishes faster than x grows.
Real bell(Real x, Real density) { return density == 0 ? 0 : x * density; }
// Wraps as 64 bits: a Real does not hold the whole product.
Real whole_power(Real x, Real y) {
  if (y < 0) return x == 1 ? 1 : x == -1 ? (std::fmod(y, 2) == 0 ? 1 : -1) : 0;
  uint64_t result = 1;
  for (Real i = 0; i < y; ++i) result *= static_cast<uint64_t>(static_cast<int64_t>(x));
  return static_cast<Real>(static_cast<int64_t>(result));
}
Real remainder(Real x, Real y, bool whole) {
  if (whole && y == 0) return 0;
  const Real r = std::fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
Real greatest(Real x, Real y) { return std::isnan(x) || std::isnan(y) ? kNaN : x > y ? x : y; }
Real least(Real x, Real y) { return std::isnan(x) || std::isnan(y) ? kNaN : x < y ? x : y; }

Real nearest_even(Real x) {
  if (!std::isfinite(x) || std::fabs(x) > 0x1p62L) return x;
  const Real low = std::floor(x), part = x - low;
  return part < .5L || (part == .5L && std::fmod(low, 2) == 0) ? low : low + 1;
}
Real floor_divide(Real x, Real y, bool whole) {
  if (y == 0) return whole ? 0 : x / y;
  const Real r = std::fmod(x, y), q = std::rint((x - r) / y);
  return r != 0 && (r < 0) != (y < 0) ? q - 1 : q;
}
Real logaddexp(Real x, Real y) {
  return x == y ? x + std::log(2.L) : greatest(x, y) + std::log1p(std::exp(-std::fabs(x - y)));
}
int64_t whole(Real x) { return static_cast<int64_t>(x); }
Real shifted_left(Real x, Real y) {
  return y < 0 || y > 63
             ? 0
             : static_cast<Real>(static_cast<int64_t>(static_cast<uint64_t>(whole(x)) << whole(y)));
}
Real shifted_right(Real x, Real y) {
  return std::floor(y < 0 || y > 63 ? (x < 0 ? -1 : 0) : std::ldexp(x, -static_cast<int>(y)));
}

const References kUnary{{
    unary("negative", [](Real x) { return -x; }),
    unary("abs", [](Real x) { return std::fabs(x); }),
    unary("sign", [](Real x) { return sign(x); }),
    unary("square", [](Real x) { return x * x; }),
    unary("floor", [](Real x) { return std::floor(x); }),
    unary("ceil", [](Real x) { return std::ceil(x); }),
    unary("trunc", [](Real x) { return std::trunc(x); }),
    unary("round",  // halves away from zero
          [](Real x) { return x < 0   ? -std::floor(.5L - x)
                              : x > 0 ? std::floor(x + .5L)
                                      : x; }),
    unary("rint", nearest_even),
    each_exact(reference<formula::Around>(  // the product is rounded to the kernel's dtype
        "around",
        [](const Arrays& in, const auto& a) -> Arrays {
          const DType d = in[0].dtype;
          return {mapped(in[0], [&](Real x) -> Real {
            const Real scale = std::fabs(Real{a.scale});
            if (a.scale < 0) return nearest_even(x / scale) * scale;
            const Real product = x * scale, held = d == f64         ? static_cast<double>(product)
                                                   : is_floating(d) ? static_cast<float>(product)
                                                                    : product;
            return std::isinf(held) ? x : nearest_even(held) / scale;
          })};
        })),
    unary("sqrt", [](Real x) { return std::sqrt(x); }),
    unary("rsqrt", [](Real x) { return 1 / std::sqrt(x); }),
    unary("cbrt", [](Real x) { return std::cbrt(x); }),
    slope_of_result(unary("reciprocal", [](Real x) { return 1 / x; })),
    slope_of_result(unary("exp", [](Real x) { return std::exp(x); })),
    slope_of_result(unary("exp2", [](Real x) { return std::exp2(x); })),
    slope_cancels(unary("expm1", [](Real x) { return std::expm1(x); })),
    unary("log", [](Real x) { return std::log(x); }),
    unary("log2", [](Real x) { return std::log2(x); }),
    unary("log10", [](Real x) { return std::log10(x); }),
    unary("log1p", [](Real x) { return std::log1p(x); }),
    unary("degrees", [](Real x) { return x * 180 / kPi; }),
    unary("radians", [](Real x) { return x * kPi / 180; }),
    each_exact(reference<formula::NanToNum>("nan_to_num",
                                            [](const Arrays& in, const auto& a) -> Arrays {
                                              const DType d = in[0].dtype;
                                              const Real most = d == f64   ? 0x1.fffffffffffffp1023L
                                                                : d == f16 ? 65504
                                                                : d == bf16 ? 0x1.fep127L
                                                                            : 0x1.fffffep127L;
                                              return {mapped(in[0], [&](Real x) -> Real {
                                                return std::isnan(x) ? Real{a.nan}
                                                       : x > most    ? Real{a.posinf}
                                                       : x < -most   ? Real{a.neginf}
                                                                     : x;
                                              })};
                                            })),
    unary("bitwise_not", [](Real x) { return -x - 1; }),
    unary("sin", [](Real x) { return std::sin(x); }),
    unary("cos", [](Real x) { return std::cos(x); }),
    unary("tan", [](Real x) { return std::tan(x); }),
    unary("arcsin", [](Real x) { return std::asin(x); }),
    unary("arccos", [](Real x) { return std::acos(x); }),
    unary("arctan", [](Real x) { return std::atan(x); }),
    unary("sinh", [](Real x) { return std::sinh(x); }),
    unary("cosh", [](Real x) { return std::cosh(x); }),
    unary("arcsinh", [](Real x) { return std::asinh(x); }),
    unary("arccosh", [](Real x) { return std::acosh(x); }),
    unary("arctanh", [](Real x) { return std::atanh(x); }),
}};

const References kActivations{{
    unary("erf", [](Real x) { return std::erf(x); }),
    unary("softsign", [](Real x) { return std::isinf(x) ? sign(x) : x / (1 + std::fabs(x)); }),
    unary("softplus", [](Real x) { return softplus(x); }),
    cancels(unary("gelu", [](Real x) { return gated(x, std::erfc(-x / std::sqrt(2.L)) / 2); })),
    unary<formula::Silu>("silu",
                         [](Real x, const auto& a) { return gated(x, sigmoid(a.beta * x)); }),
    unary("mish", [](Real x) { return gated(x, std::tanh(softplus(x))); }),
    unary("relu", [](Real x) { return std::isnan(x) || x > 0 ? x : 0; }),
    slope_cancels(unary("sigmoid", [](Real x) { return sigmoid(x); })),
    slope_cancels(unary("tanh", [](Real x) { return std::tanh(x); })),
    unary<formula::LeakyRelu>("leaky_relu",
                              [](Real x, const auto& a) { return x > 0 ? x : x * a.slope; }),
    unary<formula::Elu>("elu",
                        [](Real x, const auto& a) { return x > 0 ? x : a.alpha * std::expm1(x); }),
    unary("selu",  // Klambauer et al. 2017
          [](Real x) {
            return 1.0507009873554804934193349852946L *
                   (x > 0 ? x : 1.6732632423543772848170429916717L * std::expm1(x));
          }),
    unary<formula::HardSigmoid>(
        "hard_sigmoid",
        [](Real x, const auto& a) { return least(greatest(a.alpha * x + a.beta, 0), 1); }),
    unary("hard_swish", [](Real x) { return gated(x, least(greatest(x + 3, 0), 6) / 6); }),
    unary<formula::SmoothL1>("smooth_l1",
                             [](Real x, const auto& a) {
                               const Real s2 = Real{a.scalar} * a.scalar, size = std::fabs(x);
                               return size > 1 / s2 ? size - .5L / s2 : s2 * x * x / 2;
                             }),
    unary<formula::Clip>(
        "clip", [](Real x, const auto& a) { return least(greatest(x, a.a_min), a.a_max); }),
    slope_cancels(unary<formula::Softcap>(
        "softcap", [](Real x, const auto& a) { return a.c * std::tanh(x / Real{a.c}); })),
    binary("erf_grad",
           [](Real dy, Real x) { return dy * (2 / std::sqrt(kPi) * std::exp(-x * x)); }),
    binary("gelu_grad",
           [](Real dy, Real x) {
             const Real density = std::exp(-x * x / 2) / std::sqrt(2 * kPi);
             return dy * (std::erfc(-x / std::sqrt(2.L)) / 2 + bell(x, density));
           }),
    binary<formula::WithNumber<formula::SiluGrad>>("silu_grad",
                                                   [](Real dy, Real x, const auto& a) {
                                                     const Real t = a.beta * x, s = sigmoid(t);
                                                     return dy * (s + bell(t, s * sigmoid(-t)));
                                                   }),
    binary("mish_grad",
           [](Real dy, Real x) {
             const Real t = std::tanh(softplus(x)), cosh = std::cosh(softplus(x));
             return dy * (t + bell(x, sigmoid(x) / (cosh * cosh)));
           }),
    binary("prelu", [](Real x, Real y) { return x > 0 ? x : x * y; }),
    binary("relu_grad", [](Real dy, Real y) { return y <= 0 ? 0 : dy; }),
    binary("sigmoid_grad", [](Real dy, Real y) { return dy * y * (1 - y); }),
    binary("tanh_grad", [](Real dy, Real y) { return dy * (1 - y * y); }),
}};

const References kBinary{{
    binary("add", [](Real x, Real y) { return x + y; }),
    binary("subtract", [](Real x, Real y) { return x - y; }),
    binary("multiply", [](Real x, Real y) { return x * y; }),
    binary("divide", [](Real x, Real y) { return x / y; }),
    of_kinds("floor_divide", floor_divide),
    of_kinds("mod", remainder),
    of_kinds("fmod",
             [](Real x, Real y, bool whole) { return whole && y == 0 ? 0 : std::fmod(x, y); }),
    slope_of_result(of_kinds(
        "power",
        [](Real x, Real y, bool whole) { return whole ? whole_power(x, y) : std::pow(x, y); })),
    binary("maximum", greatest),
    binary("minimum", least),
    slope_of_result(binary("ldexp",
                           [](Real x, Real y) {
                             const bool stays = !std::isnan(y) && (x == 0 || std::isinf(x));
                             return stays ? x : x * std::exp2(y);
                           })),
    binary("xlogy", [](Real x, Real y) { return x == 0 && !std::isnan(y) ? 0 : x * std::log(y); }),
    binary("hypot", [](Real x, Real y) { return std::hypot(x, y); }),
    binary("copysign", [](Real x, Real y) { return std::copysign(x, y); }),
    binary("heaviside",
           [](Real x, Real h) { return std::isnan(x) ? x
                                       : x == 0      ? h
                                       : x > 0       ? 1
                                                     : 0; }),
    binary("arctan2", [](Real y, Real x) { return std::atan2(y, x); }),
    cancels(binary("logaddexp", logaddexp)),
    binary("bitwise_and", [](Real x, Real y) { return whole(x) & whole(y); }),
    binary("bitwise_or", [](Real x, Real y) { return whole(x) | whole(y); }),
    binary("bitwise_xor", [](Real x, Real y) { return whole(x) ^ whole(y); }),
    binary("left_shift", shifted_left),
    binary("right_shift", shifted_right),
    ternary("divide_grad", [](Real a, Real x, Real y) { return -a * x / (y * y); }),
    ternary("ratio_grad",  // x / y has limits for zeros and for infinities
            [](Real a, Real x, Real y) {
              const bool ends = std::isinf(x) && std::isinf(y);
              return a * (ends ? sign(x) * sign(y) : x == 0 && y == 0 ? 0 : x / y);
            }),
    ternary("power_grad",
            [](Real a, Real x, Real y) { return y == 0 ? 0 : a * y * std::pow(x, y - 1); }),
    binary("equal", [](Real x, Real y) { return x == y; }),
    binary("not_equal", [](Real x, Real y) { return !(x == y); }),
    binary("greater", [](Real x, Real y) { return x > y; }),
    binary("greater_equal", [](Real x, Real y) { return x >= y; }),
    binary("lesser", [](Real x, Real y) { return y > x; }),
    binary("lesser_equal", [](Real x, Real y) { return y >= x; }),
    binary("logical_and", [](Real x, Real y) { return !(x == 0 || y == 0); }),
    binary("logical_or", [](Real x, Real y) { return !(x == 0 && y == 0); }),
    binary("logical_xor", [](Real x, Real y) { return (x == 0) != (y == 0); }),
    unary("logical_not", [](Real x) { return x == 0; }),
    unary("isnan", [](Real x) { return std::isnan(x); }),
    unary("isinf", [](Real x) { return std::isinf(x); }),
    unary("isfinite", [](Real x) { return std::isfinite(x); }),
    each_exact(reference<TernaryAttrs>(
        "where",
        [](const Arrays& in, const TernaryAttrs& a) -> Arrays {
          const Array x = a.x_scalar ? Array({}, a.dtype, held(real(a.x), a.dtype)) : in[1];
          const Array y = a.y_scalar ? Array({}, a.dtype, held(real(a.y), a.dtype)) : in.back();
          const std::vector<int64_t> shape =
              common_shape(common_shape(in[0].shape, x.shape), y.shape);
          const Array mask = spread(in[0], shape), other = spread(y, shape);
          Array z = spread(x, shape);
          for (size_t i = 0; i < z.values.size(); ++i)
            if (mask.values[i] == 0) z.values[i] = other.values[i];
          z.dtype = a.dtype;
          return {z};
        })),
}};

}  // namespace
}  // namespace locus::test
