// Writes and sums at the places that index tensors name, on the CPU: index_put and index_add.
// Repeated places: the last value stays, or all values add up in order, in f64 or with wrapping
// integers. Results do not depend on the number of threads. Included by *_cpu.cc only.
#pragma once

#include <locus/core/scratch.h>
#include <locus/ops/index/take_cpu.h>
#include <locus/ops/kernel/cast.h>

namespace locus::LOCUS_ISA_NAMESPACE {

// What sums of T are computed in.
template <class T>
using Sum = If<kFloating<T> || k16Bit<T>, double, uint64_t>;
template <class T>
Sum<T> widened(T v) {
  if constexpr (kSame<Sum<T>, double>)
    return convert<double>(v);
  else
    return static_cast<uint64_t>(v);
}

struct IndexedRow {
  uint64_t place;  // offset in data of an index row
  int64_t row;
};

// Sorts by place, then row. `other` has the length of `a`. Returns the array that holds the result.
inline IndexedRow* sort_by_place(IndexedRow* a, IndexedRow* other, int64_t n, uint64_t places) {
  constexpr int kBits = 11;
  for (int shift = 0; shift < 64 && places >> shift != 0; shift += kBits) {
    int64_t begin[(1 << kBits) + 1] = {};
    const auto digit = [&](const IndexedRow& e) { return e.place >> shift & ((1 << kBits) - 1); };
    for (int64_t i = 0; i < n; ++i) ++begin[digit(a[i]) + 1];
    for (int d = 0; d < 1 << kBits; ++d) begin[d + 1] += begin[d];
    for (int64_t i = 0; i < n; ++i) other[begin[digit(a[i])]++] = a[i];
    IndexedRow* const sorted = other;
    other = a;
    a = sorted;
  }
  return a;
}

// add(i, place of row i) for each row of a walk of single elements. If the sums are larger than a
// cache, threads share them: each reads all places and keeps those of its part, so that the calls
// for one place come in order.
template <class A, class F>
void add_each(const char* op, const TakeWalk& p, const TakeAttrs& a, A* sums, int64_t size,
              const F& add) {
  const bool large = size * static_cast<int64_t>(sizeof *sums) > 1 << 20;
  const int64_t parts = !large || p.rows < kIndexGrain ? 1 : num_threads() < 8 ? num_threads() : 8;
  parallel_ranges(parts, 1, [&](int64_t part, int64_t end) {
    for (; part < end; ++part) {
      const int64_t low = size / parts * part;
      const int64_t length = part + 1 < parts ? size / parts : size - low;
      int64_t place[kPlaces];
      int own[kPlaces];
      for (int64_t begin = 0; begin < p.rows; begin += kPlaces) {
        const int m = static_cast<int>(p.rows - begin < kPlaces ? p.rows - begin : kPlaces);
        find_places(op, p, a, begin, m, place);
        if (parts == 1) {
          for (int k = 0; k < m; ++k) add(begin + k, place[k]);
          continue;
        }
        int count = 0;
        for (int k = 0; k < m; ++k) {
          own[count] = k;
          count += static_cast<uint64_t>(place[k] - low) < static_cast<uint64_t>(length);
        }
        for (int k = 0; k < count; ++k) add(begin + own[k], place[own[k]]);
      }
    }
  });
}

// One thread adds the rows of a place. `sorted`: the index rows by place.
template <class T>
void add_sorted(const TakeWalk& p, const IndexedRow* sorted, int64_t n, const T* values, T* data) {
  constexpr int64_t kPiece = 128;  // elements of a row at once
  const int64_t pieces = (p.inner.size + kPiece - 1) / kPiece, others = p.rows / n * pieces;
  const int64_t grain = kIndexGrain / (p.inner.size < kPiece ? p.inner.size : kPiece) + 1;
  parallel_ranges(n * others, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t other = i / n, first = i % n, before = other / pieces;
      if (first > 0 && sorted[first - 1].place == sorted[first].place) continue;
      const int64_t q = other % pieces * kPiece;
      const int64_t length = p.inner.size - q < kPiece ? p.inner.size - q : kPiece;
      Sum<T> sum[kPiece];
      TakeRow row = take_row(p, before * n + sorted[first].row);
      T* const y = data + row.data;
      for_rows(p.inner.path(0), q, length,
               [&](int64_t at, int64_t from, int64_t m, int64_t stride) {
                 for (int64_t c = 0; c < m; ++c) sum[from + c] = widened(y[at + c * stride]);
               });
      for (int64_t k = first; k < n && sorted[k].place == sorted[first].place; ++k) {
        if (k > first) row = take_row(p, before * n + sorted[k].row);
        const T* const x = values + row.result;
        for_rows(p.inner.path(1), q, length,
                 [&](int64_t at, int64_t from, int64_t m, int64_t stride) {
                   for (int64_t c = 0; c < m; ++c) sum[from + c] += widened(x[at + c * stride]);
                 });
      }
      for_rows(p.inner.path(0), q, length,
               [&](int64_t at, int64_t from, int64_t m, int64_t stride) {
                 for (int64_t c = 0; c < m; ++c) y[at + c * stride] = convert<T>(sum[from + c]);
               });
    }
  });
}

