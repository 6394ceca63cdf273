// Einstein's summation: products and sums of tensors, written with one letter for each axis.
//
//   einsum("ij,jk->ik", {a, b});              // matmul(a, b)
//   einsum("bqhd,bkhd->bhqk", {q, k});        // scores of attention
//   einsum("...ii->...i", {x});               // diagonals of a stack of matrices
//
// The subscripts have one term for each operand, in order, and may name the axes of the result
// behind an arrow. einsum multiplies the operands and sums over each letter that the result lacks.
// Gradients exist to any order.
#pragma once

#include <string_view>

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

// The product that the subscripts describe, as a new tensor. If the subscripts only permute axes or
// take diagonals of one operand, the result is a view, as in NumPy.
//
// Errors name the position in the subscripts, counted from 0:
// - ValueError: the subscripts cannot be parsed, or their number of terms is not the number of
//   operands.
// - ShapeError: a term does not fit its operand, or two lengths of a letter differ.
// - ContextMismatch: operands live on different contexts.
Tensor einsum(std::string_view subscripts, const Tensors& operands, Caller = Caller::here());

// --- Details ---
//
// Subscripts, as in NumPy:
// - All axes of one letter have the same length. An axis of length 1 is repeated to this length.
// - A letter that occurs twice in a term takes the diagonal of its two axes, which have equal
//   lengths.
// - An ellipsis stands for the axes without a letter. Ellipses of several operands broadcast from
//   the right. If they stand for any axes and there is an arrow, the result needs an ellipsis, too.
// - Without an arrow, the result has the axes of the ellipsis, then the letters that occur once,
//   capitals first and sorted.
// - Spaces are skipped.

// Order of evaluation:
// - First each operand is summed over the letters that occur in no other operand and not in the
//   result.
// - Then two operands at a time are replaced by their product, until one is left. Pairs that share
//   a letter come first. Of these, the next is the pair whose product saves most elements, as with
//   NumPy's optimize="greedy".
// - A product with a sum is one matmul, in the precision of set_matmul_precision(). Operands that
//   matmul can read as views are copied only if the copy saves launches on a GPU. A product without
//   a sum is one multiply.
// - The result and the products of pairs have at most 8 axes, else ShapeError.
// - The result may be a permuted view, which is not contiguous.

// dtypes:
// - Operands are promoted to one dtype from left to right, as in NumPy. The result has this dtype.
//   Products of pairs have this dtype, too, so f16 and bf16 are rounded after each pair.
// - Integers wrap. bool multiplies by `and` and sums by `or`.
// - In an amp::Scope, each matmul rounds f32 operands to the scope's dtype, and its product has the
//   scope's dtype. Sums of one operand widen f16 and bf16 to f32. multiply computes in the promoted
//   dtype of its two operands. So a product of 16 bits that is multiplied by an f32 operand without
//   a sum is f32.

}  // namespace locus
