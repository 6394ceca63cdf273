// Tensors whose axes have labels. Internal to ops/products.
#pragma once

#include <algorithm>
#include <vector>

#include <locus/core/tensor.h>

namespace locus::detail {

using Labels = std::vector<int>;

// A tensor whose axis i has the label labels[i]. The labels are distinct.
struct Term {
  Tensor x;
  Labels labels;
};

inline bool contains(const Labels& labels, int label) {
  return std::ranges::find(labels, label) != labels.end();
}
inline void append(Labels& labels, const Labels& more) {
  labels.insert(labels.end(), more.begin(), more.end());
}

// A view of the term's axes in the order of `labels`. Labels that the term lacks are skipped.
Tensor permute(const Term& t, const Labels& labels);

// The term summed over the labels that are not in `kept`. The dtype stays, except that an
// amp::Scope widens sums of 16-bit floats to f32.
Term sum_except(const Term& t, const Labels& kept);

}  // namespace locus::detail
