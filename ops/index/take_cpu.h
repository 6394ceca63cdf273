// Rows and places of a TakeWalk on the CPU, for the kernels of index and gather. Included by
// *_cpu.cc only.
#pragma once

#include <locus/devices/cpu.h>
#include <locus/ops/index/take_walk.h>

namespace locus::LOCUS_ISA_NAMESPACE {

inline constexpr int64_t kIndexGrain = 16384;

inline int64_t grain_of(int64_t inner) {
  return inner >= kIndexGrain ? 1 : kIndexGrain / (inner + 1) + 1;
}

// Throws for an index out of range. If others see the target, all rows are checked before any
// write. If the result is new, each row is checked in turn.
inline void check_row(const char* op, const TakeRow& row, const TakeWalk& p, const TakeAttrs& a) {
  if (row.bad_axis >= 0)
    detail::throw_out_of_bounds(op, row.bad, p.id_dtype, a.axes[row.bad_axis],
                                p.length[row.bad_axis]);
}
inline void check_rows(const char* op, const TakeWalk& p, const TakeAttrs& a) {
  parallel_ranges(p.index_rows(), kIndexGrain, [&](int64_t begin, int64_t end) {
    for (; begin < end; ++begin) check_row(op, take_row(p, begin), p, a);
  });
}

// move(data, result, stride of data, stride of result, n) for every run of every row.
template <class F>
void for_each_run(const char* op, const TakeWalk& p, const TakeAttrs& a, int64_t begin, int64_t end,
                  const F& move) {
  const int last = p.inner.rank - 1;
  const int64_t run = p.inner.shape[last];
  const int64_t sd = p.inner.stride[0][last], sr = p.inner.stride[1][last];
  for (; begin < end; ++begin) {
    const TakeRow row = take_row(p, begin);
    check_row(op, row, p, a);
    for (int64_t q = 0; q < p.inner.size; q += run) {
      int64_t at[2] = {row.data, row.result};
      if (q > 0) p.inner.locate(q, at, p.inner.rank);
      move(at[0], at[1], sd, sr, run);
    }
  }
}

// Whether rows are single elements, which find_places() locates.
inline bool is_elements(const TakeWalk& p) {
  return p.inner.size == 1 && (p.id_dtype == i64 || p.id_dtype == i32) && p.mode <= 1;
}
// Whether row i of such a walk is the result's element at i times the last stride.
inline bool is_even(const TakeWalk& p) {
  int64_t expected = p.result_stride[p.rank - 1];
  for (int i = p.rank - 1; i >= 0; --i) {
    if (p.shape[i] != 1 && p.result_stride[i] != expected) return false;
    expected *= p.shape[i];
  }
  return true;
}

// out[j] = place(out, j, index j) for m indices. Returns whether all are in range.
template <class I, bool kClip>
LOCUS_HD bool place_run(const I* __restrict ids, int64_t stride, int64_t m, int64_t length,
                        int64_t* __restrict out, const auto& place) {
  uint64_t signs = 0;  // the highest bit: an index below 0, or past the end
  for (int64_t j = 0; j < m; ++j) {
    int64_t i = ids[j * stride];
    if constexpr (kClip)
      i = i < 0 ? 0 : i < length ? i : length - 1;
    else
      i += i < 0 ? length : 0;
    signs |=
        static_cast<uint64_t>(i) | (static_cast<uint64_t>(length - 1) - static_cast<uint64_t>(i));
    out[j] = place(out, j, i);
  }
  return signs >> 63 == 0;
}

// Adds index tensor k's part to the places of rows [begin, begin + n). Returns whether all of its
// indices are in range; if not, the places are worth nothing.
template <class I, bool kClip>
bool add_places(const TakeWalk& p, int k, int64_t begin, int64_t n, int64_t* place) {
  int64_t stride[kMaxRank] = {};
  for (int i = 0; i < p.rank; ++i) stride[i] = p.ids_stride[i][k];
  const I* const ids = static_cast<const I*>(p.ids[k]);
  const int64_t length = p.length[k], step = p.step[k];
  const int64_t from_data = p.data_stride[p.rank - 1], from_ids = stride[p.rank - 1];
  const Path paths[2] = {{p.rank, p.shape, p.data_stride}, {p.rank, p.shape, stride}};
  bool good = true;
  for_rows<2>(paths, begin, n, [&](const int64_t(&at)[2], int64_t from, int64_t m) {
    const int64_t first = at[0];
    const I* const id = ids + at[1];
    int64_t* const out = place + from;
    if (k > 0)
      good &= place_run<I, kClip>(
          id, from_ids, m, length, out,
          [=](const int64_t* before, int64_t j, int64_t i) { return before[j] + i * step; });
    else if (from_ids == 1 && step == 1 && from_data == 0)  // the most frequent one
      good &= place_run<I, kClip>(id, 1, m, length, out,
                                  [=](const int64_t*, int64_t, int64_t i) { return first + i; });
    else
      good &= place_run<I, kClip>(
          id, from_ids, m, length, out,
          [=](const int64_t*, int64_t j, int64_t i) { return first + j * from_data + i * step; });
  });
  return good;
}

// Rows whose places find_places() locates at once: room for them fits the first cache.
inline constexpr int64_t kPlaces = 256;

// place[i]: the offset in data of row begin + i, for a walk of single elements.
inline void find_places(const char* op, const TakeWalk& p, const TakeAttrs& a, int64_t begin,
                        int64_t n, int64_t* place) {
  bool good = true;
  for (int k = 0; k < p.n_ids; ++k) {
    const bool wide = p.id_dtype == i64;
    const auto f = p.mode == 1 ? (wide ? add_places<int64_t, true> : add_places<int32_t, true>)
                               : (wide ? add_places<int64_t, false> : add_places<int32_t, false>);
    good &= f(p, k, begin, n, place);
  }
  for (int64_t i = 0; !good && i < n; ++i) check_row(op, take_row(p, begin + i), p, a);
}

// Checks the indices of all rows of such a walk.
inline void check_places(const char* op, const TakeWalk& p, const TakeAttrs& a) {
  parallel_ranges(p.rows, kIndexGrain, [&](int64_t begin, int64_t end) {
    int64_t place[kPlaces];
    for (; begin < end; begin += kPlaces)
      find_places(op, p, a, begin, end - begin < kPlaces ? end - begin : kPlaces, place);
  });
}

}  // namespace locus::LOCUS_ISA_NAMESPACE
