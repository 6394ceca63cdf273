// Bits of integers, and logic of bool.
#pragma once

#include <locus/ops/elementwise/form.h>

namespace locus::formula {

template <Name Of>
struct Bits : Binary<Of, kInts | kBool, 1, kNothing> {};
template <Name Of>
struct Shift : Binary<Of, kInts, 1, kNothing> {
  static constexpr bool kCountsBool = true;
};

struct BitwiseAnd : Bits<"bitwise_and"> {
  LOCUS_HD auto apply(auto x, auto y) const { return static_cast<decltype(x)>(x & y); }
};
struct BitwiseOr : Bits<"bitwise_or"> {
  LOCUS_HD auto apply(auto x, auto y) const { return static_cast<decltype(x)>(x | y); }
};
struct BitwiseXor : Bits<"bitwise_xor"> {
  LOCUS_HD auto apply(auto x, auto y) const { return static_cast<decltype(x)>(x ^ y); }
};
struct BitwiseNot : Unary<"bitwise_not", kInts, 1, kNothing> {
  static constexpr bool kNamed = false;  // of bool it is logical_not
  LOCUS_HD auto apply(auto x) const { return static_cast<decltype(x)>(~x); }
};
// Counts outside the width leave 0, or -1 of a negative number that is shifted right.
struct LeftShift : Shift<"left_shift"> {
  template <class V>
  LOCUS_HD V apply(V x, V y) const {
    using U = Wrap<V>;
    constexpr U width = 8 * sizeof(V);
    const U by = static_cast<U>(y);
    return by < width ? static_cast<V>(static_cast<U>(x) << (by & (8 * sizeof(U) - 1))) : V(0);
  }
};
struct RightShift : Shift<"right_shift"> {
  template <class V>
  LOCUS_HD V apply(V x, V y) const {
    using U = Wrap<V>;
    constexpr U last = 8 * sizeof(V) - 1;
    const U by = static_cast<U>(y);
    const V none = static_cast<V>(kSigned<V> ? x >> last : 0);
    return by <= last ? static_cast<V>(x >> (by & last)) : none;
  }
};

using BitwiseOps = List<BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot, LeftShift, RightShift>;

}  // namespace locus::formula

#ifdef LOCUS_FUNCTIONS
namespace locus {
Tensor bitwise_and(const Operand& x, const Operand& y) { return call(formula::BitwiseAnd(), x, y); }
Tensor bitwise_or(const Operand& x, const Operand& y) { return call(formula::BitwiseOr(), x, y); }
Tensor bitwise_xor(const Operand& x, const Operand& y) { return call(formula::BitwiseXor(), x, y); }
Tensor bitwise_not(const Tensor& x, Caller from) {
  return x.defined() && x.dtype() == bool_ ? logical_not(x, from)
                                           : call(formula::BitwiseNot(), x, from);
}
Tensor left_shift(const Operand& x, const Operand& y) { return call(formula::LeftShift(), x, y); }
Tensor right_shift(const Operand& x, const Operand& y) { return call(formula::RightShift(), x, y); }
}  // namespace locus
#endif