// Adds the value of row i, at i * step, at the row's place. data has `size` elements.
template <class T>
void add_elements(const char* op, const Call& call, const TakeWalk& p, const TakeAttrs& a,
                  const T* values, T* data, int64_t size) {
  const int64_t step = p.result_stride[p.rank - 1];
  if constexpr (kSame<T, double> || kSame<Sum<T>, uint64_t>) {
    add_each(op, p, a, data, size, [=](int64_t i, int64_t at) {
      data[at] = convert<T>(widened(data[at]) + widened(values[i * step]));
    });
  } else {
    const Scratch memory(call, static_cast<size_t>(size) * sizeof(double));
    double* const sums = memory.as<double>();
    parallel_ranges(size, kIndexGrain, [&](int64_t begin, int64_t end) {
      convert_run(data + begin, sums + begin, end - begin);
    });
    add_each(op, p, a, sums, size,
             [=](int64_t i, int64_t at) { sums[at] += widened(values[i * step]); });
    parallel_ranges(size, kIndexGrain, [&](int64_t begin, int64_t end) {
      convert_run(sums + begin, data + begin, end - begin);
    });
  }
}

// Checks all indices, calls start(), which makes `target`, and adds the values at their places.
template <class T>
void scatter_add(const char* op, const Call& call, const View& target, const View& values,
                 const View* ids, const TakeAttrs& a, const auto& start) {
  const TakeWalk p = make_take_walk(target, values, ids, a);
  if (p.rows * p.inner.size == 0) return start();
  const int64_t size = target.meta.size();
  T* const data = target.as<T>();
  // A sum of its own for each element is faster than sorting, unless they are much more than
  // values.
  if (is_elements(p) && is_even(p) && (sizeof(T) == 8 || size <= 8 * p.rows)) {
    check_places(op, p, a);
    start();
    return add_elements(op, call, p, a, values.as<T>(), data, size);
  }
  const int64_t n = p.index_rows();
  const Scratch memory(call, static_cast<size_t>(2 * n) * sizeof(IndexedRow));
  IndexedRow* const unsorted = memory.as<IndexedRow>();
  parallel_ranges(n, kIndexGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const TakeRow row = take_row(p, i);
      check_row(op, row, p, a);
      unsorted[i] = {static_cast<uint64_t>(row.data), i};
    }
  });
  start();
  add_sorted(p, sort_by_place(unsorted, unsorted + n, n, static_cast<uint64_t>(size)), n,
             values.as<T>(), data);
}

// Checks all indices, calls start(), which makes `target`, and writes the values at their places.
// One thread writes, so that the last value stays. T: the unsigned type of the elements' size.
template <class T>
void scatter_put(const char* op, const View& target, const View& values, const View* ids,
                 const TakeAttrs& a, const auto& start) {
  const TakeWalk p = make_take_walk(target, values, ids, a);
  if (p.rows * p.inner.size == 0) return start();
  T* const data = target.as<T>();
  const T* const from = values.as<T>();
  if (is_elements(p) && is_even(p)) {
    const int64_t step = p.result_stride[p.rank - 1];
    check_places(op, p, a);
    start();
    int64_t place[kPlaces];
    for (int64_t begin = 0; begin < p.rows; begin += kPlaces) {
      const int64_t m = p.rows - begin < kPlaces ? p.rows - begin : kPlaces;
      find_places(op, p, a, begin, m, place);
      for (int64_t k = 0; k < m; ++k) __builtin_prefetch(data + place[k], 1);
      for (int64_t k = 0; k < m; ++k) data[place[k]] = from[(begin + k) * step];
    }
    return;
  }
  check_rows(op, p, a);
  start();
  for_each_run(op, p, a, 0, p.rows, [&](int64_t d, int64_t r, int64_t sd, int64_t sr, int64_t n) {
    for (int64_t k = 0; k < n; ++k) data[d + k * sd] = from[r + k * sr];
  });
}

}  // namespace locus::LOCUS_ISA_NAMESPACE
