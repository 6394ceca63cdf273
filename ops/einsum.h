// Einstein's summation: products and sums of tensors, written with one letter for each axis.
//
//   einsum("ij,jk->ik", {a, b});              // matmul(a, b)
//   einsum("bqhd,bkhd->bhqk", {q, k});        // scores of attention
//   einsum("...ii->...i", {x});               // diagonals of a stack of matrices
//
// An axis whose letter is not in the result is summed. Terms stand for the operands, in order. The
// result is a new tensor, except that a call that only picks and permutes axes of one operand
// returns a view, as in NumPy. Gradients exist to any order.
#pragma once

#include <string_view>

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

// Rules of the subscripts, which are NumPy's:
// - A letter has one length. An axis of length 1 is repeated to the length of its letter.
// - If a letter occurs twice in a term, the term is a diagonal. The two lengths are equal.
// - An ellipsis stands for the axes without a letter, counted from the right. They broadcast. If
//   there are such axes and an arrow, the result has an ellipsis, too.
// - Without an arrow, the result has the ellipsis and then the letters that occur once, sorted,
//   capitals first.
// - Blanks are skipped.
//
// Errors, which name the position in the subscripts, counted from 0:
// - ValueError: the subscripts cannot be parsed, or have another number of terms than operands.
// - ShapeError: a term does not fit its operand, or two lengths of a letter differ.
// - ContextMismatch: operands live on different contexts.
Tensor einsum(std::string_view subscripts, const Tensors& operands, Caller = Caller::here());

// --- Details ---
//
// - Operands are promoted to one dtype, which the result has. Integers wrap. bool multiplies by
//   `and` and sums by `or`.
// - Three or more operands are multiplied pair by pair. The next pair is the one that removes most
//   elements, as with NumPy's optimize="greedy". Results of pairs have the dtype of the operands,
//   so f16 and bf16 are rounded after each pair.
// - A letter of one operand alone is summed before the product.
// - A product that sums is one matmul, in the precision of set_matmul_precision() and amp::Scope.
//   Views that matmul can read are not copied. A product that does not sum is one multiply.
// - The result's strides may be those of permuted axes.
// - The result and the results of pairs have at most 8 axes, else ShapeError.

}  // namespace locus
