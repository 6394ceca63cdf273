// The fully connected layer as one op: MXNet's FullyConnected with an activation.
//
//   const Tensor y = dense(x, weight, bias, FusedActivation::relu);   // (N, in) -> (N, out)
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/matmul.h>

namespace locus {

// Computes data · weightᵀ + bias, then the activation, in one launch.
//
// weight is (out, in). bias is (out,) or undefined. With `flatten` (MXNet's default), data (N, ...)
// gives (N, out): all axes but the first count as one. Without `flatten`, data (..., in) gives
// (..., out).
//
// dtypes: f32, f64, f16 and bf16. 16-bit products and bias are added in f32, and the result is
// rounded once. Operands of different floating dtypes are promoted as in NumPy. dense is
// differentiable to any order.
//
// - ShapeError: `in` of data and weight, or `out` of weight and bias, differ.
// - DTypeError: an operand is integer or bool.
// - ContextMismatch: operands live on different contexts.
// - relu(NaN) is NaN, and its gradient is 1.
// - The plain backward pass is one op of one or few launches. The mask of relu and the sum of the
// bias gradient are part of the products. With create_graph it is composed of other ops.
Tensor dense(const Tensor& data, const Tensor& weight, const Tensor& bias = {},
             FusedActivation activation = FusedActivation::none, bool flatten = true,
             Caller = Caller::here());

}  // namespace locus
