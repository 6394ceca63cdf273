// Arithmetic, roots, exponentials and logarithms of one operand.
#pragma once

#include <locus/ops/elementwise/form.h>
#include <locus/ops/kernel/division.h>

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
  LOCUS_HD auto apply(auto x) const {
    return x > 0 ? m::c(x, 1) : x < 0 ? m::c(x, -1) : x == 0 ? m::c(x, 0) : x;  // -0 gives 0
  }
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
// To a multiple of 1 / scale or, if negative, of -scale; halves to even. Numbers so large that the
// product overflows stay. Integers: to a multiple of `step`; 0: they stay; -1 stands for 10^19, and
// -2 for more.
struct Around : Step<"around", kAll, 8> {
  static constexpr double kLow = -40, kHigh = 40;
  Real scale = 10;
  int64_t step = 0;
  static Around sample() { return {{}, -10, 10}; }
  template <class V>
  requires(kInteger<V>) LOCUS_HD bool fits(V x) const {
    return step == 0 || (m::divides_quickly(x, static_cast<V>(step)) && step != -1);
  }
  template <class V>
  LOCUS_HD V quick(V x) const {
    return step == 0 ? x : whole<true>(x);
  }
  template <class V>
  LOCUS_HD V apply(V x) const {
    if constexpr (kSame<V, bool>) {
      return step == 0 && x;
    } else if constexpr (kInteger<V>) {
      return fits(x) ? quick(x) : whole<false>(x);
    } else {
      const V s = m::abs(scale(x)), t = m::rint(scale(x) > 0 ? x * s : x / s);
      const V back = scale(x) > 0 ? t / s : t == 0 ? t : t * s;
      return m::abs(t) < m::infinity(x) ? back : x;
    }
  }

