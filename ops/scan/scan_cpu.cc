// A row is cut into parts of 240 elements. A thread scans eight parts of a block side by side, so
// that their additions overlap, then adds what comes before each part. The bits depend on the row's
// length only.
#include <locus/ops/kernel/rows_cpu.h>
#include <locus/ops/reduce/lanes.h>
#include <locus/ops/scan/scan_kernel.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

constexpr int64_t kPart = 240, kParts = 8, kScanBlock = kPart * kParts;
constexpr int64_t kAtOnce = 32;  // blocks of a thread
constexpr int64_t kColumns = 128;

template <class D>
struct Scanner {
  using A = typename D::A;
  using Local = Lanes<A, kScanBlock>;
  D data;

  // Scans each part of the n > 0 elements from `at` on, by itself.
  LOCUS_HD void scan_parts(int64_t at, int64_t n, Local& local) const {
    if (n == kScanBlock) {
      Lanes<A, kParts> acc;
      for (int64_t p = 0; p < kParts; ++p) {
        acc.set(p, data.element(at + p * kPart, at + p * kPart));
        local.set(p * kPart, acc.get(p));
      }
      for (int64_t k = 1; k < kPart; ++k)
        for (int64_t p = 0; p < kParts; ++p) {
          const int64_t i = p * kPart + k;
          acc.set(p, D::combine(acc.get(p), data.element(at + i, at + i)));
          local.set(i, acc.get(p));
        }
      return;
    }
    A acc = data.element(at, at);
    local.set(0, acc);
    for (int64_t i = 1; i < n; ++i) {
      const A a = data.element(at + i, at + i);
      acc = i % kPart == 0 ? a : D::combine(acc, a);
      local.set(i, acc);
    }
  }
  // Scans a block of n elements and returns its total. With `store`, writes the results; `before`
  // is the total of earlier blocks, null for none.
  __attribute__((noinline)) A block(int64_t at, int64_t n, bool store, const A* before) const {
    Local local;
    scan_parts(at, n, local);
    const int64_t first = n < kPart ? n : kPart;
    A total = local.get(first - 1);
    if (store) store_part(at, 0, first, local, before);
    for (int64_t i = kPart; i < n; i += kPart) {
      const int64_t m = n - i < kPart ? n - i : kPart;
      const A own = local.get(i + m - 1);
      if (store) {
        const A prefix = before ? D::combine(*before, total) : total;
        store_part(at, i, i + m, local, &prefix);
      }
      total = D::combine(total, own);
    }
    return total;
  }
  LOCUS_HD void store_part(int64_t at, int64_t begin, int64_t end, const Local& local,
                           const A* before) const {
    if (before) {
      const A prefix = *before;
      for (int64_t k = begin; k < end; ++k) data.store(at + k, D::combine(prefix, local.get(k)));
    } else {
      for (int64_t k = begin; k < end; ++k) data.store(at + k, local.get(k));
    }
  }

  void row(int64_t n) const {
    A total{};
    for (int64_t at = 0; at < n; at += kScanBlock) {
      const A own =
          block(at, n - at < kScanBlock ? n - at : kScanBlock, true, at ? &total : nullptr);
      total = at ? D::combine(total, own) : own;
    }
  }
  // The same bits, by all threads: for as many blocks as caches hold, first the total of each, then
  // the results.
  void long_row(const Call& call, int64_t n) const {
    const int64_t blocks = (n + kScanBlock - 1) / kScanBlock, at_once = kAtOnce * num_threads();
    const Scratch scratch(call, static_cast<size_t>(at_once + 1) * sizeof(A));
    A* const totals = scratch.as<A>();  // totals[b]: of all blocks before block first + b
    for (int64_t first = 0; first < blocks; first += at_once) {
      const int64_t m = blocks - first < at_once ? blocks - first : at_once;
      const auto each = [&](bool store) {
        parallel_ranges(m, 1, [&](int64_t b, int64_t end) {
          for (; b < end; ++b) {
            const int64_t at = (first + b) * kScanBlock;
            const int64_t length = n - at < kScanBlock ? n - at : kScanBlock;
            const A own = block(at, length, store, store && at > 0 ? totals + b : nullptr);
            if (!store) totals[b + 1] = own;
          }
        });
      };
      each(false);
      for (int64_t b = first > 0 ? 0 : 1; b < m; ++b)
        totals[b + 1] = D::combine(totals[b], totals[b + 1]);
      each(true);
      totals[0] = totals[m];
    }
  }

