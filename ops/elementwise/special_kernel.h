// Special functions of one operand, and the ops of their gradients.
#pragma once

#include <locus/ops/elementwise/form.h>
#include <locus/ops/kernel/special.h>

namespace locus::formula {

struct Erfc : Unary<"erfc", kFloats, 32, kX> {
  static constexpr unsigned kInRange = kX;
  LOCUS_HD auto apply(auto x) const { return m::erfc(x); }
  auto grad(auto& x, auto&, auto& dy) const { return -erf_grad(dy, x); }
};
struct Erfinv : Widens<Unary<"erfinv", kFloats, 32, kOut>> {
  static constexpr double kLow = -.9, kHigh = .9;
  LOCUS_HD auto apply(auto x) const { return m::erfinv(x); }
  auto grad(auto&, auto& y, auto& dy) const { return dy * exp(y * y) * 0.88622692545275801; }
};
struct Gamma : Widens<Unary<"gamma", kFloats, 64, kX | kOut>> {
  static constexpr double kLow = .3, kHigh = 4;
  LOCUS_HD auto apply(auto x) const { return m::gamma(x); }
  auto grad(auto& x, auto& y, auto& dy) const { return dy * y * digamma(x); }
};
// log(abs(gamma(x))).
struct Lgamma : Widens<Unary<"lgamma", kFloats, 64, kX>> {
  static constexpr double kLow = .3, kHigh = 4;
  LOCUS_HD auto apply(auto x) const { return m::lgamma(x); }
  auto grad(auto& x, auto&, auto& dy) const { return dy * digamma(x); }
};
struct Digamma : Widens<Unary<"digamma", kFloats, 64, kX>> {
  static constexpr double kLow = .3, kHigh = 4;
  LOCUS_HD auto apply(auto x) const { return m::digamma(x); }
  auto grad(auto& x, auto&, auto& dy) const { return dy * polygamma(1, x); }
};
struct Polygamma : Widens<Unary<"polygamma", kFloats, 128, kX>> {
  static constexpr double kLow = .3, kHigh = 4;
  Real n = 1;
  static Polygamma sample() { return {{}, 2}; }
  LOCUS_HD auto apply(auto x) const { return m::polygamma(static_cast<int>(n), x); }
  auto grad(auto& x, auto&, auto& dy) const { return dy * polygamma(static_cast<int>(n) + 1, x); }
  void check(auto expect) const {
    expect(n >= 0 && n <= 1000, "n", n, "an integer from 0 to 1000");
  }
};
struct Sinc : Unary<"sinc", kFloats, 16, kX> {
  static constexpr unsigned kInRange = kX;
  LOCUS_HD auto apply(auto x) const { return m::sinc(x); }
  auto grad(auto& x, auto&, auto& dy) const { return sinc_grad(dy, x, 1); }
};
// dy times the derivative of sinc of an order.
struct SincGrad : Binary<"sinc_grad", kFloats, 64, kX | kY> {
  static constexpr double kLow2 = .72, kHigh2 = 1.3;  // away from zeros of the first two orders
  Real order = 1;
  static SincGrad sample() { return {{}, 2}; }
  LOCUS_HD auto apply(auto dy, auto x) const {
    return dy * m::sinc_derivative(x, static_cast<int>(order));
  }
  auto dx(auto&, auto& x, auto&, auto& d) const { return sinc_grad(d, x, order); }
  auto dy(auto& dy, auto& x, auto&, auto& d) const { return sinc_grad(d * dy, x, order + 1); }
};

using SpecialOps = List<Erfc, Erfinv, Gamma, Lgamma, Digamma, Polygamma, Sinc, SincGrad>;

}  // namespace locus::formula

#ifdef LOCUS_FUNCTIONS
namespace locus {
Tensor erfc(const Tensor& x, Caller from) { return call(formula::Erfc(), x, from); }
Tensor erfinv(const Tensor& x, Caller from) { return call(formula::Erfinv(), x, from); }
Tensor gamma(const Tensor& x, Caller from) { return call(formula::Gamma(), x, from); }
Tensor lgamma(const Tensor& x, Caller from) { return call(formula::Lgamma(), x, from); }
Tensor digamma(const Tensor& x, Caller from) { return call(formula::Digamma(), x, from); }
Tensor polygamma(int n, const Tensor& x, Caller from) {
  return call(formula::Polygamma{{}, static_cast<double>(n)}, x, from);
}
Tensor sinc(const Tensor& x, Caller from) { return call(formula::Sinc(), x, from); }
static Tensor sinc_grad(const Operand& dy, const Operand& x, double order) {
  return call(formula::SincGrad{{}, order}, dy, x);
}
}  // namespace locus
#endif
