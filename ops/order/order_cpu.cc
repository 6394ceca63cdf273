#include <locus/ops/index/flat_index_kernel.h>
#include <locus/ops/kernel/rows_cpu.h>
#include <locus/ops/order/rank_cpu.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

constexpr int64_t kLongRow = 1 << 16;  // rows that several threads share

// How the rows of a call are shared among the threads.
struct Shares {
  Along along;
  int64_t ranges = 1;  // of each row
  int64_t tables;      // numbers of scratch memory for counts

  Shares(const View& x, int axis) : along(x.meta, axis) {
    const int64_t n = along.n, threads = num_threads() < kMaxRanges ? num_threads() : kMaxRanges;
    if (along.rows() < threads && n >= kLongRow)
      ranges = threads < n / (kLongRow / 2) ? threads : n / (kLongRow / 2);
    const int64_t least = size_of(x.meta.dtype) == 1 ? 1024 : 256;
    tables = ranges > 1 || n >= kFewBits ? ranges * kTable : n <= kRanked ? 1 : least;
  }
  RowOptions options(int64_t each) const {
    return {.work = each * along.n, .one_by_one = ranges > 1};
  }
};

// Holds keys of W, and positions of 32 bits.
template <class W>
using EntryOf = std::conditional_t<sizeof(W) == 8, WideEntry, NarrowEntry>;
// Words of scratch memory for argsort_row().
template <class E>
int64_t spare_words(int64_t n) {
  return sizeof(E) == 8 ? n : 4 * n;
}

void argsort_rows(const Call& call, int axis, bool descending, const auto& finish) {
  const View& x = call.in[0];
  const Shares s(x, axis);
  const int64_t n = s.along.n;
  by_key(x.meta.dtype, descending, [&](auto key) {
    using W = decltype(key(0));
    using E = EntryOf<W>;
    finish(s, key, RowIn<W>{x.as<const W>(), n}, RowScratch<uint64_t>{spare_words<E>(n)},
           RowScratch<int64_t>{s.tables},
           [&s, key, n](const W* row, int64_t* ids, uint64_t* spare, int64_t* tables) {
             argsort_row(row, ids, n, key, s.ranges, reinterpret_cast<E*>(spare), tables);
           });
  });
}

struct Backend {
  static void sort(const Call& call) {
    const SortAttrs& a = call.attributes<SortAttrs>();
    const View& x = call.in[0];
    const Shares s(x, a.axis);
    const int64_t n = s.along.n;
    by_key(x.meta.dtype, a.descending, [&](auto key) {
      using W = decltype(key(0));
      map_rows(
          call, s.along, s.options(16),
          [&](int64_t, const W* from, W* to, W* spare, int64_t* tables) {
            sort_row(from, to, n, key, s.ranges, spare, tables);
          },
          RowIn<W>{x.as<const W>(), n}, RowOut<W>{call.out[0].as<W>(), n}, RowScratch<W>{n},
          RowScratch<int64_t>{s.tables});
    });
  }

  static void argsort(const Call& call) {
    const SortAttrs& a = call.attributes<SortAttrs>();
    const RowOut<int64_t> out{call.out[0].as<int64_t>(), call.in[0].meta.shape[a.axis]};
    argsort_rows(call, a.axis, a.descending,
                 [&](const Shares& s, auto, auto in, auto spare, auto tables, const auto& run) {
                   map_rows(
                       call, s.along, s.options(24),
                       [&](int64_t, const auto* x, int64_t* ids, uint64_t* memory,
                           int64_t* counts) { run(x, ids, memory, counts); },
                       in, out, spare, tables);
                 });
  }