  // `width` neighbouring rows, element by element.
  __attribute__((noinline)) void columns(int64_t n, int64_t stride, int64_t width) const {
    Lanes<A, kColumns> acc;
    for (int64_t j = 0; j < width; ++j) {
      acc.set(j, data.element(j, 0));
      data.store(j, acc.get(j));
    }
    for (int64_t i = 1; i < n; ++i) {
      const D row = data.moved(i * stride);
      for (int64_t j = 0; j < width; ++j) {
        acc.set(j, D::combine(acc.get(j), row.element(j, i)));
        row.store(j, acc.get(j));
      }
    }
  }
};

struct Backend {
  template <class S, DType K>
  static void run(const Call& call) {
    using T = CppTypeOf<K>;
    using V = Promoted<T>;
    using D = scan::Data<S, T, If<S::kRounds, Widest<V>, V>>;
    const auto& attrs = call.attributes<typename S::Attrs>();
    const Along along(call.in[0].meta, attrs.axis);
    const D data = scan::data_of<D, T>(call.in, call.out, attrs);
    if (along.n == 0) return;
    if (along.inner >= 8) return by_columns(along, data);
    const int64_t n = along.n;
    const bool alone = along.rows() < num_threads() && n >= 8 * kScanBlock;
    const auto each = [&](int64_t, auto*... rows) {
      const Scanner<D> scanner{rows_of(data, rows...)};
      if (alone)
        scanner.long_row(call, n);
      else
        scanner.row(n);
    };
    const auto go = [&](const auto&... in) {
      const RowOptions options{.work = 8 * n, .one_by_one = alone};
      const RowOut<typename D::Out> out{data.out, n};
      if constexpr (S::kOut == 2)
        map_rows(call, along, options, each, in..., out, RowOut<int64_t>{data.index, n});
      else
        map_rows(call, along, options, each, in..., out);
    };
    if constexpr (S::kIn == 3)
      go(RowIn<T>{data.in[0], n}, RowIn<T>{data.in[1], n}, RowIn<T>{data.in[2], n});
    else if constexpr (S::kIn == 2)
      go(RowIn<T>{data.in[0], n}, RowIn<T>{data.in[1], n});
    else
      go(RowIn<T>{data.in[0], n});
  }

 private:
  // The same scan of one row: of its operands, its result, and the indices if there are any.
  template <class D>
  static D rows_of(D d, auto*... rows) {
    void* const all[] = {rows...};
    int i = 0;
    for (auto*& p : d.in) p = static_cast<std::remove_reference_t<decltype(p)>>(all[i++]);
    d.out = static_cast<typename D::Out*>(all[i++]);
    if constexpr (D::kOut == 2) d.index = static_cast<int64_t*>(all[i]);
    return d;
  }

  template <class D>
  static void by_columns(const Along& s, const D& data) {
    const int64_t across = (s.inner + kColumns - 1) / kColumns;
    const int64_t width = s.inner < kColumns ? s.inner : kColumns;
    parallel_ranges(s.outer * across, grain(s.n * width), [&](int64_t t, int64_t end) {
      for (; t < end; ++t) {
        const int64_t j = t % across * kColumns,
                      w = s.inner - j < kColumns ? s.inner - j : kColumns;
        const Scanner<D> scanner{data.moved(t / across * s.n * s.inner + j)};
        scanner.columns(s.n, s.inner, w);
      }
    });
  }
  LOCUS_HD static int64_t grain(int64_t work) {
    return work < kRowWork ? kRowWork / (work + 1) + 1 : 1;
  }
};

}  // namespace

extern constinit const KernelList scans = scan::kernels<Backend>(scan::Scans());

}  // namespace locus::LOCUS_ISA_NAMESPACE
