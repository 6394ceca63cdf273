// Products of matrices and of their stacks.
//
// dtypes: f32, f64, f16 and bf16 (the last two add up in f32), i32, i64, i8 and u8 (which wrap, as
// NumPy's); bool has no product: cast it. Operands of different dtypes meet as NumPy promotes them.
// A transposed view costs nothing: x.T() is read where it is. Views whose rows and columns both
// have gaps are copied first. All products are differentiable to any order. They have the same bits
// on every run and for any number of threads of the host (LOCUS_NUM_THREADS).
// Long sums are added up in blocks: in f32, products along an axis of 1e6 are as exact as short
// ones.
//
// Errors: ShapeError when the contracted axes differ or the batch axes do not broadcast, DTypeError
// for bool.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/matmul_attrs.h>
#include <locus/ops/register.h>

namespace locus {

// MXNet's nd.dot: contracts the last axis of a with the first of b. Vectors give a 0-d tensor,
// matrices their product; in general the shape is a's without its last and b's without its first
// axis. The gradient of a 1-D operand has its own shape.
Tensor dot(const Tensor& a, const Tensor& b, Caller = Caller::here());

// NumPy's matmul: matrices are the last two axes, all others are broadcast as a batch. A 1-D a
// counts as a row, a 1-D b as a column, and that axis is absent from the result.
Tensor matmul(const Tensor& a, const Tensor& b, Caller = Caller::here());

// op(a)·op(b) for operands of rank 2 or more and of one dtype, where op swaps the last two axes if
// told to. What dot, matmul and their gradients are made of. Written into `out` when that is
// defined.
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulAttrs& transposes,
              const Tensor& out = {}, Caller = Caller::here());

// Lets the products of f32 operands, those of dense included, be faster and less exact
// (Precision::tf32), or exact again. For the whole process and for products that are launched from
// now on, backward passes included; f32 at the start. The CPU and emulated GPUs always compute in
// f32. Threads: any.
void set_matmul_precision(Precision precision);

namespace cuda {
// The same as a switch.
inline bool tf32() { return matmul_precision() == Precision::tf32; }
inline void set_tf32(bool on) { set_matmul_precision(on ? Precision::tf32 : Precision::f32); }
}  // namespace cuda

}  // namespace locus
