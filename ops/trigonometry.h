// Trigonometric and hyperbolic functions of one operand, in radians.
//
// Results, dtypes and errors are those of unary.h. A floating tensor keeps its dtype; integers and
// bool become f64. Outside a function's domain the result is NaN.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

Tensor sin(const Tensor& x, Caller = Caller::here());
Tensor cos(const Tensor& x, Caller = Caller::here());
Tensor tan(const Tensor& x, Caller = Caller::here());
Tensor arcsin(const Tensor& x, Caller = Caller::here());
Tensor arccos(const Tensor& x, Caller = Caller::here());
Tensor arctan(const Tensor& x, Caller = Caller::here());
Tensor sinh(const Tensor& x, Caller = Caller::here());
Tensor cosh(const Tensor& x, Caller = Caller::here());
Tensor tanh(const Tensor& x, Caller = Caller::here());
Tensor arcsinh(const Tensor& x, Caller = Caller::here());
Tensor arccosh(const Tensor& x, Caller = Caller::here());
Tensor arctanh(const Tensor& x, Caller = Caller::here());

}  // namespace locus