 private:
  template <bool Quickly, class V>
  LOCUS_HD V whole(V x) const {
    if constexpr (sizeof(V) == 1) return static_cast<V>(whole<Quickly>(static_cast<int32_t>(x)));
    if constexpr (kSame<V, int64_t> && !Quickly) {
      if (step == -1) {  // i64 does not hold it, but half of it
        const bool far = static_cast<uint64_t>(m::abs(x)) > 5000000000000000000u;
        const uint64_t end = 10000000000000000000u;
        return far ? static_cast<V>(x < 0 ? 0 - end : end) : V(0);
      }
    }
    const bool beyond = step < 0 || static_cast<int64_t>(static_cast<V>(step)) != step;
    const V s = beyond ? V(1) : static_cast<V>(step);
    const auto d = m::divide_whole<Quickly>(x, s);
    const V rest = m::abs(d.rest), back = static_cast<V>(s - rest);
    const bool away = rest - back + (d.quotient & V(1)) > 0;
    const V down = m::subtract(x, d.rest), up = m::add(down, x < 0 ? m::negative(s) : s);
    return beyond ? V(0) : away ? up : down;
  }
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
struct Exp2 : Widens<Unary<"exp2", kFloats, 8, kOut>> {
  static constexpr unsigned kInRange = kX;
  LOCUS_HD auto apply(auto x) const { return m::exp2(x); }
  auto grad(auto&, auto& y, auto& dy) const { return dy * y * 0.69314718055994531; }
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
struct Degrees : Unary<"degrees", kFloats, 1, kNothing> {
  LOCUS_HD auto apply(auto x) const { return x * m::c(x, 57.295779513082321); }
  auto grad(auto&, auto&, auto& dy) const { return dy * 57.295779513082321; }
};
struct Radians : Unary<"radians", kFloats, 1, kNothing> {
  LOCUS_HD auto apply(auto x) const { return x * m::c(x, 0.017453292519943295); }
  auto grad(auto&, auto&, auto& dy) const { return dy * 0.017453292519943295; }
};
// The slope is 0 where the number was replaced.
struct NanToNum : Unary<"nan_to_num", kAll, 1, kX> {
  static constexpr bool kExact = true;
  static constexpr unsigned kInRange = kX;
  Real nan = 0, posinf = 6e4, neginf = -6e4;
  static NanToNum sample() { return {{}, .5, 3, -2}; }
  LOCUS_HD auto apply(auto x) const {
    if constexpr (kFloating<decltype(x)>) {
      const auto end = m::infinity(x);
      return x != x ? nan(x) : x == end ? posinf(x) : x == -end ? neginf(x) : x;
    } else {
      return x;
    }
  }
  auto grad(auto& x, auto&, auto& dy) const { return where(isfinite(x), dy, 0); }
  void check(auto expect) const {
    const auto one = [&](const char* of, double v) {
      expect(!is_floating(expect.dtype) || v == 0 || !(v - v == 0) || expect.holds(v), of, v,
             "a number that the dtype holds");
    };
    one("nan", nan);
    one("posinf", posinf);
    one("neginf", neginf);
  }
};

using UnaryOps =
    List<Negative, Abs, Sign, Square, Floor, Ceil, Trunc, Round, Rint, Around, Sqrt, Rsqrt, Cbrt,
         Reciprocal, Exp, Exp2, Expm1, Log, Log2, Log10, Log1p, Degrees, Radians, NanToNum>;

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
Tensor round(const Tensor& x, int decimals, Caller from) try {
  const UserLine user_line(from);
  detail::expect_tensor("round", x);
  const double scale = std::pow(10., std::abs(static_cast<double>(decimals)));
  const DType d = x.dtype();
  if (size_of(d) == 2 && detail::Expect{d}.holds(scale)) {  // each step in 16 bits, as NumPy
    const Tensor steps = decimals < 0 ? rint(x / scale) * scale : rint(x * scale) / scale;
    return where(isfinite(steps), steps, x);
  }
  int64_t step = decimals < -18 ? (decimals == -19 ? -1 : -2) : decimals < 0 ? 1 : 0;
  for (int i = 0; step > 0 && i < -decimals; ++i) step *= 10;
  return call(formula::Around{{}, decimals < 0 ? -scale : scale, step}, x, from);
} catch (const Error&) {
  rethrow_at(from);
}
Tensor sqrt(const Tensor& x, Caller from) { return call(formula::Sqrt(), x, from); }
Tensor rsqrt(const Tensor& x, Caller from) { return call(formula::Rsqrt(), x, from); }
Tensor cbrt(const Tensor& x, Caller from) { return call(formula::Cbrt(), x, from); }
Tensor reciprocal(const Tensor& x, Caller from) { return call(formula::Reciprocal(), x, from); }
Tensor exp(const Tensor& x, Caller from) { return call(formula::Exp(), x, from); }
Tensor exp2(const Tensor& x, Caller from) { return call(formula::Exp2(), x, from); }
Tensor expm1(const Tensor& x, Caller from) { return call(formula::Expm1(), x, from); }
Tensor log(const Tensor& x, Caller from) { return call(formula::Log(), x, from); }
Tensor log2(const Tensor& x, Caller from) { return call(formula::Log2(), x, from); }
Tensor log10(const Tensor& x, Caller from) { return call(formula::Log10(), x, from); }
Tensor log1p(const Tensor& x, Caller from) { return call(formula::Log1p(), x, from); }
Tensor degrees(const Tensor& x, Caller from) { return call(formula::Degrees(), x, from); }
Tensor radians(const Tensor& x, Caller from) { return call(formula::Radians(), x, from); }
Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> posinf,
                  std::optional<double> neginf, Caller from) {
  const DType d = x.defined() ? x.dtype() : f64;
  const double most = d == f16    ? 65504
                      : d == bf16 ? 0x1.fep127
                      : d == f64  ? 0x1.fffffffffffffp1023
                                  : 0x1.fffffep127;
  return call(formula::NanToNum{{}, nan, posinf.value_or(most), neginf.value_or(-most)}, x, from);
}
}  // namespace locus
#endif
