// Products of two tensors whose axes have labels, with sums over labels. Internal to ops/products.
#pragma once

#include <utility>
#include <vector>

#include <locus/core/tensor.h>

namespace locus::detail {

using Labels = std::vector<int>;

// A tensor whose axis i has the label labels[i]. Labels are distinct.
struct Term {
  Tensor x;
  Labels labels;
};

inline bool has(const Labels& labels, int label) {
  for (int l : labels)
    if (l == label) return true;
  return false;
}

// x's axes permuted to the order of `labels`, which are those of the term.
Tensor arranged(const Term& t, const Labels& labels);

// The sum over the axes whose labels are not in `kept`, in the term's dtype.
Term summed(const Term& t, const Labels& kept);

// The product of two terms of one dtype, summed over the labels that are not in `kept`. Such labels
// are in both terms. Equal labels have equal lengths. The result's labels are in the order of
// `kept`. At most kMaxRank labels are kept.
Term contract(Term a, Term b, const Labels& kept);

// a · b of matrices or stacks of them, of one dtype.
Tensor matrix_product(const Tensor& a, const Tensor& b);

// Both operands in their common dtype. Throws EmptyTensor and ContextMismatch.
std::pair<Tensor, Tensor> promoted(const char* op, const Tensor& a, const Tensor& b);

}  // namespace locus::detail
