// Ops of two operands, operators of tensors, and call<F>(), the one path from a formula to its op.
//
// Operands are tensors, selections (x[mask], gathered) and numbers. Shapes broadcast and dtypes
// promote as in NumPy: two tensors meet in promote() of their dtypes; a number is weak and takes
// the tensor's dtype unless it is of a higher kind (i32 + 0.5 is f64). f16 and bf16 compute in f32.
// Results keep their operands' memory layout. Errors: ContextMismatch, ShapeError, DTypeError.
#pragma once

#include <concepts>

#include <locus/core/op.h>
#include <locus/ops/elementwise/elementwise_kernel.h>
#include <locus/ops/index.h>
#include <locus/ops/kernel/register.h>

namespace locus {

template <class T>
concept TensorLike = std::same_as<T, Tensor> || std::same_as<T, Selection>;
// At least one of them a tensor, the rest numbers.
template <class... T>
concept Operands = ((TensorLike<T> || std::is_arithmetic_v<T>)&&...) && (TensorLike<T> || ...);
template <class... T>
using Result = Tensor;

// One operand, borrowed for the expression it is in.
class Operand {
 public:
  Operand(const Tensor& t) : tensor_(&t) {}
  Operand(const Selection& s) : held_(s.gather()), tensor_(&held_) {}
  template <class T>
  requires std::is_arithmetic_v<T> Operand(T v) : scalar_(v) {}
  Operand(const Operand&) = delete;
  Operand& operator=(const Operand&) = delete;

  bool is_scalar() const { return tensor_ == nullptr; }
  const Tensor& tensor() const { return *tensor_; }
  const Scalar& scalar() const { return scalar_; }

 private:
  Tensor held_;
  const Tensor* tensor_ = nullptr;
  Scalar scalar_ = 0;
};

// How an op's operands meet, before its kernel sees one dtype.
enum class Meet : uint8_t {
  promoted,  // NumPy's table
  inexact,   // integers and bool become f64: division, exp
  compared,  // promoted, and a number that does not fit an integer dtype widens it to i64
};

// The op of a formula, looked up once.
template <class F>
const Op& op_of() {
  static const Op& op = get_op(F::name);
  return op;
}
template <class F>
constexpr Meet meet_of() {
  if constexpr (F::kPredicate)
    return Meet::compared;
  else if constexpr ((F::kKinds & formula::kInts) == 0)
    return Meet::inexact;
  else
    return Meet::promoted;
}

namespace detail {
Tensor run(const Op& op, Meet meet, const Operand& x);
Tensor run(const Op& op, Meet meet, const Operand& x, const Operand& y);
// x = op(x, y) in x's memory. The result is cast to x's dtype, which must be of the same kind or a
// higher one (NumPy's rule), else DTypeError. y may overlap x.
void run_in_place(const Op& op, Meet meet, const Tensor& x, const Operand& y);
}  // namespace detail

template <class F, class... T>
requires Operands<T...> Result<T...> call(const T&... x) {
  static_assert(sizeof...(T) == F::kArity);
  return detail::run(op_of<F>(), meet_of<F>(), Operand(x)...);
}

template <class A, class B>
requires Operands<A, B> Result<A, B> add(const A& a, const B& b) {
  return call<formula::Add>(a, b);
}
template <class A, class B>
requires Operands<A, B> Result<A, B> subtract(const A& a, const B& b) {
  return call<formula::Subtract>(a, b);
}
template <class A, class B>
requires Operands<A, B> Result<A, B> multiply(const A& a, const B& b) {
  return call<formula::Multiply>(a, b);
}
// True division: integers give f64.
template <class A, class B>
requires Operands<A, B> Result<A, B> divide(const A& a, const B& b) {
  return call<formula::Divide>(a, b);
}
// The remainder, with the divisor's sign. By zero: NaN, and 0 for integers.
template <class A, class B>
requires Operands<A, B> Result<A, B> mod(const A& a, const B& b) {
  return call<formula::Mod>(a, b);
}
// Integers to a negative power are 1 / a^-b, cut to an integer.
template <class A, class B>
requires Operands<A, B> Result<A, B> power(const A& a, const B& b) {
  return call<formula::Power>(a, b);
}
template <class A, class B>
requires Operands<A, B> Result<A, B> pow(const A& a, const B& b) {
  return call<formula::Power>(a, b);
}
// NaN where either is NaN. Where both are equal the gradient goes to a.
template <class A, class B>
requires Operands<A, B> Result<A, B> maximum(const A& a, const B& b) {
  return call<formula::Maximum>(a, b);
}
template <class A, class B>
requires Operands<A, B> Result<A, B> minimum(const A& a, const B& b) {
  return call<formula::Minimum>(a, b);
}

template <class A, class B>
requires Operands<A, B> Result<A, B>
operator+(const A& a, const B& b) { return call<formula::Add>(a, b); }
template <class A, class B>
requires Operands<A, B> Result<A, B>
operator-(const A& a, const B& b) { return call<formula::Subtract>(a, b); }
template <class A, class B>
requires Operands<A, B> Result<A, B>
operator*(const A& a, const B& b) { return call<formula::Multiply>(a, b); }
template <class A, class B>
requires Operands<A, B> Result<A, B>
operator/(const A& a, const B& b) { return call<formula::Divide>(a, b); }
template <class A, class B>
requires Operands<A, B> Result<A, B>
operator%(const A& a, const B& b) { return call<formula::Mod>(a, b); }

// In place. The result must have x's shape. Throws Error when x is part of a graph being recorded.
Tensor& operator+=(Tensor& x, const Operand& y);
Tensor& operator-=(Tensor& x, const Operand& y);
Tensor& operator*=(Tensor& x, const Operand& y);
Tensor& operator/=(Tensor& x, const Operand& y);
Tensor& operator%=(Tensor& x, const Operand& y);
// a(0) += 1 writes into a.
inline Tensor operator+=(Tensor&& x, const Operand& y) { return x += y; }
inline Tensor operator-=(Tensor&& x, const Operand& y) { return x -= y; }
inline Tensor operator*=(Tensor&& x, const Operand& y) { return x *= y; }
inline Tensor operator/=(Tensor&& x, const Operand& y) { return x /= y; }
inline Tensor operator%=(Tensor&& x, const Operand& y) { return x %= y; }

namespace detail {
// For the families made of formulas: inference of one to three operands of one dtype, the result
// bool_ for predicates, and samples whose values lie in (low, high), second operands in
// (low2, high2).
DType infer_unary(std::span<const Meta> in, bool predicate, std::span<Meta> out);
DType infer_binary(std::span<const Meta> in, bool predicate, std::span<Meta> out);
Samples samples_unary(Context c, DType d, double low, double high);
Samples samples_binary(Context c, DType d, double low, double high, double low2, double high2);
}  // namespace detail

}  // namespace locus
