#include <locus/core/scratch.h>
#include <locus/devices/cpu.h>
#include <locus/ops/search/search_kernel.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

constexpr int64_t kGrain = 16384;
constexpr int kLanes = 16;      // searches at a time, so that their reads overlap
constexpr int64_t kIds = 1024;  // bins of elements, computed at a time

// The places of `count` numbers, at most kLanes.
template <bool kRight, class T, class V>
LOCUS_HD void find_places(const T* bins, int64_t n, const V* q, int count, int64_t* out) {
  int64_t begin[kLanes] = {};
  V x[kLanes];
  for (int k = 0; k < kLanes; ++k) x[k] = q[k < count ? k : 0];
  int64_t length = n;
  for (; length > 1; length -= length / 2) {
    const int64_t half = length / 2;
    for (int k = 0; k < kLanes; ++k) {
      const bool up = search::before<kRight>(convert<V>(bins[begin[k] + half - 1]), x[k]);
      begin[k] += half & -static_cast<int64_t>(up);  // no branch
    }
  }
  for (int k = 0; k < count; ++k)
    out[k] = begin[k] + (n > 0 && search::before<kRight>(convert<V>(bins[begin[k]]), x[k]));
}

// visit(i, q, place) for elements [begin, end) of x.
template <bool kRight, class T>
LOCUS_HD void each_place(const T* bins, int64_t n, const T* x, int64_t begin, int64_t end,
                         const auto& visit) {
  using V = Promoted<T>;
  for (; begin < end; begin += kLanes) {
    const int count = static_cast<int>(end - begin < kLanes ? end - begin : kLanes);
    V q[kLanes];
    int64_t place[kLanes];
    for (int k = 0; k < count; ++k) q[k] = convert<V>(x[begin + k]);
    find_places<kRight>(bins, n, q, count, place);
    for (int k = 0; k < count; ++k) visit(begin + k, q[k], place[k]);
  }
}

// Fills ids with the bins of elements [begin, end), at most kIds; -1: none.
using FillIds = void (*)(const Call& call, int64_t begin, int64_t end, int64_t* ids);

template <class T>
void ids_of_integers(const Call& call, int64_t begin, int64_t end, int64_t* ids) {
  const T* x = call.in[0].as<T>();
  const uint64_t bins = static_cast<uint64_t>(call.out[0].meta.shape[0]);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t id = static_cast<int64_t>(x[i]);
    ids[i - begin] = static_cast<uint64_t>(id) < bins ? id : -1;
  }
}

template <class T, class E>
void ids_of_edges(const Call& call, int64_t begin, int64_t end, int64_t* ids) {
  const T* x = call.in[0].as<T>();
  const E* edges = call.in[1].as<E>();
  const int64_t bins = call.out[0].meta.shape[0], n = end - begin;
  const E first = edges[0], last = edges[bins];
  E q[kIds];
  convert_run(x + begin, q, n);
  if constexpr (kFloating<E>)
    if (call.attributes<HistogramAttrs>().uniform) {
      const E span = last - first;
      for (int64_t i = 0; i < n; ++i)
        ids[i] = search::uniform_bin(q[i], edges, bins, first, last, span);
      return;
    }
  for (int64_t i = 0; i < n; i += kLanes)
    find_places<true>(edges, bins + 1, q + i, static_cast<int>(n - i < kLanes ? n - i : kLanes),
                      ids + i);
  for (int64_t i = 0; i < n; ++i) ids[i] = search::bin_of_place(ids[i], q[i], first, last, bins);
}

// Calls add(i, bin + 1) for elements [begin, end), in order. Bin -1 is not counted.
LOCUS_HD void each_id(const Call& call, FillIds fill, int64_t begin, int64_t end, const auto& add) {
  int64_t ids[kIds];
  for (; begin < end; begin += kIds) {
    const int64_t stop = end - begin < kIds ? end : begin + kIds;
    fill(call, begin, stop, ids);
    for (int64_t i = begin; i < stop; ++i) add(i, ids[i - begin] + 1);
  }
}

