// The formulas whose result is a truth value, and where(). Comparisons with NaN are IEEE's: only
// != holds.
#pragma once

#include <locus/ops/elementwise/form.h>

namespace locus::formula {

template <class V>
LOCUS_HD bool truth(V x) {
  return x != V(0);
}

struct Equal : Predicate<"equal", 2> {
  LOCUS_HD auto apply(auto x, auto y) const { return x == y; }
};
struct NotEqual : Predicate<"not_equal", 2> {
  LOCUS_HD auto apply(auto x, auto y) const { return x != y; }
};
struct Greater : Predicate<"greater", 2> {
  LOCUS_HD auto apply(auto x, auto y) const { return x > y; }
};
struct GreaterEqual : Predicate<"greater_equal", 2> {
  LOCUS_HD auto apply(auto x, auto y) const { return x >= y; }
};
struct Lesser : Predicate<"lesser", 2> {
  LOCUS_HD auto apply(auto x, auto y) const { return x < y; }
};
struct LesserEqual : Predicate<"lesser_equal", 2> {
  LOCUS_HD auto apply(auto x, auto y) const { return x <= y; }
};
struct LogicalAnd : Predicate<"logical_and", 2> {
  LOCUS_HD bool apply(auto x, auto y) const { return truth(x) && truth(y); }
};
struct LogicalOr : Predicate<"logical_or", 2> {
  LOCUS_HD bool apply(auto x, auto y) const { return truth(x) || truth(y); }
};
struct LogicalXor : Predicate<"logical_xor", 2> {
  LOCUS_HD auto apply(auto x, auto y) const { return truth(x) != truth(y); }
};
struct LogicalNot : Predicate<"logical_not", 1> {
  LOCUS_HD auto apply(auto x) const { return !truth(x); }
};
struct IsNan : Predicate<"isnan", 1> {
  LOCUS_HD auto apply(auto x) const { return x != x; }
};
struct IsInf : Predicate<"isinf", 1> {
  template <class V>
  LOCUS_HD bool apply(V x) const {
    if constexpr (kFloating<V>)
      return m::abs(x) == m::infinity(x);
    else
      return false;
  }
};
struct IsFinite : Predicate<"isfinite", 1> {
  template <class V>
  LOCUS_HD bool apply(V x) const {
    if constexpr (kFloating<V>)
      return m::abs(x) < m::infinity(x);
    else
      return true;
  }
};
struct Where : Ternary<"where", kAll, 1, kX> {
  static constexpr bool kMasked = true, kExact = true;
  static constexpr unsigned kInRange = kX | kY;
  template <class V>
  LOCUS_HD V apply(auto mask, V x, V y) const {
    return m::choose(truth(mask), x, y);
  }
  auto dx(auto& mask, auto&, auto&, auto&, auto& d) const { return where(mask, d, 0); }
  auto dy(auto& mask, auto&, auto&, auto&, auto& d) const { return where(mask, 0, d); }
};

using CompareOps = List<Equal, NotEqual, Greater, GreaterEqual, Lesser, LesserEqual, LogicalAnd,
                        LogicalOr, LogicalXor, LogicalNot, IsNan, IsInf, IsFinite, Where>;

}  // namespace locus::formula

#ifdef LOCUS_FUNCTIONS
namespace locus {
Tensor equal(const Operand& a, const Operand& b) { return call(formula::Equal(), a, b); }
Tensor not_equal(const Operand& a, const Operand& b) { return call(formula::NotEqual(), a, b); }
Tensor greater(const Operand& a, const Operand& b) { return call(formula::Greater(), a, b); }
Tensor greater_equal(const Operand& a, const Operand& b) {
  return call(formula::GreaterEqual(), a, b);
}
Tensor lesser(const Operand& a, const Operand& b) { return call(formula::Lesser(), a, b); }
Tensor lesser_equal(const Operand& a, const Operand& b) {
  return call(formula::LesserEqual(), a, b);
}
Tensor logical_and(const Operand& a, const Operand& b) { return call(formula::LogicalAnd(), a, b); }
Tensor logical_or(const Operand& a, const Operand& b) { return call(formula::LogicalOr(), a, b); }
Tensor logical_xor(const Operand& a, const Operand& b) { return call(formula::LogicalXor(), a, b); }
Tensor logical_not(const Tensor& x, Caller from) { return call(formula::LogicalNot(), x, from); }
Tensor isnan(const Tensor& x, Caller from) { return call(formula::IsNan(), x, from); }
Tensor isinf(const Tensor& x, Caller from) { return call(formula::IsInf(), x, from); }
Tensor isfinite(const Tensor& x, Caller from) { return call(formula::IsFinite(), x, from); }
Tensor where(const Tensor& condition, const Operand& x, const Operand& y) {
  return call(formula::Where(), condition, x, y);
}
}  // namespace locus
#endif
