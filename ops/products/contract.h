// Products of two tensors whose axes have labels, with sums over labels. Internal to ops/products.
#pragma once

#include <locus/ops/products/term.h>

namespace locus::detail {

// The product of two terms of one dtype, summed over the labels that are not in `kept`. Such labels
// are in both terms. Equal labels have equal lengths. The result's labels have the order of `kept`.
// At most kMaxRank labels are kept.
Term contract(const Term& a, const Term& b, const Labels& kept);

// a · b of matrices or stacks of matrices. In an amp::Scope, f32 is rounded to the scope's dtype.
Tensor multiply_matrices(const Tensor& a, const Tensor& b);

}  // namespace locus::detail