// Each part of the elements has counters of its own, which are added at the end.
void count(const Call& call, FillIds fill) {
  const int64_t n = call.in[0].meta.size(), bins = call.out[0].meta.shape[0], row = bins + 1;
  int64_t* const out = call.out[0].as<int64_t>();
  int64_t parts = num_threads(), most = n / (kGrain + 2 * row);
  if (parts > most) parts = most > 0 ? most : 1;
  const int64_t each = (n + parts - 1) / parts;
  const Scratch memory(call, static_cast<size_t>(parts * row) * sizeof(int64_t));
  int64_t* const counts = memory.as<int64_t>();
  parallel_ranges(parts, 1, [&](int64_t first, int64_t end) {
    for (int64_t p = first; p < end; ++p) {
      int64_t* const own = counts + p * row;
      for (int64_t k = 0; k < row; ++k) own[k] = 0;
      const int64_t stop = (p + 1) * each < n ? (p + 1) * each : n;
      each_id(call, fill, p * each, stop, [own](int64_t, int64_t bin) { ++own[bin]; });
    }
  });
  parallel_ranges(bins, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      int64_t sum = 0;
      for (int64_t p = 0; p < parts; ++p) sum += counts[p * row + 1 + k];
      out[k] = sum;
    }
  });
}

// One thread adds the weights in order: floats in f64, integers in i64.
template <class W>
void add_weights(const Call& call, const W* weights, FillIds fill) {
  using Sum = If<kFloating<Compute<W>>, double, uint64_t>;
  const int64_t n = call.in[0].meta.size(), bins = call.out[0].meta.shape[0];
  const Scratch memory(call, static_cast<size_t>(bins + 1) * sizeof(Sum));
  Sum* const sums = memory.as<Sum>();
  for (int64_t k = 0; k <= bins; ++k) sums[k] = 0;
  each_id(call, fill, 0, n, [&](int64_t i, int64_t bin) {
    sums[bin] += static_cast<Sum>(convert<Compute<W>>(weights[i]));
  });
  W* const out = call.out[0].as<W>();
  for (int64_t k = 0; k < bins; ++k)
    if constexpr (kFloating<Sum>)
      out[k] = convert<W>(sums[k + 1]);
    else
      out[k] = convert<W>(static_cast<int64_t>(sums[k + 1]));
}

// With weights as the last operand, or without.
void sum_bins(const Call& call, int weights, FillIds fill) {
  if (call.out[0].meta.size() == 0) return;
  if (call.n_in == weights) return count(call, fill);
  const View& w = call.in[weights];
  dispatch(w.meta.dtype,
           [&](auto type) { add_weights(call, w.as<typename decltype(type)::type>(), fill); });
}

// The least number and the distance to the greatest, of one number or more in any order.
struct Range {
  uint64_t low, width;
};
template <class T>
Range range_of(const T* x, int64_t n) {
  T least = x[0], most = x[0];
  for (int64_t k = 1; k < n; ++k) {
    least = x[k] < least ? x[k] : least;
    most = x[k] > most ? x[k] : most;
  }
  const uint64_t low = static_cast<uint64_t>(least);
  return {low, static_cast<uint64_t>(most) - low};
}

// Equality by a table of all numbers of a range.
template <class T>
void look_up(const Call& call, Range range, const T* tests, bool invert) {
  const T* const x = call.in[0].as<T>();
  bool* const out = call.out[0].as<bool>();
  const Scratch memory(call, static_cast<size_t>(range.width + 1));
  bool* const table = memory.as<bool>();
  for (uint64_t k = 0; k <= range.width; ++k) table[k] = invert;
  for (int64_t k = 0; k < call.in[1].meta.size(); ++k)
    table[static_cast<uint64_t>(tests[k]) - range.low] = !invert;
  parallel_ranges(call.in[0].meta.size(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const uint64_t at = static_cast<uint64_t>(x[i]) - range.low;
      out[i] = at <= range.width ? table[at] : invert;
    }
  });
}

