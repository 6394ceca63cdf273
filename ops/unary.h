// Ops of one operand.
//
// A floating tensor keeps its dtype; integers and bool become f64 first, except where the result of
// an integer is one: negative, abs, sign, square, relu and the roundings, which keep it. Results
// have the operand's shape and memory layout. Outside a function's domain the result is NaN.
#pragma once

#include <locus/ops/elementwise.h>
#include <locus/ops/elementwise/trigonometry_kernel.h>
#include <locus/ops/elementwise/unary_kernel.h>

namespace locus {

template <TensorLike T>
Result<T> operator-(const T& x) {
  return call<formula::Negative>(x);
}
template <TensorLike T>
Result<T> negative(const T& x) {
  return call<formula::Negative>(x);
}
// The lowest integer has no positive counterpart and stays.
template <TensorLike T>
Result<T> abs(const T& x) {
  return call<formula::Abs>(x);
}
// -1, 0 or 1; NaN stays NaN.
template <TensorLike T>
Result<T> sign(const T& x) {
  return call<formula::Sign>(x);
}
template <TensorLike T>
Result<T> square(const T& x) {
  return call<formula::Square>(x);
}
template <TensorLike T>
Result<T> floor(const T& x) {
  return call<formula::Floor>(x);
}
template <TensorLike T>
Result<T> ceil(const T& x) {
  return call<formula::Ceil>(x);
}
// Toward zero.
template <TensorLike T>
Result<T> trunc(const T& x) {
  return call<formula::Trunc>(x);
}
// Halves away from zero, as MXNet; rint() is NumPy's.
template <TensorLike T>
Result<T> round(const T& x) {
  return call<formula::Round>(x);
}
// Halves to even.
template <TensorLike T>
Result<T> rint(const T& x) {
  return call<formula::Rint>(x);
}
template <TensorLike T>
Result<T> sqrt(const T& x) {
  return call<formula::Sqrt>(x);
}
// 1 / sqrt(x).
template <TensorLike T>
Result<T> rsqrt(const T& x) {
  return call<formula::Rsqrt>(x);
}
template <TensorLike T>
Result<T> cbrt(const T& x) {
  return call<formula::Cbrt>(x);
}
template <TensorLike T>
Result<T> reciprocal(const T& x) {
  return call<formula::Reciprocal>(x);
}
template <TensorLike T>
Result<T> exp(const T& x) {
  return call<formula::Exp>(x);
}
// exp(x) - 1, exact near 0.
template <TensorLike T>
Result<T> expm1(const T& x) {
  return call<formula::Expm1>(x);
}
template <TensorLike T>
Result<T> log(const T& x) {
  return call<formula::Log>(x);
}
template <TensorLike T>
Result<T> log2(const T& x) {
  return call<formula::Log2>(x);
}
template <TensorLike T>
Result<T> log10(const T& x) {
  return call<formula::Log10>(x);
}
// log(1 + x), exact near 0.
template <TensorLike T>
Result<T> log1p(const T& x) {
  return call<formula::Log1p>(x);
}
// max(x, 0). The gradient at 0 is 0.
template <TensorLike T>
Result<T> relu(const T& x) {
  return call<formula::Relu>(x);
}
template <TensorLike T>
Result<T> sigmoid(const T& x) {
  return call<formula::Sigmoid>(x);
}
template <TensorLike T>
Result<T> tanh(const T& x) {
  return call<formula::Tanh>(x);
}
// x / (1 + |x|).
template <TensorLike T>
Result<T> softsign(const T& x) {
  return call<formula::Softsign>(x);
}
// log(1 + exp(x)), MXNet's softrelu.
template <TensorLike T>
Result<T> softplus(const T& x) {
  return call<formula::Softplus>(x);
}
// x / 2 (1 + erf(x / sqrt(2))).
template <TensorLike T>
Result<T> gelu(const T& x) {
  return call<formula::Gelu>(x);
}
// x sigmoid(x).
template <TensorLike T>
Result<T> silu(const T& x) {
  return call<formula::Silu>(x);
}
template <TensorLike T>
Result<T> erf(const T& x) {
  return call<formula::Erf>(x);
}

// Radians.
template <TensorLike T>
Result<T> sin(const T& x) {
  return call<formula::Sin>(x);
}
template <TensorLike T>
Result<T> cos(const T& x) {
  return call<formula::Cos>(x);
}
template <TensorLike T>
Result<T> tan(const T& x) {
  return call<formula::Tan>(x);
}
template <TensorLike T>
Result<T> arcsin(const T& x) {
  return call<formula::Arcsin>(x);
}
template <TensorLike T>
Result<T> arccos(const T& x) {
  return call<formula::Arccos>(x);
}
template <TensorLike T>
Result<T> arctan(const T& x) {
  return call<formula::Arctan>(x);
}
template <TensorLike T>
Result<T> sinh(const T& x) {
  return call<formula::Sinh>(x);
}
template <TensorLike T>
Result<T> cosh(const T& x) {
  return call<formula::Cosh>(x);
}
template <TensorLike T>
Result<T> arcsinh(const T& x) {
  return call<formula::Arcsinh>(x);
}
template <TensorLike T>
Result<T> arccosh(const T& x) {
  return call<formula::Arccosh>(x);
}
template <TensorLike T>
Result<T> arctanh(const T& x) {
  return call<formula::Arctanh>(x);
}

}  // namespace locus
