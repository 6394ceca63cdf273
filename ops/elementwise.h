// Arithmetic and its operators.
//
//   const Tensor y = 2 * x + b;
//
// Operands are tensors, numbers, and selections such as x[mask], which are copied first. Shapes
// broadcast and dtypes promote as in NumPy. f16 and bf16 compute in f32. Results keep the operands'
// memory layout.
//
// A number takes the tensor's dtype and is rounded to it, unless the number is of a higher kind
// (bool < integer < floating): i32 + 0.5 is f64.
//
// - ContextMismatch, ShapeError, DTypeError: operands do not fit.
// - DTypeError: the tensor's dtype cannot hold an integer.
// - Error: both operands are numbers, so there is no context.
#pragma once

#include <utility>

#include <locus/ops/operand.h>

namespace locus {

Tensor add(const Operand& a, const Operand& b);
Tensor subtract(const Operand& a, const Operand& b);
Tensor multiply(const Operand& a, const Operand& b);
// True division: integers give f64.
Tensor divide(const Operand& a, const Operand& b);
// The quotient, rounded down: (a - mod(a, b)) / b, if both are finite. So floor_divide(1, .1) is 9,
// as in Python. Division by zero gives inf or NaN for floats and 0 for integers. The lowest integer
// divided by -1 is itself, because the true value does not fit. bool gives i8, also in mod, fmod
// and divmod. The gradient is 0.
Tensor floor_divide(const Operand& a, const Operand& b);
// The remainder, with the divisor's sign, exact for any quotient. A remainder by zero is NaN, for
// integers 0.
Tensor mod(const Operand& a, const Operand& b);
inline Tensor remainder(const Operand& a, const Operand& b) { return mod(a, b); }
// The remainder, with the dividend's sign; otherwise as mod.
Tensor fmod(const Operand& a, const Operand& b);
// {floor_divide(a, b), mod(a, b)}.
std::pair<Tensor, Tensor> divmod(const Operand& a, const Operand& b);
// An integer to a negative power is 1 / a^-b, cut to an integer. Of two bools it is refused; cast
// one.
Tensor power(const Operand& a, const Operand& b);
inline Tensor pow(const Operand& a, const Operand& b) { return power(a, b); }
// If an operand is NaN, the result is NaN. If both are equal, the gradient goes to a.
Tensor maximum(const Operand& a, const Operand& b);
Tensor minimum(const Operand& a, const Operand& b);
// x 2^e. If x is 0 or infinite, the result is x. Integers give f64.
Tensor ldexp(const Operand& x, const Operand& e);
// x log(y). If x is 0, the result is 0. Integers give f64.
Tensor xlogy(const Operand& x, const Operand& y);
// sqrt(x^2 + y^2), without overflow of the squares. The gradient at (0, 0) is 0. Integers give f64.
Tensor hypot(const Operand& x, const Operand& y);
// |x| with the sign of y; -0 counts as negative. The gradient at x = 0 is 0. Integers give f64.
Tensor copysign(const Operand& x, const Operand& y);
// 0 if x is below 0, h if x is 0, else 1. If x is NaN, the result is NaN. Integers give f64.
Tensor heaviside(const Operand& x, const Operand& h);
// The angle of the point (x, y) in [-pi, pi], with C's signs of zeros and infinities. The gradient
// at (0, 0) is 0. Integers give f64.
Tensor arctan2(const Operand& y, const Operand& x);
// log(exp(x) + exp(y)), without overflow. Integers give f64.
Tensor logaddexp(const Operand& x, const Operand& y);

// For bool, negative throws DTypeError, as in NumPy.
Tensor negative(const Tensor& x, Caller = Caller::here());
// Limits x to [a_min, a_max]; a_max >= a_min. For integers the bounds are cut to integers. The
// gradient at the bounds is 1. bool gives i8.
Tensor clip(const Tensor& x, double a_min, double a_max, Caller = Caller::here());

inline Tensor operator-(At<Tensor> x) { return negative(x.value, x.from); }
inline Tensor operator-(At<Selection> x) { return negative(x.value.gather(), x.from); }
inline Tensor operator+(const Operand& a, const Operand& b) { return add(a, b); }
inline Tensor operator-(const Operand& a, const Operand& b) { return subtract(a, b); }
inline Tensor operator*(const Operand& a, const Operand& b) { return multiply(a, b); }
inline Tensor operator/(const Operand& a, const Operand& b) { return divide(a, b); }
inline Tensor operator%(const Operand& a, const Operand& b) { return mod(a, b); }

// In place. The result must have x's shape and is cast to x's dtype. If x's dtype is of a lower
// kind than the result (NumPy's rule), the call throws DTypeError. y may overlap x. If x is part of
// a recorded graph, the call throws Error.
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

}  // namespace locus