  static void topk(const Call& call) {
    const TopkAttrs& a = call.attributes<TopkAttrs>();
    const View& x = call.in[0];
    Shares s(x, a.axis);
    const int64_t n = s.along.n, k = a.k;
    if (k == 0) return;
    const RowOut<int64_t> out{call.out[1].as<int64_t>(), k};
    if (n < 2048 || k > n / 16)
      return argsort_rows(
          call, a.axis, a.largest,
          [&](const Shares& shares, auto key, auto in, auto spare, auto tables, const auto& run) {
            using W = decltype(key(0));
            map_rows(
                call, shares.along, shares.options(24),
                [&](int64_t, const W* row, W* values, int64_t* ids, uint64_t* memory,
                    int64_t* counts, int64_t* all) {
                  run(row, all, memory, counts);
                  for (int64_t j = 0; j < k; ++j) values[j] = row[ids[j] = all[j]];
                },
                in, RowOut<W>{call.out[0].as<W>(), k}, out, spare, tables, RowScratch<int64_t>{n});
          });
    by_key(x.meta.dtype, a.largest, [&](auto key) {
      using W = decltype(key(0));
      using E = EntryOf<W>;
      const auto words = static_cast<int64_t>(sizeof(E) / 8) * 2 * s.ranges * candidates(k);
      map_rows(
          call, s.along, s.options(2),
          [&](int64_t, const W* row, W* values, int64_t* ids, uint64_t* memory, int64_t* counts) {
            first_of_row(row, values, ids, n, k, key, s.ranges, reinterpret_cast<E*>(memory),
                         counts);
          },
          RowIn<W>{x.as<const W>(), n}, RowOut<W>{call.out[0].as<W>(), k}, out,
          RowScratch<uint64_t>{words}, RowScratch<int64_t>{s.ranges * kTable});
    });
  }

  // make(key) is the RowOut, and of(row, i) is what it gets of element i.
  static void partition_rows(const Call& call, const auto& make, const auto& of) {
    const PartitionAttrs& a = call.attributes<PartitionAttrs>();
    const View& x = call.in[0];
    const Shares s(x, a.axis);
    const int64_t n = s.along.n;
    by_key(x.meta.dtype, false, [&](auto key) {
      using W = decltype(key(0));
      const auto out = make(W{});
      map_rows(
          call, s.along, s.options(8),
          [&](int64_t, const W* row, auto* to, W* spare, int64_t* tables) {
            partition_row(row, n, a, key, s.ranges, spare, tables, to,
                          [=](int64_t i) { return of(row, i); });
          },
          RowIn<W>{x.as<const W>(), n}, out, RowScratch<W>{n}, RowScratch<int64_t>{s.tables});
    });
  }
  static void partition(const Call& call) {
    const int64_t n = call.in[0].meta.shape[call.attributes<PartitionAttrs>().axis];
    partition_rows(
        call,
        [&](auto word) {
          using W = decltype(word);
          return RowOut<W>{call.out[0].as<W>(), n};
        },
        [](const auto* row, int64_t i) { return row[i]; });
  }
  static void argpartition(const Call& call) {
    const int64_t n = call.in[0].meta.shape[call.attributes<PartitionAttrs>().axis];
    partition_rows(
        call,
        [&](auto) {
          return RowOut<int64_t>{call.out[0].as<int64_t>(), n};
        },
        [](const auto*, int64_t i) { return i; });
  }

  static void select(const Call& call) {
    const PartitionAttrs& a = call.attributes<PartitionAttrs>();
    const View& x = call.in[0];
    const Shares s(x, a.axis);
    const int64_t n = s.along.n;
    by_key(x.meta.dtype, false, [&](auto key) {
      using W = decltype(key(0));
      map_rows(
          call, s.along, s.options(4),
          [&](int64_t, const W* row, W* to, W* spare, int64_t* tables) {
            select_row(row, n, a, key, s.ranges, spare, tables, to);
          },
          RowIn<W>{x.as<const W>(), n}, RowOut<W>{call.out[0].as<W>(), a.n}, RowScratch<W>{n},
          RowScratch<int64_t>{s.tables});
    });
  }

  static void scatter(const Call& call) {
    const int axis = call.attributes<ScatterAttrs>().axis;
    const Along along(call.out[0].meta, axis);
    const int64_t k = call.in[1].meta.shape[axis], inner = along.inner;
    const int64_t* const ids = call.in[1].as<int64_t>();
    Views::fill(call.out[0], 0, call.stream);
    by_size(size_of(call.in[0].meta.dtype), [&](auto word) {
      using T = decltype(word);
      const T* dy = call.in[0].as<T>();
      T* dx = call.out[0].as<T>();
      parallel_ranges(call.in[1].meta.size(), 16384, [&](int64_t i, int64_t end) {
        for (; i < end; ++i) {
          const int64_t id = ids[i];
          if (id < 0 || id >= along.n) detail::throw_outside("order_scatter", id, axis, along.n);
          dx[(i / inner / k * along.n + id) * inner + i % inner] = dy[i];
        }
      });
    });
  }
};

}  // namespace

extern constinit const KernelList order = order_kernels<Backend>();

}  // namespace locus::LOCUS_ISA_NAMESPACE