template <class T>
void find_all(const Call& call) {
  const T *bins = call.in[0].as<T>(), *x = call.in[1].as<T>();
  int64_t* const out = call.out[0].as<int64_t>();
  const int64_t n = call.in[0].meta.size();
  const bool right = call.attributes<SearchAttrs>().right;
  parallel_ranges(call.in[1].meta.size(), 1024, [&](int64_t begin, int64_t end) {
    const auto write = [&](int64_t i, auto, int64_t place) { out[i] = place; };
    if (right)
      each_place<true>(bins, n, x, begin, end, write);
    else
      each_place<false>(bins, n, x, begin, end, write);
  });
}

template <class T>
void find_equal(const Call& call) {
  const T *x = call.in[0].as<T>(), *tests = call.in[1].as<T>();
  bool* const out = call.out[0].as<bool>();
  const int64_t m = call.in[1].meta.size(), n = call.in[0].meta.size();
  const bool invert = call.attributes<IsinAttrs>().invert;
  if constexpr (!kFloating<Compute<T>>)
    if (m > 0) {
      const Range range = range_of(tests, m);
      if (range.width < static_cast<uint64_t>(4096 + 2 * (n + m)))
        return look_up(call, range, tests, invert);
    }
  parallel_ranges(n, 1024, [&](int64_t begin, int64_t end) {
    each_place<false>(tests, m, x, begin, end, [&](int64_t i, auto q, int64_t place) {
      const bool found = place < m && convert<decltype(q)>(tests[place]) == q;
      out[i] = found != invert;
    });
  });
}

template <class T>
LOCUS_HD bool differ(T a, T b, bool equal_nan) {
  const Compute<T> x = convert<Compute<T>>(a), y = convert<Compute<T>>(b);
  return (x != y) & !(equal_nan & (x != x) & (y != y));
}

template <class T>
void find_starts(const Call& call) {
  const T* x = call.in[0].as<T>();
  bool* const out = call.out[0].as<bool>();
  const int64_t n = call.out[0].meta.size(), k = n > 0 ? call.in[0].meta.size() / n : 0;
  const bool equal_nan = call.attributes<RunAttrs>().equal_nan;
  if (k == 1) {
    if (n > 0) out[0] = true;
    return parallel_ranges(n - 1, kGrain, [&](int64_t begin, int64_t end) {
      const bool same_nan = equal_nan;  // no store changes a copy
      for (int64_t i = begin; i < end; ++i) out[i + 1] = differ(x[i + 1], x[i], same_nan);
    });
  }
  parallel_ranges(n, kGrain / (k + 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      bool start = i == 0;
      for (int64_t c = i * k; !start && c < (i + 1) * k; ++c)
        start = differ(x[c], x[c - k], equal_nan);
      out[i] = start;
    }
  });
}

// Calls f with the type of the first operand.
void by_type(const Call& call, const auto& f) { dispatch(call.in[0].meta.dtype, f); }

struct Backend {
  static void searchsorted(const Call& call) {
    by_type(call, [&](auto type) { find_all<typename decltype(type)::type>(call); });
  }
  static void isin(const Call& call) {
    by_type(call, [&](auto type) { find_equal<typename decltype(type)::type>(call); });
  }
  static void bincount(const Call& call) {
    by_type(call, [&](auto type) {
      using T = typename decltype(type)::type;
      if constexpr (!kFloating<Compute<T>>) sum_bins(call, 1, &ids_of_integers<T>);
    });
  }
  static void histogram(const Call& call) {
    if (call.in[0].meta.dtype == i64 && call.in[1].meta.dtype == i64)
      return sum_bins(call, 2, &ids_of_edges<int64_t, int64_t>);
    by_type(call, [&](auto type) {
      using T = typename decltype(type)::type;
      sum_bins(call, 2, &ids_of_edges<T, search::EdgeOf<T>>);
    });
  }
  static void run_starts(const Call& call) {
    by_type(call, [&](auto type) { find_starts<typename decltype(type)::type>(call); });
  }
};

}  // namespace

extern constinit const KernelList searches = search::kernels<Backend>();

}  // namespace locus::LOCUS_ISA_NAMESPACE
