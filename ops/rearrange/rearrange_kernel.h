// The rearrangements (rearrangement.h), for host and device code.
#pragma once

#include <locus/core/kernel_list.h>
#include <locus/core/op.h>
#include <locus/ops/kernel/copy.h>
#include <locus/ops/rearrange/rearrangement.h>

namespace locus {

// Position i of a pattern of n positions that goes on at both ends, for a pad's mode.
enum class PadRule : uint8_t { constant, edge, reflect, symmetric, wrap };

struct Pad : Rearrangement {
  static constexpr const char* kName = "pad";
  int64_t before[kMaxRank] = {}, after[kMaxRank] = {};
  Scalar value = 0;
  PadRule rule = PadRule::constant;

  LOCUS_HD Scalar constant() const { return value; }
  LOCUS_HD int moved(const Meta& in, const Meta&) const {
    int n = in.rank;
    while (n > 0 && before[n - 1] == 0 && after[n - 1] == 0) --n;
    return n;
  }
  template <class I>
  LOCUS_HD Source<I> source(int axis, const Place<I>& p) const {
    const I n = p.in[axis], i = p.index[axis] - static_cast<I>(before[axis]);
    if (i >= 0 && i < n) return {i, n - i, 1};
    if (rule == PadRule::constant) return {-1, i < 0 ? -i : Source<I>::kAll};
    if (rule == PadRule::edge) return i < 0 ? Source<I>{0, -i} : Source<I>{n - 1};
    const I period = rule == PadRule::wrap        ? n
                     : rule == PadRule::symmetric ? 2 * n
                     : n > 1                      ? 2 * n - 2
                                                  : 1;
    I at = i % period;
    if (at < 0) at += period;
    if (at < n) return {at, n - at, 1};
    const I back = rule == PadRule::symmetric ? period - 1 - at : period - at;
    return {back, period - at, -1};
  }
};

struct Roll : Rearrangement {
  static constexpr const char* kName = "roll";
  int64_t shift[kMaxRank] = {};  // from 0 to the axis's length - 1

  LOCUS_HD int moved(const Meta& in, const Meta&) const {
    int n = in.rank;
    while (n > 0 && shift[n - 1] == 0) --n;
    return n;
  }
  template <class I>
  LOCUS_HD Source<I> source(int axis, const Place<I>& p) const {
    const I n = p.in[axis], s = static_cast<I>(shift[axis]), i = p.index[axis];
    return i < s ? Source<I>{i + n - s, s - i, 1} : Source<I>{i - s, n - i, 1};
  }
};

// The last two axes' elements with column - row <= k, or if upper with column - row >= k.
struct Triangle : Rearrangement {
  static constexpr bool kByAxis = false;
  static constexpr const char* kName = "triangle";
  int64_t k = 0;  // between -rows and columns
  bool upper = false;

  template <class I>
  LOCUS_HD Source<I> source(int axis, const Place<I>& p) const {
    const I i = p.at(axis);
    if (!p.is_last(axis)) return {i};
    const I first = p.at(axis - 1) + static_cast<I>(k) + (upper ? 0 : 1);  // right of the border
    if (i < first) return upper ? Source<I>{-1, first - i} : Source<I>{i, first - i, 1};
    return upper ? Source<I>{i, Source<I>::kAll, 1} : Source<I>{-1};
  }
};

// Windows of the spatial axes, all but the first two. The result has the first two axes, one axis
// of positions in the window for each spatial axis, then one axis of windows for each.
struct Windows : Rearrangement {
  static constexpr const char* kName = "im2col";
  static constexpr bool kByAxis = false;
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, dilate[3] = {1, 1, 1}, pad[3] = {};

  template <class I>
  LOCUS_HD Source<I> source(int axis, const Place<I>& p) const {
    if (axis < 2) return {p.at(axis)};
    const int s = axis - 2, windows = axis + p.in_rank - 2;
    const I step = static_cast<I>(stride[s]), n = p.in[axis];
    const I i =
        p.at(windows) * step + p.at(axis) * static_cast<I>(dilate[s]) - static_cast<I>(pad[s]);
    if (!p.is_last(windows)) return {i < n ? i : -1};
    if (i < 0) return {-1, (step - 1 - i) / step};
    return i < n ? Source<I>{i, (n - i + step - 1) / step, step} : Source<I>{-1};
  }
};

// Element i of an axis of length m is element floor(i n / m) of n. If n != m, n m < 2^62.
struct Nearest : Rearrangement {
  static constexpr const char* kName = "resize_nearest";
  int64_t size[kMaxRank] = {};  // the result's lengths

