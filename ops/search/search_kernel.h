// Attributes and formulas of the search family, for the host and for nvcc.
#pragma once

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>
#include <locus/ops/kernel/cast.h>
#include <locus/ops/kernel/copy.h>

namespace locus {

struct SearchAttrs {  // of searchsorted
  bool right = false;
};
struct IsinAttrs {
  bool invert = false;
};
struct BincountAttrs {
  int64_t bins = 0;
};
struct HistogramAttrs {
  bool uniform = false;  // the edges are about equally far apart: computes a first guess
};
struct RunAttrs {  // of run_starts
  bool equal_nan = true;
};

namespace search {

// Whether an element of the bins lies before the place of q. NaN lies above all numbers.
template <bool kRight, class V>
LOCUS_HD bool before(V bin, V q) {
  if constexpr (kRight) return (bin <= q) | (q != q);
  return (bin < q) | ((q != q) & (bin == bin));
}

// How many of n elements pass a test: the first ones do, and no later one.
LOCUS_HD int64_t count_before(int64_t n, const auto& passes) {
  int64_t begin = 0;
  for (int64_t length = n; length > 0;) {
    const int64_t half = length / 2;
    const bool up = passes(begin + half);
    begin = up ? begin + half + 1 : begin;
    length = up ? length - half - 1 : half;
  }
  return begin;
}

// The type of a histogram's edges for data of type T. i64 data may have i64 edges, too.
template <class T>
using EdgeOf = If<kSame<T, float> || k16Bit<T>, float, double>;

// The bin of x by its place among the edges, searched on the right; -1 outside of all, and for NaN.
template <class E>
LOCUS_HD int64_t bin_of_place(int64_t place, E x, E first, E last, int64_t bins) {
  return x >= first && x < last ? place - 1 : x == last && bins > 0 ? bins - 1 : -1;
}

// The bin of x by a guess, made exact by the edges themselves.
template <class E>
LOCUS_HD int64_t uniform_bin(E x, const E* edges, int64_t bins, E first, E last, E span) {
  if (!(x >= first && x <= last)) return -1;
  E guess = (x - first) / span * static_cast<E>(bins);
  guess = guess > 0 ? guess : 0;
  int64_t i = guess < static_cast<E>(bins - 1) ? static_cast<int64_t>(guess) : bins - 1;
  while (i > 0 && x < edges[i]) --i;
  while (i < bins - 1 && x >= edges[i + 1]) ++i;
  return i;
}

inline constexpr DTypes<i32, i64, u8, i8, bool_> kIds;

template <class Backend>
constexpr KernelList kernels() {
  KernelList list;
  list.add("searchsorted", kAllDTypes, Backend::searchsorted);
  list.add("isin", kAllDTypes, Backend::isin);
  list.add("bincount", kIds, Backend::bincount);
  list.add("histogram", kAllDTypes, Backend::histogram);
  list.add("run_starts", kAllDTypes, Backend::run_starts);
  return list;
}

}  // namespace search
}  // namespace locus
