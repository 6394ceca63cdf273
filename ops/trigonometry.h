// Trigonometric and hyperbolic functions of one operand, in radians.
//
// Results, dtypes and errors are those of unary.h: a floating tensor keeps its dtype, integers and
// bool become f64, and the result is NaN outside a function's domain.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor arcsin(const Tensor& x);
Tensor arccos(const Tensor& x);
Tensor arctan(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor arcsinh(const Tensor& x);
Tensor arccosh(const Tensor& x);
Tensor arctanh(const Tensor& x);

}  // namespace locus
