// The arithmetic of two operands, and the ops of their gradients.
#pragma once

#include <locus/ops/elementwise/form.h>
#include <locus/ops/kernel/division.h>
#include <locus/ops/kernel/product.h>
#include <locus/ops/kernel/special.h>

namespace locus::formula {

struct Add : Binary<"add", kAll, 1, kNothing> {
  LOCUS_HD auto apply(auto x, auto y) const { return m::add(x, y); }
  auto dx(auto&, auto&, auto&, auto& d) const { return d; }
  auto dy(auto&, auto&, auto&, auto& d) const { return d; }
};
struct Subtract : Binary<"subtract", kNumbers, 1, kNothing> {
  LOCUS_HD auto apply(auto x, auto y) const { return m::subtract(x, y); }
  auto dx(auto&, auto&, auto&, auto& d) const { return d; }
  auto dy(auto&, auto&, auto&, auto& d) const { return -d; }
};
struct Multiply : Binary<"multiply", kAll, 1, kX | kY> {
  static constexpr unsigned kInRange = kX | kY;
  LOCUS_HD auto apply(auto x, auto y) const { return m::multiply(x, y); }
  auto dx(auto&, auto& y, auto&, auto& d) const { return d * y; }
  auto dy(auto& x, auto&, auto&, auto& d) const { return d * x; }
};
struct Divide : Binary<"divide", kFloats, 1, kX | kY> {
  static constexpr unsigned kInRange = kX | kY;
  static constexpr double kLow2 = .5, kHigh2 = 3;
  LOCUS_HD auto apply(auto x, auto y) const { return x / y; }
  auto dx(auto&, auto& y, auto&, auto& d) const { return d / y; }
  auto dy(auto& x, auto& y, auto&, auto& d) const { return divide_grad(d, x, y); }
};
// Division with remainder. quick() has the bits of apply() where fits() is true (Details of
// form.h).
struct FloorDivide : Binary<"floor_divide", kNumbers, 16, kNothing> {
  static constexpr bool kCountsBool = true;
  static constexpr double kLow2 = .5, kHigh2 = 3;
  LOCUS_HD bool fits(auto x, auto y) const { return m::divides_quickly(x, y); }
  LOCUS_HD auto quick(auto x, auto y) const { return m::quotient_floored<true>(x, y); }
  template <class V>
  requires(kInteger<V>) LOCUS_HD auto by(V y) const { return m::FloorBy<V>(y); }
  LOCUS_HD auto apply(auto x, auto y) const {
    return fits(x, y) ? quick(x, y) : m::quotient_floored<false>(x, y);
  }
  auto dx(auto&, auto&, auto&, auto& d) const { return zeros_like(d); }
  auto dy(auto&, auto&, auto&, auto& d) const { return zeros_like(d); }
};
struct Mod : Binary<"mod", kNumbers, 16, kX | kY> {
  static constexpr unsigned kInRange = kX;
  static constexpr bool kCountsBool = true;
  static constexpr double kLow2 = .5, kHigh2 = 3;
  LOCUS_HD bool fits(auto x, auto y) const { return m::divides_quickly(x, y); }
  LOCUS_HD auto quick(auto x, auto y) const { return m::rest_floored<true>(x, y); }
  LOCUS_HD auto apply(auto x, auto y) const {
    return fits(x, y) ? quick(x, y) : m::rest_floored<false>(x, y);
  }
  auto dx(auto&, auto&, auto&, auto& d) const { return d; }
  auto dy(auto& x, auto& y, auto&, auto& d) const { return -(d * floor_divide(x, y)); }
};
struct Fmod : Binary<"fmod", kNumbers, 16, kX | kY | kOut> {
  static constexpr unsigned kInRange = kX;
  static constexpr bool kCountsBool = true;
  static constexpr double kLow2 = .5, kHigh2 = 3;
  LOCUS_HD bool fits(auto x, auto y) const { return m::divides_quickly(x, y); }
  LOCUS_HD auto quick(auto x, auto y) const { return m::rest_cut<true>(x, y); }
  LOCUS_HD auto apply(auto x, auto y) const {
    return fits(x, y) ? quick(x, y) : m::rest_cut<false>(x, y);
  }
  auto dx(auto&, auto&, auto&, auto& d) const { return d; }
  auto dy(auto& x, auto& y, auto& z, auto& d) const { return -(d * rint((x - z) / y)); }
};
// x^y log x is 0 at x = 0.
struct Power : Widens<Binary<"power", kNumbers, 32, kX | kY | kOut>> {
  static constexpr unsigned kInRange = kX;
  static constexpr double kLow = .3, kHigh = 3, kLow2 = .4, kHigh2 = 3;
  LOCUS_HD auto apply(auto x, auto y) const { return m::power(x, y); }
  template <class V>
  requires kSame<V, float> LOCUS_HD bool fits(V x, V y) const {
    return m::f32::powers_quickly(x, y);
  }
  LOCUS_HD float quick(float x, float y) const { return m::f32::pow(x, y); }
  auto dx(auto& x, double y, auto&, auto& d) const {
    return y == 0 ? zeros_like(d) : y == 1 ? d : y == 2 ? d * x * 2 : power_grad(d, x, y);
  }
  auto dx(auto& x, auto& y, auto&, auto& d) const { return power_grad(d, x, y); }
  auto dy(double x, auto&, auto& z, auto& d) const {
    return x == 0 ? zeros_like(d) : d * m::log(x) * z;
  }
  auto dy(auto& x, auto&, auto& z, auto& d) const { return d * log(where(x == 0, 1, x)) * z; }
};
struct Maximum : Binary<"maximum", kAll, 1, kX | kY> {
  static constexpr bool kExact = true;
  static constexpr unsigned kInRange = kX | kY;
  LOCUS_HD auto apply(auto x, auto y) const { return m::max(x, y); }
  auto dx(auto& x, auto& y, auto&, auto& d) const { return where(x >= y, d, 0); }
  auto dy(auto& x, auto& y, auto&, auto& d) const { return where(x >= y, 0, d); }
};
struct Minimum : Binary<"minimum", kAll, 1, kX | kY> {
  static constexpr bool kExact = true;
  static constexpr unsigned kInRange = kX | kY;
  LOCUS_HD auto apply(auto x, auto y) const { return m::min(x, y); }
  auto dx(auto& x, auto& y, auto&, auto& d) const { return where(x <= y, d, 0); }
  auto dy(auto& x, auto& y, auto&, auto& d) const { return where(x <= y, 0, d); }
};
struct Ldexp : Binary<"ldexp", kFloats, 32, kX | kY | kOut> {
  static constexpr unsigned kInRange = kX | kY;
  LOCUS_HD bool fits(auto, auto y) const { return m::scales_quickly(y); }
  LOCUS_HD auto quick(auto x, auto y) const { return x * m::power_of_2(y); }
  LOCUS_HD auto apply(auto x, auto y) const { return m::ldexp(x, y); }
  auto dx(auto&, auto& y, auto&, auto& d) const { return ldexp(d, y); }
  auto dy(auto&, auto&, auto& z, auto& d) const { return d * 0.69314718055994531 * z; }
};
struct Xlogy : Binary<"xlogy", kFloats, 8, kX | kY> {
  static constexpr unsigned kInRange = kX | kY;
  static constexpr double kLow2 = .3, kHigh2 = 3;
  LOCUS_HD auto apply(auto x, auto y) const { return m::xlogy(x, y); }
  auto dx(auto& x, double y, auto&, auto& d) const {
    return y > 0 ? d * m::log(y) : where(x == 0, 0, d * m::log(y));
  }
  auto dx(auto& x, auto& y, auto&, auto& d) const {
    return d * log(where(logical_and(x == 0, y <= 0), 1, y));
  }
  auto dy(auto& x, auto& y, auto&, auto& d) const { return ratio_grad(d, x, y); }
};

struct Hypot : Binary<"hypot", kFloats, 8, kX | kY | kOut> {
  static constexpr unsigned kInRange = kX | kY;
  static constexpr double kLow = .5;
  LOCUS_HD auto apply(auto x, auto y) const { return m::hypot(x, y); }
  auto dx(auto& x, auto&, auto& z, auto& d) const { return ratio_grad(d, x, z); }
  auto dy(auto&, auto& y, auto& z, auto& d) const { return ratio_grad(d, y, z); }
};
// The slope at x = 0 is 0.
struct Copysign : Binary<"copysign", kFloats, 1, kX | kY> {
  static constexpr bool kExact = true;
  static constexpr unsigned kInRange = kX | kY;
  LOCUS_HD auto apply(auto x, auto y) const { return m::copysign(x, y); }
  auto dx(auto& x, double y, auto&, auto& d) const { return d * sign(x) * m::copysign(1.0, y); }
  auto dx(auto& x, auto& y, auto&, auto& d) const { return d * sign(x) * copysign(1, y); }
  auto dy(auto&, auto&, auto&, auto& d) const { return zeros_like(d); }
};
struct Heaviside : Binary<"heaviside", kFloats, 1, kX> {
  static constexpr bool kExact = true;
  static constexpr unsigned kInRange = kX | kY;
  LOCUS_HD auto apply(auto x, auto y) const {
    return x == 0 ? y : x > 0 ? m::c(x, 1) : x < 0 ? m::c(x, 0) : x;
  }
  auto dx(auto&, auto&, auto&, auto& d) const { return zeros_like(d); }
  auto dy(double x, auto&, auto&, auto& d) const { return x == 0 ? d * 1 : zeros_like(d); }
  auto dy(auto& x, auto&, auto&, auto& d) const { return where(x == 0, d, 0); }
};
// At (0, 0) slopes are 0.
struct Arctan2 : Binary<"arctan2", kFloats, 16, kX | kY> {
  static constexpr double kLow = .5;
  LOCUS_HD auto apply(auto y, auto x) const { return m::arctan2(y, x); }
  auto dx(auto& y, auto& x, auto&, auto& d) const { return over_square(d, x, y); }
  auto dy(auto& y, auto& x, auto&, auto& d) const { return -over_square(d, y, x); }

