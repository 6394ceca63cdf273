// Arithmetic, and its operators.
//
// Operands are tensors, selections (x[mask], gathered) and numbers. Shapes broadcast and dtypes
// promote as in NumPy: two tensors meet in promote() of their dtypes; a number is weak and takes
// the tensor's dtype, to which it is rounded, unless it is of a higher kind (i32 + 0.5 is f64). An
// integer that the tensor's dtype cannot hold is a DTypeError. f16 and bf16 compute in f32. Results
// keep their operands' memory layout. Errors: ContextMismatch, ShapeError, DTypeError; Error for
// two numbers, which have no context to be computed on.
#pragma once

#include <locus/ops/operand.h>

namespace locus {

Tensor add(const Operand& a, const Operand& b);
Tensor subtract(const Operand& a, const Operand& b);
Tensor multiply(const Operand& a, const Operand& b);
// True division: integers give f64.
Tensor divide(const Operand& a, const Operand& b);
// The remainder, with the divisor's sign. By zero: NaN, and 0 for integers.
Tensor mod(const Operand& a, const Operand& b);
// Integers to a negative power are 1 / a^-b, cut to an integer.
Tensor power(const Operand& a, const Operand& b);
inline Tensor pow(const Operand& a, const Operand& b) { return power(a, b); }
// NaN where either is NaN. Where both are equal the gradient goes to a.
Tensor maximum(const Operand& a, const Operand& b);
Tensor minimum(const Operand& a, const Operand& b);
// x 2^e, and x where that is 0 or infinite. Integers give f64.
Tensor ldexp(const Operand& x, const Operand& e);
// x log(y), and 0 where x is 0. Integers give f64.
Tensor xlogy(const Operand& x, const Operand& y);
// sqrt(x^2 + y^2) without overflow on the way. The gradient at (0, 0) is 0. Integers give f64.
Tensor hypot(const Operand& x, const Operand& y);

// Of bool: DTypeError, as in NumPy.
Tensor negative(const Tensor& x, Caller = Caller::here());
// At least a_min and at most a_max, which must not be below it; integers cut the bounds. The
// gradient is 1 at the bounds, too. Of bool: i8.
Tensor clip(const Tensor& x, double a_min, double a_max, Caller = Caller::here());

inline Tensor operator-(At<Tensor> x) { return negative(x.value, x.from); }
inline Tensor operator-(At<Selection> x) { return negative(x.value.gather(), x.from); }
inline Tensor operator+(const Operand& a, const Operand& b) { return add(a, b); }
inline Tensor operator-(const Operand& a, const Operand& b) { return subtract(a, b); }
inline Tensor operator*(const Operand& a, const Operand& b) { return multiply(a, b); }
inline Tensor operator/(const Operand& a, const Operand& b) { return divide(a, b); }
inline Tensor operator%(const Operand& a, const Operand& b) { return mod(a, b); }

// In place. The result must have x's shape, and is cast to x's dtype, which must be of the same
// kind or a higher one (NumPy's rule), else DTypeError. y may overlap x. Throws Error when x is
// part of a graph being recorded.
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
