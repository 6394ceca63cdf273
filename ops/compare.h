// Comparisons, logic, and where(): ops of truth values.
//
// Operands broadcast and promote as in elementwise.h; a number that an integer tensor's dtype
// cannot hold compares by value. Results are bool_. Logic takes any dtype: what is not zero is
// true, NaN too. None of the predicates has a gradient.
#pragma once

#include <locus/ops/elementwise.h>
#include <locus/ops/elementwise/compare_kernel.h>

namespace locus {

template <class A, class B>
requires Operands<A, B> Result<A, B> equal(const A& a, const B& b) {
  return call<formula::Equal>(a, b);
}
template <class A, class B>
requires Operands<A, B> Result<A, B>
operator==(const A& a, const B& b) { return call<formula::Equal>(a, b); }
template <class A, class B>
requires Operands<A, B> Result<A, B> not_equal(const A& a, const B& b) {
  return call<formula::NotEqual>(a, b);
}
template <class A, class B>
requires Operands<A, B> Result<A, B>
operator!=(const A& a, const B& b) { return call<formula::NotEqual>(a, b); }
template <class A, class B>
requires Operands<A, B> Result<A, B> greater(const A& a, const B& b) {
  return call<formula::Greater>(a, b);
}
template <class A, class B>
requires Operands<A, B> Result<A, B>
operator>(const A& a, const B& b) { return call<formula::Greater>(a, b); }
template <class A, class B>
requires Operands<A, B> Result<A, B> greater_equal(const A& a, const B& b) {
  return call<formula::GreaterEqual>(a, b);
}
template <class A, class B>
requires Operands<A, B> Result<A, B>
operator>=(const A& a, const B& b) { return call<formula::GreaterEqual>(a, b); }
template <class A, class B>
requires Operands<A, B> Result<A, B> lesser(const A& a, const B& b) {
  return call<formula::Lesser>(a, b);
}
template <class A, class B>
requires Operands<A, B> Result<A, B>
operator<(const A& a, const B& b) { return call<formula::Lesser>(a, b); }
template <class A, class B>
requires Operands<A, B> Result<A, B> lesser_equal(const A& a, const B& b) {
  return call<formula::LesserEqual>(a, b);
}
template <class A, class B>
requires Operands<A, B> Result<A, B>
operator<=(const A& a, const B& b) { return call<formula::LesserEqual>(a, b); }
template <class A, class B>
requires Operands<A, B> Result<A, B> logical_and(const A& a, const B& b) {
  return call<formula::LogicalAnd>(a, b);
}
template <class A, class B>
requires Operands<A, B> Result<A, B> logical_or(const A& a, const B& b) {
  return call<formula::LogicalOr>(a, b);
}
template <class A, class B>
requires Operands<A, B> Result<A, B> logical_xor(const A& a, const B& b) {
  return call<formula::LogicalXor>(a, b);
}
template <TensorLike T>
Result<T> logical_not(const T& x) {
  return call<formula::LogicalNot>(x);
}
template <TensorLike T>
Result<T> isnan(const T& x) {
  return call<formula::IsNan>(x);
}
template <TensorLike T>
Result<T> isinf(const T& x) {
  return call<formula::IsInf>(x);
}
template <TensorLike T>
Result<T> isfinite(const T& x) {
  return call<formula::IsFinite>(x);
}

namespace detail {
Tensor run_where(const Tensor& condition, const Operand& x, const Operand& y);
}
// x where `condition` is not zero, else y; all three broadcast, x and y promote. Two numbers give
// f32 when one is floating, i64 when one is an integer, else bool_.
template <class X, class Y>
requires((TensorLike<X> || std::is_arithmetic_v<X>)&&(TensorLike<Y> ||
                                                      std::is_arithmetic_v<Y>)) Tensor
    where(const Tensor& condition, const X& x, const Y& y) {
  return detail::run_where(condition, Operand(x), Operand(y));
}

}  // namespace locus
