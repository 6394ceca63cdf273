// The CPU kernel of every reduction, for reduce*_cpu.cc. All dtypes of one compute type share a
// kernel.
#pragma once

#include <locus/ops/reduce/reduce_stage.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

constexpr int64_t kRows = 256, kWidth = 128;  // a block when going down columns

// Joins the results of a block that begins at element k, for n outputs.
template <class R, class V>
__attribute__((noinline)) void join(const R& r, TotalAcc<R, V>* __restrict total,
                                    const BlockAcc<R, V>* __restrict part, int64_t n, int64_t k) {
  for (int64_t j = 0; j < n; ++j) join_one<R, V>(r, total[j], part[j], k);
}

// Adds elements k .. k + rows of `width` columns.
template <class R, class V>
__attribute__((noinline)) void add_rows(const R& r, Lanes<BlockAcc<R, V>, kWidth>& acc,
                                        const V* __restrict x, int64_t stride, Index<V> k,
                                        Index<V> rows, int64_t width, const V* __restrict first) {
  for (const Index<V> end = k + rows; k < end; ++k, x += stride)
    for (int64_t j = 0; j < width; ++j)
      acc.set(j, added(r, acc.get(j), x[j],
                       Position<V, Index<V>>{k, k + 1, R::kCentered ? first[j] : V()}));
}

[[maybe_unused]] __attribute__((noinline)) ReduceWalk make_walk(const Call& call, uint32_t axes,
                                                                bool ordered) {
  return ReduceWalk(call.in[0], axes, ordered);
}

template <class R, class V>
struct Reducer {
  using I = Index<V>;
  using A = BlockAcc<R, V>;
  using Total = TotalAcc<R, V>;
  using Result = decltype(R().result(Total(), 0.0));

  R r;
  Source<V> in;
  Sink<Result> out;
  ReduceWalk p;

  __attribute__((noinline)) void store(int64_t at, int64_t apart, const Total* total,
                                       int64_t n) const {
    Result results[kWidth];
    for (int64_t j = 0; j < n; ++j) results[j] = r.result(total[j], static_cast<double>(p.count));
    out.store(results, out.data, at, apart, n);
  }
  // Reduces the block of elements from k on.
  __attribute__((noinline)) A block(const std::byte* base, int64_t k) const {
    alignas(64) V buffer[kBlock];
    const int64_t n = p.count - k < kBlock ? p.count - k : kBlock;
    V first{};
    if constexpr (R::kCentered) in.row(base, 1, 1, &first);
    return reduce_block(in.stage(base, p, k, n, buffer), n, r, first);
  }

  // Columns [0, width) over the rows of block b, each column from top to bottom.
  void column_block(const std::byte* base, int64_t width, int64_t b, A* result) const {
    if constexpr (tries_simple<R, V, I>()) {
      const auto simple = r.simple();
      BlockAcc<std::remove_const_t<decltype(simple)>, V> part[kWidth];
      add_columns(simple, base, width, b, part);
      bool all = true;
      for (int64_t j = 0; j < width; ++j) all &= simple.kept(part[j]);
      if (!all) add_columns(r, base, width, b, result);
      for (int64_t j = 0; j < width; ++j)
        if (all || simple.kept(part[j])) result[j] = r.from(part[j], A());
    } else {
      add_columns(r, base, width, b, result);
    }
  }
  template <class S>
  __attribute__((noinline)) void add_columns(const S& how, const std::byte* base, int64_t width,
                                             int64_t b, BlockAcc<S, V>* result) const {
    const int64_t begin = b * kRows, n = p.count - begin < kRows ? p.count - begin : kRows;
    Lanes<BlockAcc<S, V>, kWidth> acc;
    for (int64_t j = 0; j < width; ++j) acc.set(j, how.init(BlockAcc<S, V>()));
    alignas(64) V buffer[kBlock], first[S::kCentered ? kWidth : 1];
    first[0] = V();
    if constexpr (S::kCentered) in.row(base, p.across(), width, first);
    if (in.direct && p.reduce.rank == 1 && p.across() == 1) {
      const auto* const x = reinterpret_cast<const V*>(base + begin * p.down() * in.size);
      add_rows(how, acc, x, p.down(), I(0), static_cast<I>(n), width, first);
    } else {
      const int64_t at_once = kBlock / width;
      for (int64_t k = 0; k < n; k += at_once) {
        const int64_t rows = n - k < at_once ? n - k : at_once;
        for (int64_t i = 0; i < rows; ++i)
          in.row(base + row_offset(begin + k + i) * in.size, p.across(), width, buffer + i * width);
        add_rows(how, acc, buffer, width, static_cast<I>(k), static_cast<I>(rows), width, first);
      }
    }
    for (int64_t j = 0; j < width; ++j) result[j] = acc.get(j);
  }
  __attribute__((noinline)) int64_t row_offset(int64_t k) const {
    int64_t at[1] = {};
    p.reduce.locate(k, at, p.reduce.rank);
    return at[0];
  }