  LOCUS_HD int moved(const Meta& in, const Meta&) const {
    int n = in.rank;
    while (n > 0 && size[n - 1] == in.shape[n - 1]) --n;
    return n;
  }
  template <class I>
  LOCUS_HD Source<I> source(int axis, const Place<I>& p) const {
    const I n = p.in[axis], m = p.out[axis], i = p.index[axis];
    if (n == m) return {i, n - i, 1};
    const uint64_t product = static_cast<uint64_t>(i) * static_cast<uint64_t>(n);
    const I at = static_cast<I>(product / static_cast<uint64_t>(m));
    if (n > m) return {at, 1};
    const int64_t next = ((static_cast<int64_t>(at) + 1) * m + n - 1) / n;
    return {at, static_cast<I>(next) - i, 0};
  }
};

// f(rearrangement) for each one.
constexpr void each_rearrangement(const auto& f) {
  f(Pad());
  f(Roll());
  f(Triangle());
  f(Windows());
  f(Nearest());
}

// How a result is walked: `inner` adjacent elements at each place of the moved axes.
struct RearrangeWalk {
  int rank = 1, in_rank = 1;
  int64_t out[kMaxRank] = {1}, in[kMaxRank] = {1}, stride[kMaxRank] = {};  // stride: of the input
  int64_t places = 1, inner = 1;

  template <class I>
  LOCUS_HD Place<I> first() const {
    Place<I> p{rank, in_rank};
    for (int a = 0; a < rank; ++a) p.out[a] = static_cast<I>(out[a]);
    for (int a = 0; a < in_rank; ++a) p.in[a] = static_cast<I>(in[a]);
    return p;
  }
};

template <class R>
LOCUS_HD RearrangeWalk walk_of(const R& r, const View& in, const View& out) {
  RearrangeWalk w;
  int moved = r.moved(in.meta, out.meta), whole = out.meta.rank;
  if (R::kByAxis)  // axes that are copied as they are, if they are adjacent in the input
    for (; whole > 1 && whole > moved; --whole) {
      const int64_t n = in.meta.shape[whole - 1];
      if (n != 1 && in.stride[whole - 1] != w.inner) break;
      w.inner *= n;
    }
  const int in_rank = R::kByAxis ? whole : in.meta.rank;
  if (whole > 0) w.rank = whole;
  if (in_rank > 0) w.in_rank = in_rank;
  for (int a = 0; a < whole; ++a) w.places *= w.out[a] = out.meta.shape[a];
  for (int a = 0; a < in_rank; ++a) {
    w.in[a] = in.meta.shape[a];
    w.stride[a] = in.stride[a];
  }
  return w;
}

// The diagonal with column - row == offset of the axes `row` and `column`.
struct DiagonalAttrs {
  int64_t offset = 0;
  int32_t row = 0, column = 1;
};
// Zeros of base's shape with the input on a diagonal: the adjoint of the view "diagonal".
struct EmbedDiagonal {
  static constexpr const char* kName = "embed_diagonal";
  DiagonalAttrs diagonal;
  Meta base;
};

// The diagonal of `base`, of shape `m`: base's other axes, then the diagonal.
LOCUS_HD View diagonal_of(const View& base, const Meta& m, const DiagonalAttrs& a) {
  View v{base.data, m, {}};
  int n = 0;
  for (int i = 0; i < base.meta.rank; ++i)
    if (i != a.row && i != a.column) v.stride[n++] = base.stride[i];
  v.stride[n] = base.stride[a.row] + base.stride[a.column];
  if (m.shape[n] == 0) return v;  // the offset may lie outside
  const int64_t first =
      a.offset > 0 ? a.offset * base.stride[a.column] : -a.offset * base.stride[a.row];
  v.data = static_cast<char*>(base.data) + first * size_of(m.dtype);
  return v;
}

template <class Views>
void embed_diagonal(const Call& call) {
  const View &in = call.in[0], &out = call.out[0];
  Views::fill(out, 0, call.stream);
  if (in.meta.size() == 0) return;
  const DiagonalAttrs& a = call.attributes<EmbedDiagonal>().diagonal;
  Views::copy(in, diagonal_of(out, in.meta, a), call.stream);
}

template <class Backend, class Views>
constexpr KernelList rearrange_kernels() {
  KernelList list;
  each_rearrangement([&list](auto r) {
    using R = decltype(r);
    list.add(R::kName, kAllDTypes, Backend::template rearrange<R>);
  });
  list.add(EmbedDiagonal::kName, kAllDTypes, embed_diagonal<Views>);
  return list;
}

}  // namespace locus
