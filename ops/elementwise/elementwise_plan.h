// How kernels of the elementwise families walk strided operands: the axes of all operands in one
// order, as few as possible. Shared by host and device kernels; plain data.
#pragma once

#include <locus/core/kernel.h>

namespace locus::formula {

inline constexpr int kMaxOperands = 4;  // three inputs and the output

// Operand `k` of element (i0, i1, ...) lies at sum(i_a * stride[k][a]) elements. Axes run from the
// slowest of the output to its fastest; those of length 1 are gone and those that every operand
// steps through without a gap are one. rank is at least 1.
struct Plan {
  int rank;
  int64_t shape[kMaxRank];
  int64_t stride[kMaxOperands][kMaxRank];
};

// view[0 .. n - 1] have the output's shape (stride 0 where they are broadcast); view[out] is it.
// A null view, a number, has stride 0.
LOCUS_HD Plan make_plan(const View* const* view, int n, int out) {
  Plan p;
  const View& o = *view[out];
  int axes[kMaxRank], rank = 0;
  for (int a = 0; a < o.meta.rank; ++a) {
    if (o.meta.shape[a] == 1) continue;
    const int64_t s = o.stride[a] < 0 ? -o.stride[a] : o.stride[a];
    int at = rank++;
    for (; at > 0; --at) {
      const int64_t before = o.stride[axes[at - 1]];
      if ((before < 0 ? -before : before) >= s) break;
      axes[at] = axes[at - 1];
    }
    axes[at] = a;
  }
  p.rank = 0;
  for (int i = 0; i < rank; ++i) {
    const int a = axes[i];
    const int64_t length = o.meta.shape[a];
    bool joins = p.rank > 0;
    for (int k = 0; joins && k < n; ++k)
      joins = view[k] == nullptr || p.stride[k][p.rank - 1] == view[k]->stride[a] * length;
    if (!joins) p.shape[p.rank++] = 1;
    p.shape[p.rank - 1] *= length;
    for (int k = 0; k < n; ++k) p.stride[k][p.rank - 1] = view[k] ? view[k]->stride[a] : 0;
  }
  if (p.rank == 0) {
    p.rank = 1;
    p.shape[0] = 1;
    for (int k = 0; k < n; ++k) p.stride[k][0] = 1;
  }
  return p;
}

// Whether operand k lies in the plan's order without gaps: element i at offset i.
LOCUS_HD bool dense(const Plan& p, int k) {
  int64_t expected = 1;
  for (int a = p.rank - 1; a >= 0; --a) {
    if (p.stride[k][a] != expected) return false;
    expected *= p.shape[a];
  }
  return true;
}

}  // namespace locus::formula