  struct Unit {
    Offsets at;
    int64_t apart, n;  // results
  };
  // Computes units of at most `width` outputs, in blocks of `length` elements. block_of(offset, n,
  // b, part) fills the accumulators of block b for a unit's n outputs. If units are too few for the
  // threads, threads share the blocks, with the same results.
  void units(int64_t count, int64_t width, int64_t length, const auto& unit_of,
             const auto& block_of) const {
    const int64_t blocks = (p.count + length - 1) / length;
    const bool split = splits_outputs(count, p.count * width);
    const int64_t at_once = split ? kMaxParts / width : 1;
    const auto each = [&](int64_t u, A* part) {
      const Unit unit = unit_of(u);
      Total total[kWidth];
      for (int64_t i = 0; i < unit.n; ++i) total[i] = r.init(Total());
      for (int64_t first = 0; first < blocks; first += at_once) {
        const int64_t m = blocks - first < at_once ? blocks - first : at_once;
        const auto fill = [&](int64_t begin, int64_t end) {
          for (int64_t b = begin; b < end; ++b)
            block_of(in.at(unit.at.in), unit.n, first + b, part + b * width);
        };
        if (split)
          parallel_ranges(m, grain(length * width), fill);
        else
          fill(0, m);
        for (int64_t b = 0; b < m; ++b)
          join<R, V>(r, total, part + b * width, unit.n, (first + b) * length);
      }
      store(unit.at.out, unit.apart, total, unit.n);
    };
    if (split) {
      A part[kMaxParts];
      for (int64_t u = 0; u < count; ++u) each(u, part);
    } else {
      parallel_ranges(count, grain(p.count * width), [&](int64_t begin, int64_t end) {
        A part[kWidth];
        for (int64_t u = begin; u < end; ++u) each(u, part);
      });
    }
  }

  void rows() const {
    if (splits_outputs(p.outputs, p.count)) {
      const auto unit = [&](int64_t o) { return Unit{output_offsets(p, o, p.keep.rank), 0, 1}; };
      const auto part = [&](auto* base, int64_t, int64_t b, A* a) { *a = block(base, b * kBlock); };
      return units(p.outputs, 1, kBlock, unit, part);
    }
    // Many short outputs.
    parallel_ranges(p.outputs, grain(p.count), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const Offsets at = output_offsets(p, o, p.keep.rank);
        Total total = r.init(Total());
        for (int64_t k = 0; k < p.count; k += kBlock)
          join_one<R, V>(r, total, block(in.at(at.in), k), k);
        store(at.out, 0, &total, 1);
      }
    });
  }
  void columns() const {
    const int64_t inner = p.width(), outer = p.outputs / (inner > 0 ? inner : 1);
    const int64_t apart = p.keep.stride[0][p.keep.rank - 1];
    // Narrow enough to give every thread some tiles.
    int64_t width = (inner * outer / (4 * num_threads()) + 63) / 64 * 64;
    width = width < 64 ? 64 : width > kWidth ? kWidth : width;
    if (width > inner) width = inner;
    const int64_t across = (inner + width - 1) / width;
    const auto tile = [&](int64_t t) {
      Offsets at = output_offsets(p, t / across, p.keep.rank - 1);
      const int64_t j = t % across * width;
      at.in += j * p.across(), at.out += j * apart;
      return Unit{at, apart, inner - j < width ? inner - j : width};
    };
    units(outer * across, width, kRows, tile,
          [&](const std::byte* base, int64_t n, int64_t b, A* part) {
            column_block(base, n, b, part);
          });
  }
};

struct Engine {
  template <class T>
  static void run(const Call& call, uint32_t axes, const auto& reduction) {
    for_kernel(reduction, [&]<class R>(const R& r) {
      using V = typename R::template Element<T>;
      using Out = typename R::template Out<T>;
      using Result = typename Reducer<R, V>::Result;
      const Sink<Result> sink{call.out[0].as<std::byte>(), store_results<Out, Result>};
      run(Reducer<R, V>{r, source_of<T, V>(call.in[0]), sink, make_walk(call, axes, R::kOrdered)});
    });
  }
  template <class R, class V>
  static void run(const Reducer<R, V>& reducer) {
    if (by_columns(reducer.p))
      reducer.columns();
    else
      reducer.rows();
  }
  template <class R, DType D>
  static void reduce(const Call& call) {
    const auto& attrs = call.attributes<ReduceBy<R>>();
    run<CppTypeOf<D>>(call, attrs.axes, attrs.how);
  }
  template <class R, DType D>
  static void sum_to(const Call& call) {
    run<CppTypeOf<D>>(call, broadcast_axes(call.in[0].meta, call.out[0].meta), R());
  }
  template <class R, DType D>
  static constexpr Kernel kernel() {
    return &reduce<R, D>;
  }
};

}  // namespace
}  // namespace locus::LOCUS_ISA_NAMESPACE
