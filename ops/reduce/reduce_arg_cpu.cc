// argmax and argmin.
#include <locus/ops/reduce/reduce_stage.h>

namespace locus::LOCUS_ISA {
namespace {

template <bool kMax, class T>
struct ArgReducer {
  using A = ComputeType<T>;
  struct Best {
    A value{};
    int64_t index = -1;
  };

  const T* in;
  int64_t* out;
  ReducePlan p;

  static Best first(Best a, Best b) {
    if (a.index < 0) return b;
    return better<kMax>(b.value, a.value) ? b : a;
  }

  // The best value by a loop that vectorises, then where it is.
  // Out of line: g++ 12 otherwise takes a staged block for uninitialised.
  __attribute__((noinline)) static Best best_of(const A* x, int64_t n, int64_t k) {
    using R = std::conditional_t<kMax, Max, Min>;
    constexpr int kLanes = 32;
    A best = x[0];
    if (n >= 2 * kLanes) {
      A lane[kLanes];
      for (int i = 0; i < kLanes; ++i) lane[i] = x[i];
      int64_t b = kLanes;
      for (; b + kLanes <= n; b += kLanes)
        for (int i = 0; i < kLanes; ++i) lane[i] = R::combine(lane[i], x[b + i]);
      for (int i = 0; b + i < n; ++i) lane[i] = R::combine(lane[i], x[b + i]);
      best = lane[0];
      for (int i = 1; i < kLanes; ++i) best = R::combine(best, lane[i]);
    } else {
      for (int64_t i = 1; i < n; ++i) best = R::combine(best, x[i]);
    }
    int64_t i = 0;
    if (best == best) {
      while (x[i] != best) ++i;
    } else {
      while (x[i] == x[i]) ++i;
    }
    return {best, k + i};
  }
  Best block(const T* base, int64_t b) const {
    alignas(64) A buffer[kBlock];
    const int64_t k = b * kBlock, n = p.count - k < kBlock ? p.count - k : kBlock;
    return best_of(stage(base, p, k, n, buffer), n, k);
  }

  void rows() const {
    const int64_t blocks = (p.count + kBlock - 1) / kBlock;
    if (!splits_outputs(p.outputs, p.count)) {
      parallel_for(p.outputs, grain(p.count), [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o) {
          const Offsets at = output_offsets(p, o);
          Best best;
          for (int64_t b = 0; b < blocks; ++b) best = first(best, block(in + at.in, b));
          out[at.out] = best.index;
        }
      });
      return;
    }
    Best part[kMaxParts];
    for (int64_t o = 0; o < p.outputs; ++o) {
      const Offsets at = output_offsets(p, o);
      Best best;
      for (int64_t begin = 0; begin < blocks; begin += kMaxParts) {
        const int64_t n = blocks - begin < kMaxParts ? blocks - begin : kMaxParts;
        parallel_for(n, kParallelWork / kBlock, [&](int64_t from, int64_t to) {
          for (int64_t b = from; b < to; ++b) part[b] = block(in + at.in, begin + b);
        });
        for (int64_t b = 0; b < n; ++b) best = first(best, part[b]);
      }
      out[at.out] = best.index;
    }
  }

  static constexpr int64_t kWidth = 64;
  void columns() const {
    const int64_t inner = p.keep[0].size, across = (inner + kWidth - 1) / kWidth;
    const int64_t tiles = p.outputs / (inner > 0 ? inner : 1) * across;
    parallel_for(tiles, grain(p.count * kWidth), [&](int64_t begin, int64_t end) {
      alignas(64) A best[kWidth], row[kWidth];
      alignas(64) int64_t index[kWidth];
      for (int64_t t = begin; t < end; ++t) {
        const Offsets at = output_offsets(p, t / across, 1);
        const int64_t j0 = t % across * kWidth, n = inner - j0 < kWidth ? inner - j0 : kWidth;
        widen(in + at.in + j0, n, best);
        for (int64_t j = 0; j < n; ++j) index[j] = 0;
        for (int64_t k = 1; k < p.count; ++k) {
          widen(in + at.in + j0 + element_offset(p, k), n, row);
          for (int64_t j = 0; j < n; ++j) {
            const bool take = better<kMax>(row[j], best[j]);
            best[j] = take ? row[j] : best[j];
            index[j] = take ? k : index[j];
          }
        }
        for (int64_t j = 0; j < n; ++j) out[at.out + (j0 + j) * p.keep[0].out] = index[j];
      }
    });
  }
};

struct Backend {
  template <bool kMax, DType D>
  static void along_axes(const Call& call) {
    using T = CppTypeOf<D>;
    const ArgReducer<kMax, T> r{call.in[0].as<T>(), call.out[0].as<int64_t>(),
                                ReducePlan(call.in[0], call.attributes<ReduceAttrs>().axes, true)};
    if (by_columns(r.p))
      r.columns();
    else
      r.rows();
  }
};

}  // namespace

extern constinit const KernelList reduce_arg = reduce_arg_kernels<Backend>();

}  // namespace locus::LOCUS_ISA
