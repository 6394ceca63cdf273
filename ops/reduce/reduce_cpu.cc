#include <locus/ops/reduce/reduce_stage.h>

namespace locus::LOCUS_ISA {
namespace {

template <class R, class T>
struct Reducer {
  using A = typename R::template Acc<T>;
  using Out = typename R::template Out<T>;
  using Total = std::conditional_t<R::kTotalInDouble && std::is_same_v<A, float>, double, A>;

  const T* in;
  Out* out;
  ReducePlan p;
  double divisor;  // 0: none

  void store(int64_t at, Total total) const {
    Total y = R::finish(total);
    if constexpr (std::is_floating_point_v<Total>)
      if (divisor >= 0) y /= static_cast<Total>(divisor);
    out[at] = convert<Out>(y);
  }
  static Total join(Total total, A part) {
    return R::template combine<Total>(total, static_cast<Total>(part));
  }

  __attribute__((noinline)) A block(const T* base, int64_t b) const {
    alignas(64) A buffer[kBlock];
    const int64_t k = b * kBlock, n = p.count - k < kBlock ? p.count - k : kBlock;
    return reduce_block<R>(stage(base, p, k, n, buffer), n);
  }

  void rows() const {
    const int64_t blocks = (p.count + kBlock - 1) / kBlock;
    if (!splits_outputs(p.outputs, p.count)) {
      parallel_for(p.outputs, grain(p.count), [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o) {
          const Offsets at = output_offsets(p, o);
          Total total = R::template identity<Total>();
          for (int64_t b = 0; b < blocks; ++b) total = join(total, block(in + at.in, b));
          store(at.out, total);
        }
      });
      return;
    }
    A part[kMaxParts];
    for (int64_t o = 0; o < p.outputs; ++o) {
      const Offsets at = output_offsets(p, o);
      Total total = R::template identity<Total>();
      for (int64_t first = 0; first < blocks; first += kMaxParts) {
        const int64_t n = blocks - first < kMaxParts ? blocks - first : kMaxParts;
        parallel_for(n, kParallelWork / kBlock, [&](int64_t begin, int64_t end) {
          for (int64_t b = begin; b < end; ++b) part[b] = block(in + at.in, first + b);
        });
        for (int64_t b = 0; b < n; ++b) total = join(total, part[b]);
      }
      store(at.out, total);
    }
  }

  // Columns [0, width) over the rows of block b, each column from top to bottom.
  static constexpr int64_t kRows = 256, kWidth = 512;
  __attribute__((noinline)) void column_block(const T* base, int64_t width, int64_t b,
                                              A* __restrict acc) const {
    const int64_t first = b * kRows;
    const int64_t last = p.count - first < kRows ? p.count : first + kRows;
    alignas(64) A row[kWidth];
    for (int64_t j = 0; j < width; ++j) acc[j] = R::template identity<A>();
    for (int64_t k = first; k < last; ++k) {
      const T* x = base + element_offset(p, k);
      if constexpr (std::is_same_v<T, A>) {
        for (int64_t j = 0; j < width; ++j) acc[j] = R::combine(acc[j], R::map(x[j]));
      } else {
        widen(x, width, row);
        for (int64_t j = 0; j < width; ++j) acc[j] = R::combine(acc[j], R::map(row[j]));
      }
    }
  }

  void columns() const {
    const int64_t inner = p.keep[0].size, outer = p.outputs / (inner > 0 ? inner : 1);
    const int64_t blocks = (p.count + kRows - 1) / kRows;
    // Narrow enough to give every thread some tiles; the results do not depend on it.
    int64_t width = (inner * outer / (4 * num_threads()) + 63) / 64 * 64;
    width = width < 64 ? 64 : width > kWidth ? kWidth : width;
    if (width > inner) width = inner;
    const int64_t across = (inner + width - 1) / width, tiles = outer * across;
    const auto tile = [&](int64_t t, int64_t& columns) {
      Offsets at = output_offsets(p, t / across, 1);
      const int64_t j = t % across * width;
      columns = inner - j < width ? inner - j : width;
      return Offsets{at.in + j, at.out + j * p.keep[0].out};
    };
    if (!splits_outputs(tiles, p.count * width)) {
      parallel_for(tiles, grain(p.count * width), [&](int64_t begin, int64_t end) {
        A acc[kWidth];
        Total total[kWidth];
        for (int64_t t = begin; t < end; ++t) {
          int64_t n;
          const Offsets at = tile(t, n);
          for (int64_t j = 0; j < n; ++j) total[j] = R::template identity<Total>();
          for (int64_t b = 0; b < blocks; ++b) {
            column_block(in + at.in, n, b, acc);
            for (int64_t j = 0; j < n; ++j) total[j] = join(total[j], acc[j]);
          }
          for (int64_t j = 0; j < n; ++j) store(at.out + j * p.keep[0].out, total[j]);
        }
      });
      return;
    }
    A part[kMaxParts];
    Total total[kWidth];
    const int64_t at_once = kMaxParts / width;
    for (int64_t t = 0; t < tiles; ++t) {
      int64_t n;
      const Offsets at = tile(t, n);
      for (int64_t j = 0; j < n; ++j) total[j] = R::template identity<Total>();
      for (int64_t first = 0; first < blocks; first += at_once) {
        const int64_t m = blocks - first < at_once ? blocks - first : at_once;
        parallel_for(m, grain(kRows * width), [&](int64_t begin, int64_t end) {
          for (int64_t b = begin; b < end; ++b)
            column_block(in + at.in, n, first + b, part + b * width);
        });
        for (int64_t b = 0; b < m; ++b)
          for (int64_t j = 0; j < n; ++j) total[j] = join(total[j], part[b * width + j]);
      }
      for (int64_t j = 0; j < n; ++j) store(at.out + j * p.keep[0].out, total[j]);
    }
  }

  void run() const {
    if (by_columns(p))
      columns();
    else
      rows();
  }
};

template <class R, class T>
void launch(const Call& call, uint32_t axes, bool mean) {
  using Out = typename R::template Out<T>;
  Reducer<R, T> r{call.in[0].as<T>(), call.out[0].as<Out>(), ReducePlan(call.in[0], axes, false),
                  -1};
  if (mean) r.divisor = static_cast<double>(r.p.count);
  r.run();
}

struct Backend {
  template <class R, DType D>
  static void along_axes(const Call& call) {
    launch<R, CppTypeOf<D>>(call, call.attributes<ReduceAttrs>().axes, false);
  }

  template <DType D>
  static void mean(const Call& call) {
    launch<Sum, CppTypeOf<D>>(call, call.attributes<ReduceAttrs>().axes, true);
  }

  template <DType D>
  static void sum_to(const Call& call) {
    const uint32_t axes = broadcast_axes(call.in[0].meta, call.out[0].meta);
    launch<Sum, CppTypeOf<D>>(call, axes, false);
  }
};

}  // namespace

extern constinit const KernelList reduce = reduce_kernels<Backend>();

}  // namespace locus::LOCUS_ISA
