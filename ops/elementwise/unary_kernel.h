// Arithmetic, roots, exponentials and logarithms of one operand.
#pragma once

#include <locus/ops/elementwise/form.h>

namespace locus::formula {

struct Negative : Unary<kNumbers, 1, kNothing> {
  static constexpr const char* name = "negative";
  LOCUS_HD auto apply(auto x) const { return m::negative(x); }
  auto grad(auto&, auto&, auto& dy) const { return -dy; }
};
struct Abs : Unary<kAll, 1, kX> {
  static constexpr const char* name = "abs";
  LOCUS_HD auto apply(auto x) const { return m::abs(x); }
  auto grad(auto& x, auto&, auto& dy) const { return dy * sign(x); }
};
// -1, 0 or 1; NaN stays NaN.
struct Sign : Unary<kNumbers, 1, kNothing> {
  static constexpr const char* name = "sign";
  LOCUS_HD auto apply(auto x) const { return x > 0 ? m::c(x, 1) : x < 0 ? m::c(x, -1) : x; }
  auto grad(auto&, auto&, auto& dy) const { return zeros_like(dy); }
};
struct Square : Unary<kNumbers, 1, kX> {
  static constexpr const char* name = "square";
  static constexpr bool kCountsBool = true;
  LOCUS_HD auto apply(auto x) const { return m::multiply(x, x); }
  auto grad(auto& x, auto&, auto& dy) const { return dy * x * 2; }
};
struct Floor : Unary<kAll, 2, kNothing> {
  static constexpr const char* name = "floor";
  LOCUS_HD auto apply(auto x) const { return m::floor(x); }
  auto grad(auto&, auto&, auto& dy) const { return zeros_like(dy); }
};
struct Ceil : Unary<kAll, 2, kNothing> {
  static constexpr const char* name = "ceil";
  LOCUS_HD auto apply(auto x) const { return m::ceil(x); }
  auto grad(auto&, auto&, auto& dy) const { return zeros_like(dy); }
};
struct Trunc : Unary<kAll, 2, kNothing> {
  static constexpr const char* name = "trunc";
  LOCUS_HD auto apply(auto x) const { return m::trunc(x); }
  auto grad(auto&, auto&, auto& dy) const { return zeros_like(dy); }
};
// Halves away from zero.
struct Round : Unary<kAll, 2, kNothing> {
  static constexpr const char* name = "round";
  LOCUS_HD auto apply(auto x) const { return m::round(x); }
  auto grad(auto&, auto&, auto& dy) const { return zeros_like(dy); }
};
// Halves to even.
struct Rint : Unary<kAll, 2, kNothing> {
  static constexpr const char* name = "rint";
  LOCUS_HD auto apply(auto x) const { return m::rint(x); }
  auto grad(auto&, auto&, auto& dy) const { return zeros_like(dy); }
};
struct Sqrt : Unary<kFloats, 4, kOut> {
  static constexpr const char* name = "sqrt";
  static constexpr double kLow = .2, kHigh = 4;
  LOCUS_HD auto apply(auto x) const { return m::sqrt(x); }
  auto grad(auto&, auto& y, auto& dy) const { return dy / (y * 2); }
};
struct Rsqrt : Unary<kFloats, 8, kX | kOut> {
  static constexpr const char* name = "rsqrt";
  static constexpr double kLow = .2, kHigh = 4;
  LOCUS_HD auto apply(auto x) const { return m::c(x, 1) / m::sqrt(x); }
  auto grad(auto& x, auto& y, auto& dy) const { return dy * y / (x * -2); }
};
struct Cbrt : Unary<kFloats, 16, kOut> {
  static constexpr const char* name = "cbrt";
  static constexpr double kLow = .2, kHigh = 4;
  LOCUS_HD auto apply(auto x) const { return m::cbrt(x); }
  auto grad(auto&, auto& y, auto& dy) const { return dy / (y * y * 3); }
};
struct Reciprocal : Unary<kFloats, 4, kOut> {
  static constexpr const char* name = "reciprocal";
  static constexpr double kLow = .3, kHigh = 3;
  LOCUS_HD auto apply(auto x) const { return m::c(x, 1) / x; }
  auto grad(auto&, auto& y, auto& dy) const { return -(dy * y * y); }
};
struct Exp : Unary<kFloats, 8, kOut> {
  static constexpr const char* name = "exp";
  LOCUS_HD auto apply(auto x) const { return m::exp(x); }
  auto grad(auto&, auto& y, auto& dy) const { return dy * y; }
};
struct Expm1 : Unary<kFloats, 16, kOut> {
  static constexpr const char* name = "expm1";
  LOCUS_HD auto apply(auto x) const { return m::expm1(x); }
  auto grad(auto&, auto& y, auto& dy) const { return dy * (y + 1); }
};
struct Log : Unary<kFloats, 8, kX> {
  static constexpr const char* name = "log";
  static constexpr double kLow = .2, kHigh = 4;
  LOCUS_HD auto apply(auto x) const { return m::log(x); }
  auto grad(auto& x, auto&, auto& dy) const { return dy / x; }
};
struct Log2 : Unary<kFloats, 16, kX> {
  static constexpr const char* name = "log2";
  static constexpr double kLow = .2, kHigh = 4;
  LOCUS_HD auto apply(auto x) const { return m::log2(x); }
  auto grad(auto& x, auto&, auto& dy) const { return dy / (x * 0.69314718055994531); }
};
struct Log10 : Unary<kFloats, 16, kX> {
  static constexpr const char* name = "log10";
  static constexpr double kLow = .2, kHigh = 4;
  LOCUS_HD auto apply(auto x) const { return m::log10(x); }
  auto grad(auto& x, auto&, auto& dy) const { return dy / (x * 2.3025850929940457); }
};
struct Log1p : Unary<kFloats, 16, kX> {
  static constexpr const char* name = "log1p";
  static constexpr double kLow = -0.7, kHigh = 3;
  LOCUS_HD auto apply(auto x) const { return m::log1p(x); }
  auto grad(auto& x, auto&, auto& dy) const { return dy / (x + 1); }
};

using UnaryOps = List<Negative, Abs, Sign, Square, Floor, Ceil, Trunc, Round, Rint, Sqrt, Rsqrt,
                      Cbrt, Reciprocal, Exp, Expm1, Log, Log2, Log10, Log1p>;

}  // namespace locus::formula

