// The arithmetic of two operands.
#pragma once

#include <locus/ops/elementwise/form.h>

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
struct Divide : Binary<"divide", kFloats, 1, kY | kOut> {
  static constexpr unsigned kInRange = kX;
  static constexpr double kLow2 = .5, kHigh2 = 3;
  LOCUS_HD auto apply(auto x, auto y) const { return x / y; }
  auto dx(auto&, auto& y, auto&, auto& d) const { return d / y; }
  // z is divided by a large y first and d z by a small y last, so no step overflows before dy does.
  auto dy(auto&, auto& y, auto& z, auto& d) const {
    const auto large = abs(y) >= 1;
    return d * (z / where(large, y, 1)) / where(large, -1, -y);
  }
};
struct Mod : Binary<"mod", kNumbers, 16, kX | kY> {
  static constexpr unsigned kInRange = kX;
  static constexpr double kLow2 = .5, kHigh2 = 3;
  LOCUS_HD auto apply(auto x, auto y) const { return m::mod(x, y); }
  auto dx(auto&, auto&, auto&, auto& d) const { return d; }
  auto dy(auto& x, auto& y, auto&, auto& d) const { return -(d * floor(x / y)); }
};
// x^0 has slope 0 everywhere, where y x^(y-1) would say 0 * inf at x = 0; x^y log x is 0 at x = 0.
struct Power : Widens<Binary<"power", kNumbers, 32, kX | kY | kOut>> {
  static constexpr double kLow = .3, kHigh = 3, kLow2 = .4, kHigh2 = 3;
  LOCUS_HD auto apply(auto x, auto y) const { return m::power(x, y); }
  auto dx(auto& x, double y, auto&, auto& d) const {
    return y == 0 ? zeros_like(d) : y == 1 ? d : y == 2 ? d * x * 2 : d * (power(x, y - 1) * y);
  }
  auto dx(auto& x, auto& y, auto&, auto& d) const {
    return d * where(y == 0, 0, y * power(x, y - 1));
  }
  auto dy(double x, auto&, auto& z, auto& d) const {
    return x == 0 ? zeros_like(d) : d * m::log(x) * z;
  }
  auto dy(auto& x, auto&, auto& z, auto& d) const { return d * log(where(x == 0, 1, x)) * z; }
};
struct Maximum : Binary<"maximum", kAll, 1, kX | kY> {
  static constexpr unsigned kInRange = kX | kY;
  LOCUS_HD auto apply(auto x, auto y) const { return m::max(x, y); }
  auto dx(auto& x, auto& y, auto&, auto& d) const { return where(x >= y, d, 0); }
  auto dy(auto& x, auto& y, auto&, auto& d) const { return where(x >= y, 0, d); }
};
struct Minimum : Binary<"minimum", kAll, 1, kX | kY> {
  static constexpr unsigned kInRange = kX | kY;
  LOCUS_HD auto apply(auto x, auto y) const { return m::min(x, y); }
  auto dx(auto& x, auto& y, auto&, auto& d) const { return where(x <= y, d, 0); }
  auto dy(auto& x, auto& y, auto&, auto& d) const { return where(x <= y, 0, d); }
};
struct Ldexp : Binary<"ldexp", kFloats, 32, kX | kY | kOut> {
  static constexpr unsigned kInRange = kX | kY;
  LOCUS_HD auto apply(auto x, auto y) const { return m::ldexp(x, y); }
  auto dx(auto&, auto& y, auto&, auto& d) const { return ldexp(d, y); }
  auto dy(auto&, auto&, auto& z, auto& d) const { return d * 0.69314718055994531 * z; }
};
struct Xlogy : Binary<"xlogy", kFloats, 8, kX | kY> {
  static constexpr unsigned kInRange = kX;
  static constexpr double kLow2 = .3, kHigh2 = 3;
  LOCUS_HD auto apply(auto x, auto y) const { return m::xlogy(x, y); }
  auto dx(auto& x, double y, auto&, auto& d) const {
    return y > 0 ? d * m::log(y) : where(x == 0, 0, d * m::log(y));
  }
  auto dx(auto& x, auto& y, auto&, auto& d) const {
    return d * log(where(logical_and(x == 0, y <= 0), 1, y));
  }
  auto dy(auto& x, auto& y, auto&, auto& d) const {
    return d * (x / where(logical_and(x == 0, y == 0), 1, y));
  }
};

struct Hypot : Binary<"hypot", kFloats, 8, kX | kY | kOut> {
  static constexpr double kLow = .5;
  LOCUS_HD auto apply(auto x, auto y) const { return m::hypot(x, y); }
  auto dx(auto& x, auto&, auto& z, auto& d) const { return part(x, z, d); }
  auto dy(auto&, auto& y, auto& z, auto& d) const { return part(y, z, d); }

 private:
  static auto part(auto& x, auto& z, auto& d) {
    return d * where(isinf(x), sign(x), x / where(z == 0, 1, z));
  }
};

using BinaryOps =
    List<Add, Subtract, Multiply, Divide, Mod, Power, Maximum, Minimum, Ldexp, Xlogy, Hypot>;

}  // namespace locus::formula

#ifdef LOCUS_FUNCTIONS
namespace locus {
Tensor add(const Operand& a, const Operand& b) { return call(formula::Add(), a, b); }
Tensor subtract(const Operand& a, const Operand& b) { return call(formula::Subtract(), a, b); }
Tensor multiply(const Operand& a, const Operand& b) { return call(formula::Multiply(), a, b); }
Tensor divide(const Operand& a, const Operand& b) { return call(formula::Divide(), a, b); }
Tensor mod(const Operand& a, const Operand& b) { return call(formula::Mod(), a, b); }
Tensor power(const Operand& a, const Operand& b) { return call(formula::Power(), a, b); }
Tensor maximum(const Operand& a, const Operand& b) { return call(formula::Maximum(), a, b); }
Tensor minimum(const Operand& a, const Operand& b) { return call(formula::Minimum(), a, b); }
Tensor ldexp(const Operand& x, const Operand& e) { return call(formula::Ldexp(), x, e); }
Tensor xlogy(const Operand& x, const Operand& y) { return call(formula::Xlogy(), x, y); }
Tensor hypot(const Operand& x, const Operand& y) { return call(formula::Hypot(), x, y); }
}  // namespace locus
#endif
