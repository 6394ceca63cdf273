// The CPU kernel of every reduction, for reduce_cpu.cc and reduce_compound_cpu.cc. What is long
// depends on the type computed in alone and stands out of line, once for all dtypes of that type.
#pragma once

#include <locus/ops/reduce/reduce_stage.h>

namespace locus::LOCUS_ISA {
namespace {

constexpr int64_t kRows = 256, kWidth = 128;  // a block when going down columns

template <class R, class V>
using TotalAcc = typename R::template Acc<Widest<V>, int64_t>;

// The results of a block that begins at element k.
template <class R, class V>
LOCUS_HD void join_one(const R& r, TotalAcc<R, V>& total, const BlockAcc<R, V>& part, int64_t k) {
  TotalAcc<R, V> t = widened<TotalAcc<R, V>>(part);
  if constexpr (requires { r.shift(t, k); }) r.shift(t, k);
  total = r.combine(total, t);
}
template <class R, class V>
__attribute__((noinline)) void join(const R& r, TotalAcc<R, V>* __restrict total,
                                    const BlockAcc<R, V>* __restrict part, int64_t n, int64_t k) {
  for (int64_t j = 0; j < n; ++j) join_one<R, V>(r, total[j], part[j], k);
}

// Elements k .. k + rows of `width` columns.
template <class R, class V>
__attribute__((noinline)) void add_rows(const R& r, Lanes<BlockAcc<R, V>, kWidth>& acc,
                                        const V* __restrict x, int64_t stride, Index<V> k,
                                        Index<V> rows, int64_t width, const V* __restrict first) {
  for (const Index<V> end = k + rows; k < end; ++k, x += stride)
    for (int64_t j = 0; j < width; ++j)
      acc.set(j, added(r, acc.get(j), x[j],
                       Position<V, Index<V>>{k, k + 1, R::kCentered ? first[j] : V()}));
}

[[maybe_unused]] __attribute__((noinline)) ReducePlan plan(const Call& call, uint32_t axes,
                                                           bool ordered) {
  return ReducePlan(call.in[0], axes, ordered);
}

template <class R, class T>
struct Reducer {
  using V = Promoted<T>;
  using I = Index<V>;
  using A = BlockAcc<R, V>;
  using Total = TotalAcc<R, V>;
  using Out = typename R::template Out<T>;

  R r;
  const T* in;
  Out* out;
  ReducePlan p;

  LOCUS_HD Out value(const Total& total) const {
    return convert<Out>(r.result(total, static_cast<double>(p.count)));
  }
  __attribute__((noinline)) Out value_alone(const Total& total) const { return value(total); }
  __attribute__((noinline)) void store(int64_t at, int64_t apart, const Total* total,
                                       int64_t n) const {
    // Only simple conversions are worth a vector's code.
    constexpr bool kSimple = !k16Bit<Out> && !std::is_class_v<Total>;
    for (int64_t j = 0; j < n; ++j)
      out[at + j * apart] = kSimple ? value(total[j]) : value_alone(total[j]);
  }
  __attribute__((noinline)) A block(const T* base, int64_t b) const {
    alignas(64) V buffer[kBlock];
    const int64_t k = b * kBlock, n = p.count - k < kBlock ? p.count - k : kBlock;
    return reduce_block(stage(base, p, k, n, buffer), n, r, R::kCentered ? convert<V>(*base) : V());
  }

  void rows() const {
    const int64_t blocks = (p.count + kBlock - 1) / kBlock;
    if (!splits_outputs(p.outputs, p.count)) {
      parallel_for(p.outputs, grain(p.count), [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o) {
          const Offsets at = output_offsets(p, o);
          Total total = r.template init<Total>();
          for (int64_t b = 0; b < blocks; ++b)
            join_one<R, V>(r, total, block(in + at.in, b), b * kBlock);
          store(at.out, 0, &total, 1);
        }
      });
      return;
    }
    A part[kMaxParts];
    for (int64_t o = 0; o < p.outputs; ++o) {
      const Offsets at = output_offsets(p, o);
      Total total = r.template init<Total>();
      for (int64_t first = 0; first < blocks; first += kMaxParts) {
        const int64_t n = blocks - first < kMaxParts ? blocks - first : kMaxParts;
        parallel_for(n, kParallelWork / kBlock, [&](int64_t begin, int64_t end) {
          for (int64_t b = begin; b < end; ++b) part[b] = block(in + at.in, first + b);
        });
        for (int64_t b = 0; b < n; ++b) join<R, V>(r, &total, &part[b], 1, (first + b) * kBlock);
      }
      store(at.out, 0, &total, 1);
    }
  }