 private:
  // d u / (u^2 + v^2), as of Cartesian coordinates.
  static auto over_square(auto& d, auto& u, auto& v) {
    const auto h = hypot(u, v);
    return ratio_grad(d, u, h) / where(h == 0, 1, h);
  }
};
struct Logaddexp : Binary<"logaddexp", kFloats, 24, kX | kY> {
  LOCUS_HD auto apply(auto x, auto y) const { return m::logaddexp(x, y); }
  auto dx(auto& x, auto& y, auto&, auto& d) const {
    return d * sigmoid(where(x == y, 0, x - y));  // 1/2 for two infinities
  }
  auto dy(auto& x, auto& y, auto&, auto& d) const { return d * sigmoid(where(x == y, 0, y - x)); }
};

// Gradients that are products, one launch each. No step overflows or vanishes unless the gradient
// does.

// -a x / y^2
struct DivideGrad : Ternary<"divide_grad", kFloats, 4, kX | kY | kOut> {
  static constexpr double kLow3 = .5, kHigh3 = 3;
  LOCUS_HD auto apply(auto a, auto x, auto y) const { return -m::over_square(a, x, y); }
  auto da(auto&, auto& x, auto& y, auto&, auto& d) const { return divide_grad(d, x, y); }
  auto dx(auto& a, auto&, auto& y, auto&, auto& d) const { return divide_grad(d, a, y); }
  auto dy(auto&, auto&, auto& y, auto& z, auto& d) const { return ratio_grad(d * -2, z, y); }
};
// a x / y. x / y is 0 for two zeros, 1 or -1 for two infinities.
struct RatioGrad : Ternary<"ratio_grad", kFloats, 4, kX | kY | kOut> {
  static constexpr double kLow3 = .5, kHigh3 = 3;
  template <class V>
  LOCUS_HD V apply(V a, V x, V y) const {
    const V one = m::c(x, 1), u = m::abs(x), v = m::abs(y);
    const bool zeros = m::max(u, v) == 0, ends = m::min(u, v) == m::infinity(x);
    const V below = zeros ? one : ends ? m::copysign(one, y) : y;
    return m::over(a, ends ? m::copysign(one, x) : x, below);
  }
  auto da(auto&, auto& x, auto& y, auto&, auto& d) const { return ratio_grad(d, x, y); }
  auto dx(auto& a, auto&, auto& y, auto&, auto& d) const { return ratio_grad(d, a, y); }
  auto dy(auto&, auto&, auto& y, auto& z, auto& d) const { return ratio_grad(-d, z, y); }
};
// a y x^(y-1); 0 for y = 0, even at x = 0.
struct PowerGrad : Ternary<"power_grad", kFloats, 32, kX | kY> {
  static constexpr double kLow2 = .3, kHigh2 = 3, kLow3 = .4, kHigh3 = 3;
  template <class V>
  LOCUS_HD V apply(V a, V x, V y) const {
    const V one = m::c(y, 1), power = m::pow(x, y - one), slope = power * y;
    if (m::normal(power) && m::normal(slope)) return a * slope;
    if (y == 0) return m::c(a, 0);
    if (power != power) return power;
    // The square root of a power out of range is in range.
    const V root = m::pow(m::abs(x), (one - y) * m::c(y, .5));
    return m::over_square(a, y * m::copysign(one, power), root);
  }
  auto da(auto&, auto& x, auto& y, auto&, auto& d) const { return power_grad(d, x, y); }
  auto dx(auto& a, auto& x, auto& y, auto&, auto& d) const {
    return power_grad(d * a * y, x, y - 1);
  }
  auto dy(auto& a, double x, auto& y, auto&, auto& d) const {
    return d * a * power(x, y - 1) * (y * m::log(x == 0 ? 1 : x) + 1);
  }
  auto dy(auto& a, auto& x, auto& y, auto&, auto& d) const {
    return d * a * power(x, y - 1) * (y * log(where(x == 0, 1, x)) + 1);
  }
};

using BinaryOps =
    List<Add, Subtract, Multiply, Divide, FloorDivide, Mod, Fmod, Power, Maximum, Minimum, Ldexp,
         Xlogy, Hypot, Copysign, Heaviside, Arctan2, Logaddexp, DivideGrad, RatioGrad, PowerGrad>;

}  // namespace locus::formula

