// The fully connected layer as one op: MXNet's FullyConnected, with its activation.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/matmul.h>

namespace locus {

// data · weightᵀ + bias, then the activation, in one launch.
//
// weight is (out, in) and bias, when defined, (out,). With `flatten` (MXNet's default) all axes of
// data but the first are one: (N, ...) -> (N, out). Without it the last axis is replaced:
// (..., in) -> (..., out). dtypes f32, f64, f16 and bf16. Products and bias of 16-bit operands are
// added up in f32, and the result is rounded once, on every context. Operands of different floating
// dtypes are promoted as NumPy promotes them. relu(NaN) is NaN, its gradient there 1.
//
// Differentiable to any order. The plain backward pass is one op with one or few launches: the
// mask of relu and the sum of the bias gradient are part of the products. With create_graph it is
// composed of matmul, sum and multiply instead.
//
// Errors: ShapeError when data's and weight's `in` or weight's and bias's `out` differ, DTypeError
// for integers and booleans, ContextMismatch.
Tensor dense(const Tensor& data, const Tensor& weight, const Tensor& bias = {},
             Activation activation = Activation::none, bool flatten = true,
             Caller = Caller::here());

}  // namespace locus
