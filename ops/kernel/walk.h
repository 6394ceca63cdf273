// Walks over strided operands: one order of axes for all operands, with as few axes as possible.
// Plain data, for host and device.
#pragma once

#include <locus/core/kernel.h>

namespace locus {

LOCUS_HD int64_t magnitude(int64_t v) { return v < 0 ? -v : v; }

// One operand's walk.
struct Path {
  int rank;
  const int64_t *shape, *stride;
};

// N operands of one shape. Element (i0, i1, ...) of operand k lies at sum(i_a * stride[k][a])
// elements. Axes run from the slowest to the fastest; tidy() leaves at least one.
template <int N>
struct Walk {
  int rank = 0;
  int64_t size = 1;
  int64_t shape[kMaxRank] = {};
  int64_t stride[N][kMaxRank] = {};

  // Adds an axis, faster than those before. Skips an axis of length 1.
  LOCUS_HD void add(int64_t length, const int64_t (&strides)[N]) {
    size *= length;
    if (length == 1) return;
    for (int k = 0; k < N; ++k) stride[k][rank] = strides[k];
    shape[rank++] = length;
  }

  // Sorts the axes by the last operand's strides; ties by earlier operands' strides.
  LOCUS_HD void sort() {
    for (int i = 1; i < rank; ++i)
      for (int a = i; a > 0 && faster(a - 1, a); --a) swap(a - 1, a);
  }

  // Merges neighbouring axes that every operand walks without a gap.
  LOCUS_HD void tidy() {
    int n = 0;
    for (int a = 0; a < rank; ++a) {
      bool joins = n > 0;
      for (int k = 0; joins && k < N; ++k) joins = stride[k][n - 1] == stride[k][a] * shape[a];
      const int64_t before = joins ? shape[--n] : 1;
      shape[n] = before * shape[a];
      for (int k = 0; k < N; ++k) stride[k][n] = stride[k][a];
      ++n;
    }
    if (n == 0) {
      shape[0] = n = 1;
      for (int k = 0; k < N; ++k) stride[k][0] = 1;
    }
    rank = n;
  }

  // One run, in which element i of every operand is at offset i.
  LOCUS_HD bool contiguous() const {
    bool all = rank == 1;
    for (int k = 0; k < N; ++k) all = all && stride[k][0] == 1;
    return all;
  }
  // Adds the offsets of element i, counted over the first `axes` axes.
  LOCUS_HD void locate(int64_t i, int64_t (&offset)[N], int axes) const {
    for (int a = axes - 1; a >= 0; --a) {
      const int64_t rest = a > 0 ? i / shape[a] : 0, index = i - rest * shape[a];
      for (int k = 0; k < N; ++k) offset[k] += index * stride[k][a];
      i = rest;
    }
  }
  LOCUS_HD Path path(int k) const { return {rank, shape, stride[k]}; }
  // Whether operand k lies in the walk's order without gaps: element i at offset i.
  LOCUS_HD bool dense(int k) const {
    int64_t expected = 1;
    for (int a = rank - 1; a >= 0; --a) {
      if (stride[k][a] != expected) return false;
      expected *= shape[a];
    }
    return true;
  }

 private:
  LOCUS_HD bool faster(int a, int b) const {
    for (int k = N - 1; k >= 0; --k) {
      const int64_t x = magnitude(stride[k][a]), y = magnitude(stride[k][b]);
      if (x != y) return x < y;
    }
    return false;
  }
  LOCUS_HD static void swap(int64_t& a, int64_t& b) {
    const int64_t t = a;
    a = b;
    b = t;
  }
  LOCUS_HD void swap(int a, int b) {
    swap(shape[a], shape[b]);
    for (int k = 0; k < N; ++k) swap(stride[k][a], stride[k][b]);
  }
};

// Row-major memory of (outer, n, inner) elements, n of them along an axis.
struct Along {
  int64_t outer = 1, n = 1, inner = 1;

  LOCUS_HD Along(const Meta& m, int axis) {
    for (int i = 0; i < m.rank; ++i) (i < axis ? outer : i == axis ? n : inner) *= m.shape[i];
  }
  LOCUS_HD int64_t rows() const { return outer * inner; }
};

// Splits elements [begin, begin + n) into pieces of rows and calls row(offsets, from, length) for
// each. `from` counts from 0. The paths have one shape.
template <int N, class F>
LOCUS_HD void for_rows(const Path (&p)[N], int64_t begin, int64_t n, const F& row) {
  const int last = p[0].rank - 1;
  const int64_t* const shape = p[0].shape;
  int64_t index[kMaxRank] = {}, rest = begin, offset[N] = {};
  const auto move = [&](int axis, int64_t by) {
    for (int k = 0; k < N; ++k) offset[k] += by * p[k].stride[axis];
  };
  for (int a = last; a >= 0; --a) {
    index[a] = a > 0 ? rest % shape[a] : rest;
    if (a > 0) rest /= shape[a];
    move(a, index[a]);
  }
  int64_t done = 0, first = index[last];  // in its row
  while (true) {
    const int64_t left = shape[last] - first, length = left < n - done ? left : n - done;
    row(offset, done, length);
    done += length;
    if (done >= n) return;
    if (first > 0) move(last, -first);
    first = 0;
    for (int a = last - 1; a >= 0; --a) {
      move(a, 1);
      if (++index[a] < shape[a]) break;
      move(a, -index[a]);
      index[a] = 0;
    }
  }
}
// One path: row(offset, from, length, stride).
template <class F>
LOCUS_HD void for_rows(const Path& p, int64_t begin, int64_t n, const F& row) {
  for_rows<1>({p}, begin, n, [&](const int64_t(&offset)[1], int64_t from, int64_t length) {
    row(offset[0], from, length, p.stride[p.rank - 1]);
  });
}

// The views have the last view's shape (stride 0 on broadcast axes). A null view, for a number, has
// stride 0.
template <int N>
LOCUS_HD Walk<N> walk_of(const View* const (&views)[N]) {
  Walk<N> w;
  const View& out = *views[N - 1];
  for (int a = 0; a < out.meta.rank; ++a) {
    int64_t strides[N];
    for (int k = 0; k < N; ++k) strides[k] = views[k] ? views[k]->stride[a] : 0;
    w.add(out.meta.shape[a], strides);
  }
  w.sort();
  w.tidy();
  return w;
}
LOCUS_HD Walk<2> walk_of(const View& in, const View& out) { return walk_of<2>({&in, &out}); }

}  // namespace locus
