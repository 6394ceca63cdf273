// Products of matrices and of their stacks.
//
// dtypes: f32, f64, f16 and bf16 (the last two add up in f32), i32, i64, i8 and u8 (which wrap, as
// NumPy's); bool has no product: cast it. Operands of different dtypes meet as NumPy promotes them.
// A transposed view costs nothing: x.T() is read where it is. Views whose rows and columns both
// have gaps are copied first. All products are differentiable to any order, and repeat bit for bit.
// f32 on a GPU is f32: TF32 only after cuda::set_tf32(true).
//
// Errors: ShapeError when the contracted axes differ or the batch axes do not broadcast, DTypeError
// for bool.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/kernel/register.h>
#include <locus/ops/matmul/matmul_kernel.h>

namespace locus {

// MXNet's nd.dot: contracts the last axis of a with the first of b. Vectors give a 0-d tensor,
// matrices their product; in general the shape is a's without its last and b's without its first
// axis. The gradient of a 1-D operand has its own shape.
Tensor dot(const Tensor& a, const Tensor& b);

// NumPy's matmul: matrices are the last two axes, all others are broadcast as a batch. A 1-D a
// counts as a row, a 1-D b as a column, and that axis is absent from the result.
Tensor matmul(const Tensor& a, const Tensor& b);

// op(a)·op(b) for operands of rank 2 or more and of one dtype, where op swaps the last two axes if
// told to. What dot, matmul and their gradients are made of. Written into `out` when that is
// defined.
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulAttrs& transposes,
              const Tensor& out = {});

}  // namespace locus