#ifdef LOCUS_FUNCTIONS
namespace locus {
Tensor negative(const Tensor& x) { return call(formula::Negative(), x); }
Tensor abs(const Tensor& x) { return call(formula::Abs(), x); }
Tensor sign(const Tensor& x) { return call(formula::Sign(), x); }
Tensor square(const Tensor& x) { return call(formula::Square(), x); }
Tensor floor(const Tensor& x) { return call(formula::Floor(), x); }
Tensor ceil(const Tensor& x) { return call(formula::Ceil(), x); }
Tensor trunc(const Tensor& x) { return call(formula::Trunc(), x); }
Tensor round(const Tensor& x) { return call(formula::Round(), x); }
Tensor rint(const Tensor& x) { return call(formula::Rint(), x); }
Tensor sqrt(const Tensor& x) { return call(formula::Sqrt(), x); }
Tensor rsqrt(const Tensor& x) { return call(formula::Rsqrt(), x); }
Tensor cbrt(const Tensor& x) { return call(formula::Cbrt(), x); }
Tensor reciprocal(const Tensor& x) { return call(formula::Reciprocal(), x); }
Tensor exp(const Tensor& x) { return call(formula::Exp(), x); }
Tensor expm1(const Tensor& x) { return call(formula::Expm1(), x); }
Tensor log(const Tensor& x) { return call(formula::Log(), x); }
Tensor log2(const Tensor& x) { return call(formula::Log2(), x); }
Tensor log10(const Tensor& x) { return call(formula::Log10(), x); }
Tensor log1p(const Tensor& x) { return call(formula::Log1p(), x); }
}  // namespace locus
#endif