  // Columns [0, width) over the rows of block b, each column from top to bottom.
  __attribute__((noinline)) void column_block(const T* base, int64_t width, int64_t b,
                                              A* result) const {
    const int64_t begin = b * kRows, n = p.count - begin < kRows ? p.count - begin : kRows;
    Lanes<A, kWidth> acc;
    for (int64_t j = 0; j < width; ++j) acc.set(j, r.template init<A>());
    alignas(64) V buffer[kBlock], first[R::kCentered ? kWidth : 1];
    if constexpr (R::kCentered) row(base, width, first);
    const bool even = p.reduce.rank == 1 && p.across() == 1;
    if (std::is_same_v<T, V> && even) {
      add_rows(r, acc, reinterpret_cast<const V*>(base + begin * p.down()), p.down(), I(0),
               static_cast<I>(n), width, first);
    } else {
      const int64_t at_once = kBlock / width;
      for (int64_t k = 0; k < n; k += at_once) {
        const int64_t rows = n - k < at_once ? n - k : at_once;
        for (int64_t i = 0; i < rows; ++i)
          row(base + row_offset(begin + k + i), width, buffer + i * width);
        add_rows(r, acc, buffer, width, static_cast<I>(k), static_cast<I>(rows), width, first);
      }
    }
    for (int64_t j = 0; j < width; ++j) result[j] = acc.get(j);
  }
  __attribute__((noinline)) void row(const T* x, int64_t width, V* result) const {
    const int64_t across = p.across();
    if (across == 1) return convert_run(x, result, width);
    for (int64_t j = 0; j < width; ++j) result[j] = convert<V>(x[j * across]);
  }
  __attribute__((noinline)) int64_t row_offset(int64_t k) const {
    int64_t at[1] = {};
    p.reduce.locate(k, at, p.reduce.rank);
    return at[0];
  }

  void columns() const {
    const int64_t inner = p.width(), outer = p.outputs / (inner > 0 ? inner : 1);
    const int64_t blocks = (p.count + kRows - 1) / kRows;
    const int64_t apart = p.keep.stride[0][p.keep.rank - 1];  // results
    // Narrow enough to give every thread some tiles; the results do not depend on it.
    int64_t width = (inner * outer / (4 * num_threads()) + 63) / 64 * 64;
    width = width < 64 ? 64 : width > kWidth ? kWidth : width;
    if (width > inner) width = inner;
    const int64_t across = (inner + width - 1) / width, tiles = outer * across;
    // What is left over for the threads when tiles are few: `at_once` blocks side by side.
    const bool split = splits_outputs(tiles, p.count * width);
    const int64_t at_once = split ? kMaxParts / width : 1;
    const auto each = [&](int64_t t, A* part) {
      Offsets at = output_offsets(p, t / across, p.keep.rank - 1);
      const int64_t j = t % across * width, n = inner - j < width ? inner - j : width;
      at.in += j * p.across(), at.out += j * apart;
      Total total[kWidth];
      for (int64_t i = 0; i < n; ++i) total[i] = r.template init<Total>();
      for (int64_t first = 0; first < blocks; first += at_once) {
        const int64_t m = blocks - first < at_once ? blocks - first : at_once;
        if (split)
          parallel_for(m, grain(kRows * width), [&](int64_t begin, int64_t end) {
            for (int64_t b = begin; b < end; ++b)
              column_block(in + at.in, n, first + b, part + b * width);
          });
        else
          column_block(in + at.in, n, first, part);
        for (int64_t b = 0; b < m; ++b)
          join<R, V>(r, total, part + b * width, n, (first + b) * kRows);
      }
      store(at.out, apart, total, n);
    };
    if (split) {
      A part[kMaxParts];
      for (int64_t t = 0; t < tiles; ++t) each(t, part);
    } else {
      parallel_for(tiles, grain(p.count * width), [&](int64_t begin, int64_t end) {
        A part[kWidth];
        for (int64_t t = begin; t < end; ++t) each(t, part);
      });
    }
  }
};

template <class R, class T>
void run(const Call& call, uint32_t axes, const R& reduction) {
  for_kernel(reduction, [&](const auto& r) {
    using Known = std::remove_cvref_t<decltype(r)>;
    const Reducer<Known, T> reducer{r, call.in[0].as<T>(),
                                    call.out[0].as<typename Known::template Out<T>>(),
                                    plan(call, axes, Known::kOrdered)};
    if (by_columns(reducer.p))
      reducer.columns();
    else
      reducer.rows();
  });
}

struct Backend {
  template <class R, DType D>
  static void reduce(const Call& call) {
    const auto& attrs = call.attributes<ReduceBy<R>>();
    run<R, CppTypeOf<D>>(call, attrs.axes, attrs.how);
  }
  template <DType D>
  static void sum_to(const Call& call) {
    run<Sum, CppTypeOf<D>>(call, broadcast_axes(call.in[0].meta, call.out[0].meta), Sum());
  }
};

}  // namespace
}  // namespace locus::LOCUS_ISA
