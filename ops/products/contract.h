// Products of two tensors whose axes have labels, with sums over labels. Internal to ops/products.
#pragma once

#include <locus/ops/products/term.h>

namespace locus::detail {

// The product of two terms, summed over the labels that are not in `kept`. The terms are promoted
// to one dtype, which the result has. Products with a sum are computed by multiply_matrices(),
// which follows amp::Scope. Labels that are summed are in both terms. Equal labels have equal
// lengths. The result's labels have the order of `kept`. At most kMaxRank labels are kept.
Term contract(const Term& a, const Term& b, const Labels& kept);

// a · b of matrices or stacks of matrices, in the dtype to which both are promoted. In an
// amp::Scope, f32 operands are rounded to the scope's dtype first, as in matmul(). bool multiplies
// by `and` and sums by `or`.
Tensor multiply_matrices(const Tensor& a, const Tensor& b);

}  // namespace locus::detail
