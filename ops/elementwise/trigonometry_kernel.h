// The trigonometric and hyperbolic formulas of one operand, in radians.
#pragma once

#include <locus/ops/elementwise/form.h>

namespace locus::formula {

struct Sin : Unary<"sin", kFloats, 16, kX> {
  static constexpr unsigned kInRange = kX;
  LOCUS_HD auto apply(auto x) const { return m::sin(x); }
  template <class V>
  requires kSame<V, float> LOCUS_HD bool fits(V x) const { return m::f32::turns_quickly(x); }
  LOCUS_HD float quick(float x) const { return m::f32::sin(x); }
  auto grad(auto& x, auto&, auto& dy) const { return dy * cos(x); }
};
struct Cos : Unary<"cos", kFloats, 16, kX> {
  static constexpr unsigned kInRange = kX;
  LOCUS_HD auto apply(auto x) const { return m::cos(x); }
  template <class V>
  requires kSame<V, float> LOCUS_HD bool fits(V x) const { return m::f32::turns_quickly(x); }
  LOCUS_HD float quick(float x) const { return m::f32::cos(x); }
  auto grad(auto& x, auto&, auto& dy) const { return -(dy * sin(x)); }
};
struct Tan : Widens<Unary<"tan", kFloats, 16, kOut>> {
  static constexpr double kLow = -1.2, kHigh = 1.2;
  LOCUS_HD auto apply(auto x) const { return m::tan(x); }
  template <class V>
  requires kSame<V, float> LOCUS_HD bool fits(V x) const { return m::f32::turns_quickly(x); }
  LOCUS_HD float quick(float x) const { return m::f32::tan(x); }
  auto grad(auto&, auto& y, auto& dy) const { return dy * (y * y + 1); }
};
struct Arcsin : Widens<Unary<"arcsin", kFloats, 16, kX>> {
  static constexpr double kLow = -0.8, kHigh = 0.8;
  LOCUS_HD auto apply(auto x) const { return m::asin(x); }
  auto grad(auto& x, auto&, auto& dy) const { return dy * rsqrt((1 - x) * (x + 1)); }
};
struct Arccos : Widens<Unary<"arccos", kFloats, 16, kX>> {
  static constexpr double kLow = -0.8, kHigh = 0.8;
  LOCUS_HD auto apply(auto x) const { return m::acos(x); }
  auto grad(auto& x, auto&, auto& dy) const { return -(dy * rsqrt((1 - x) * (x + 1))); }
};
struct Arctan : Unary<"arctan", kFloats, 16, kX> {
  LOCUS_HD auto apply(auto x) const { return m::atan(x); }
  auto grad(auto& x, auto&, auto& dy) const {
    const auto h = hypot(x, 1);
    return dy / h / h;
  }
};
struct Sinh : Widens<Unary<"sinh", kFloats, 16, kX>> {
  LOCUS_HD auto apply(auto x) const { return m::sinh(x); }
  auto grad(auto& x, auto&, auto& dy) const { return dy * cosh(x); }
};
struct Cosh : Widens<Unary<"cosh", kFloats, 16, kX>> {
  LOCUS_HD auto apply(auto x) const { return m::cosh(x); }
  auto grad(auto& x, auto&, auto& dy) const { return dy * sinh(x); }
};
struct Arcsinh : Unary<"arcsinh", kFloats, 16, kX> {
  LOCUS_HD auto apply(auto x) const { return m::asinh(x); }
  auto grad(auto& x, auto&, auto& dy) const { return dy / hypot(x, 1); }
};
struct Arccosh : Unary<"arccosh", kFloats, 16, kX> {
  static constexpr double kLow = 1.2, kHigh = 4;
  LOCUS_HD auto apply(auto x) const { return m::acosh(x); }
  auto grad(auto& x, auto&, auto& dy) const { return dy / sqrt(x - 1) / sqrt(x + 1); }
};
struct Arctanh : Unary<"arctanh", kFloats, 16, kX> {
  static constexpr double kLow = -0.8, kHigh = 0.8;
  LOCUS_HD auto apply(auto x) const { return m::atanh(x); }
  auto grad(auto& x, auto&, auto& dy) const { return dy / ((1 - x) * (x + 1)); }
};

using TrigonometricOps =
    List<Sin, Cos, Tan, Arcsin, Arccos, Arctan, Sinh, Cosh, Arcsinh, Arccosh, Arctanh>;

}  // namespace locus::formula

#ifdef LOCUS_FUNCTIONS
namespace locus {
Tensor sin(const Tensor& x, Caller from) { return call(formula::Sin(), x, from); }
Tensor cos(const Tensor& x, Caller from) { return call(formula::Cos(), x, from); }
Tensor tan(const Tensor& x, Caller from) { return call(formula::Tan(), x, from); }
Tensor arcsin(const Tensor& x, Caller from) { return call(formula::Arcsin(), x, from); }
Tensor arccos(const Tensor& x, Caller from) { return call(formula::Arccos(), x, from); }
Tensor arctan(const Tensor& x, Caller from) { return call(formula::Arctan(), x, from); }
Tensor sinh(const Tensor& x, Caller from) { return call(formula::Sinh(), x, from); }
Tensor cosh(const Tensor& x, Caller from) { return call(formula::Cosh(), x, from); }
Tensor arcsinh(const Tensor& x, Caller from) { return call(formula::Arcsinh(), x, from); }
Tensor arccosh(const Tensor& x, Caller from) { return call(formula::Arccosh(), x, from); }
Tensor arctanh(const Tensor& x, Caller from) { return call(formula::Arctanh(), x, from); }
}  // namespace locus
#endif
