// Arithmetic, roots, exponentials and logarithms of one operand.
#pragma once

#include <locus/ops/elementwise/form.h>

namespace locus::formula {

struct Negative : Unary<"negative", kNumbers, 1, kNothing> {
  LOCUS_HD auto apply(auto x) const { return m::negative(x); }
  auto grad(auto&, auto&, auto& dy) const { return -dy; }
};
struct Abs : Unary<"abs", kAll, 1, kX> {
  static constexpr unsigned kInRange = kX;
  LOCUS_HD auto apply(auto x) const { return m::abs(x); }
  auto grad(auto& x, auto&, auto& dy) const { return dy * sign(x); }
};
// -1, 0 or 1; NaN stays NaN.
struct Sign : Step<"sign", kNumbers, 1> {
  LOCUS_HD auto apply(auto x) const { return x > 0 ? m::c(x, 1) : x < 0 ? m::c(x, -1) : x; }
};
struct Square : Unary<"square", kNumbers, 1, kX> {
  static constexpr unsigned kInRange = kX;
  static constexpr bool kCountsBool = true;
  LOCUS_HD auto apply(auto x) const { return m::multiply(x, x); }
  auto grad(auto& x, auto&, auto& dy) const { return dy * x * 2; }
};
struct Floor : Step<"floor", kAll, 2> {
  LOCUS_HD auto apply(auto x) const { return m::floor(x); }
};
struct Ceil : Step<"ceil", kAll, 2> {
  LOCUS_HD auto apply(auto x) const { return m::ceil(x); }
};
struct Trunc : Step<"trunc", kAll, 2> {
  LOCUS_HD auto apply(auto x) const { return m::trunc(x); }
};
// Halves away from zero.
struct Round : Step<"round", kAll, 2> {
  LOCUS_HD auto apply(auto x) const { return m::round(x); }
};
// Halves to even.
struct Rint : Step<"rint", kAll, 2> {
  LOCUS_HD auto apply(auto x) const { return m::rint(x); }
};
struct Sqrt : Unary<"sqrt", kFloats, 4, kOut> {
  static constexpr unsigned kInRange = kX;
  static constexpr double kLow = .2, kHigh = 4;
  LOCUS_HD auto apply(auto x) const { return m::sqrt(x); }
  auto grad(auto&, auto& y, auto& dy) const { return dy / (y * 2); }
};
struct Rsqrt : Widens<Unary<"rsqrt", kFloats, 8, kOut>> {
  static constexpr double kLow = .2, kHigh = 4;
  LOCUS_HD auto apply(auto x) const { return m::c(x, 1) / m::sqrt(x); }
  auto grad(auto&, auto& y, auto& dy) const { return dy * -.5 * y * y * y; }
};
struct Cbrt : Unary<"cbrt", kFloats, 16, kOut> {
  static constexpr double kLow = .2, kHigh = 4;
  LOCUS_HD auto apply(auto x) const { return m::cbrt(x); }
  auto grad(auto&, auto& y, auto& dy) const { return dy / (y * y * 3); }
};
struct Reciprocal : Widens<Unary<"reciprocal", kFloats, 4, kOut>> {
  static constexpr unsigned kInRange = kX;
  static constexpr double kLow = .3, kHigh = 3;
  LOCUS_HD auto apply(auto x) const { return m::c(x, 1) / x; }
  auto grad(auto&, auto& y, auto& dy) const { return -(dy * y * y); }
};
struct Exp : Widens<Unary<"exp", kFloats, 8, kOut>> {
  static constexpr unsigned kInRange = kX;
  LOCUS_HD auto apply(auto x) const { return m::exp(x); }
  auto grad(auto&, auto& y, auto& dy) const { return dy * y; }
};
struct Expm1 : Widens<Unary<"expm1", kFloats, 16, kX>> {
  LOCUS_HD auto apply(auto x) const { return m::expm1(x); }
  auto grad(auto& x, auto&, auto& dy) const { return dy * exp(x); }
};
struct Log : Widens<Unary<"log", kFloats, 8, kX>> {
  static constexpr unsigned kInRange = kX;
  static constexpr double kLow = .2, kHigh = 4;
  LOCUS_HD auto apply(auto x) const { return m::log(x); }
  auto grad(auto& x, auto&, auto& dy) const { return dy / x; }
};
struct Log2 : Widens<Unary<"log2", kFloats, 16, kX>> {
  static constexpr double kLow = .2, kHigh = 4;
  LOCUS_HD auto apply(auto x) const { return m::log2(x); }
  auto grad(auto& x, auto&, auto& dy) const { return dy * 1.4426950408889634 / x; }
};
struct Log10 : Widens<Unary<"log10", kFloats, 16, kX>> {
  static constexpr unsigned kInRange = kX;
  static constexpr double kLow = .2, kHigh = 4;
  LOCUS_HD auto apply(auto x) const { return m::log10(x); }
  auto grad(auto& x, auto&, auto& dy) const { return dy * 0.43429448190325183 / x; }
};
struct Log1p : Widens<Unary<"log1p", kFloats, 16, kX>> {
  static constexpr unsigned kInRange = kX;
  static constexpr double kLow = -0.7, kHigh = 3;
  LOCUS_HD auto apply(auto x) const { return m::log1p(x); }
  auto grad(auto& x, auto&, auto& dy) const { return dy / (x + 1); }
};

using UnaryOps = List<Negative, Abs, Sign, Square, Floor, Ceil, Trunc, Round, Rint, Sqrt, Rsqrt,
                      Cbrt, Reciprocal, Exp, Expm1, Log, Log2, Log10, Log1p>;

}  // namespace locus::formula

#ifdef LOCUS_FUNCTIONS
namespace locus {
Tensor negative(const Tensor& x, Caller from) { return call(formula::Negative(), x, from); }
Tensor abs(const Tensor& x, Caller from) { return call(formula::Abs(), x, from); }
Tensor sign(const Tensor& x, Caller from) { return call(formula::Sign(), x, from); }
Tensor square(const Tensor& x, Caller from) { return call(formula::Square(), x, from); }
Tensor floor(const Tensor& x, Caller from) { return call(formula::Floor(), x, from); }
Tensor ceil(const Tensor& x, Caller from) { return call(formula::Ceil(), x, from); }
Tensor trunc(const Tensor& x, Caller from) { return call(formula::Trunc(), x, from); }
Tensor round(const Tensor& x, Caller from) { return call(formula::Round(), x, from); }
Tensor rint(const Tensor& x, Caller from) { return call(formula::Rint(), x, from); }
Tensor sqrt(const Tensor& x, Caller from) { return call(formula::Sqrt(), x, from); }
Tensor rsqrt(const Tensor& x, Caller from) { return call(formula::Rsqrt(), x, from); }
Tensor cbrt(const Tensor& x, Caller from) { return call(formula::Cbrt(), x, from); }
Tensor reciprocal(const Tensor& x, Caller from) { return call(formula::Reciprocal(), x, from); }
Tensor exp(const Tensor& x, Caller from) { return call(formula::Exp(), x, from); }
Tensor expm1(const Tensor& x, Caller from) { return call(formula::Expm1(), x, from); }
Tensor log(const Tensor& x, Caller from) { return call(formula::Log(), x, from); }
Tensor log2(const Tensor& x, Caller from) { return call(formula::Log2(), x, from); }
Tensor log10(const Tensor& x, Caller from) { return call(formula::Log10(), x, from); }
Tensor log1p(const Tensor& x, Caller from) { return call(formula::Log1p(), x, from); }
}  // namespace locus
#endif
