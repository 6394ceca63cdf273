// Products of matrices and of stacks of matrices.
//
//   const Tensor c = matmul(a, b);      // (n, k) · (k, m) -> (n, m)
//
// dtypes: f32, f64, f16, bf16, i32, i64, i8 and u8. f16 and bf16 add in f32. Integers wrap, as in
// NumPy. Operands of different dtypes are promoted as in NumPy. bool has no product; cast it first.
//
// Products are differentiable to any order. They have the same bits in every run and for any number
// of host threads (LOCUS_NUM_THREADS). Long sums are added in blocks: f32 products along an axis of
// 1e6 are as exact as short ones.
//
// If the contracted axes differ or the batch axes do not broadcast, products throw ShapeError. For
// bool they throw DTypeError.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/matmul_attrs.h>
#include <locus/ops/register.h>

namespace locus {

// Contracts the last axis of a with the first axis of b: MXNet's nd.dot. The result's shape is a's
// shape without the last axis, then b's shape without the first. Two vectors give a 0-d tensor. The
// gradient of a 1-D operand is 1-D.
Tensor dot(const Tensor& a, const Tensor& b, Caller = Caller::here());

// NumPy's matmul. The last two axes are matrices; the other axes broadcast as a batch. A 1-D a is a
// row and a 1-D b is a column; the result lacks that axis. A transposed view x.T() is read in
// place. If neither rows nor columns of a view are contiguous, the view is copied first.
Tensor matmul(const Tensor& a, const Tensor& b, Caller = Caller::here());

// Computes op(a)·op(b) for operands of one dtype and rank 2 or more. If the operand's transpose
// flag is set, op swaps its last two axes. dot, matmul and their gradients use this function. If
// `out` is defined, the result is written into `out`.
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulAttrs& transposes,
              const Tensor& out = {}, Caller = Caller::here());

// Sets the precision of products of f32 operands, also in dense. Precision::tf32 is faster and less
// exact; Precision::f32 is the default. The setting holds for the whole process and for products
// launched from now on, also in backward passes. The CPU and emulated GPUs always compute in f32.
// Threads: any.
void set_matmul_precision(Precision precision);

}  // namespace locus