#ifdef LOCUS_FUNCTIONS
namespace locus {
Tensor add(const Operand& a, const Operand& b) { return call(formula::Add(), a, b); }
Tensor subtract(const Operand& a, const Operand& b) { return call(formula::Subtract(), a, b); }
Tensor multiply(const Operand& a, const Operand& b) { return call(formula::Multiply(), a, b); }
Tensor divide(const Operand& a, const Operand& b) { return call(formula::Divide(), a, b); }
Tensor floor_divide(const Operand& a, const Operand& b) {
  return call(formula::FloorDivide(), a, b);
}
Tensor mod(const Operand& a, const Operand& b) { return call(formula::Mod(), a, b); }
Tensor fmod(const Operand& a, const Operand& b) { return call(formula::Fmod(), a, b); }
Tensor power(const Operand& a, const Operand& b) { return call(formula::Power(), a, b); }
Tensor maximum(const Operand& a, const Operand& b) { return call(formula::Maximum(), a, b); }
Tensor minimum(const Operand& a, const Operand& b) { return call(formula::Minimum(), a, b); }
Tensor ldexp(const Operand& x, const Operand& e) { return call(formula::Ldexp(), x, e); }
Tensor xlogy(const Operand& x, const Operand& y) { return call(formula::Xlogy(), x, y); }
Tensor hypot(const Operand& x, const Operand& y) { return call(formula::Hypot(), x, y); }
Tensor copysign(const Operand& x, const Operand& y) { return call(formula::Copysign(), x, y); }
Tensor heaviside(const Operand& x, const Operand& h) { return call(formula::Heaviside(), x, h); }
Tensor arctan2(const Operand& y, const Operand& x) { return call(formula::Arctan2(), y, x); }
Tensor logaddexp(const Operand& x, const Operand& y) { return call(formula::Logaddexp(), x, y); }
static Tensor divide_grad(const Tensor& a, const Operand& x, const Operand& y) {
  return call(formula::DivideGrad(), a, x, y);
}
static Tensor ratio_grad(const Tensor& a, const Operand& x, const Operand& y) {
  return call(formula::RatioGrad(), a, x, y);
}
static Tensor power_grad(const Tensor& a, const Operand& x, const Operand& y) {
  return call(formula::PowerGrad(), a, x, y);
}
}  // namespace locus
#endif
