// For the CPU kernels of normalisations, included once per instruction set: loops over contiguous
// elements, and over the elements of each channel. Partitions depend only on the shape, so results
// have the same bits for every number of threads.
#pragma once

#include <locus/core/scratch.h>
#include <locus/ops/norm/norm_kernel.h>
#include <locus/ops/reduce/reduce_stage.h>

namespace locus::LOCUS_ISA_NAMESPACE {
namespace {

constexpr int64_t kPiece = 2048;     // elements summed in their compute type
constexpr int64_t kWide = 512;       // neighbouring channels summed at once
constexpr int64_t kDeep = 256;       // elements of each summed in their compute type
constexpr int64_t kPart = 1 << 15;   // elements worth a separate sum
constexpr int64_t kSideBySide = 16;  // shorter runs of a channel are not worth a loop

// Parameters of element j of a run: one for all, or one each.
template <class V>
struct Same {
  V value;
  LOCUS_HD V operator()(int64_t) const { return value; }
};
template <class A>
struct Each {
  const A* values;
  LOCUS_HD A operator()(int64_t j) const { return values[j]; }
};
template <class A>
struct EachStat {
  const A *high, *low, *rstd, *mean_dy, *mean_hat;
  LOCUS_HD NormStat<A> operator()(int64_t j) const {
    return {high[j], low[j], rstd[j], mean_dy[j], mean_hat[j]};
  }
};
template <class V>
LOCUS_HD Same<V> from(Same<V> s, int64_t) {
  return s;
}
template <class A>
LOCUS_HD Each<A> from(Each<A> e, int64_t j) {
  return {e.values + j};
}
template <class A>
LOCUS_HD EachStat<A> from(EachStat<A> e, int64_t j) {
  return {e.high + j, e.low + j, e.rstd + j, e.mean_dy + j, e.mean_hat + j};
}

// Elements in the compute type, converted into `memory` if needed.
template <class T, class A>
const A* loaded(const T* x, int64_t n, A* memory) {
  if constexpr (kSame<T, A>) return x;
  convert_run(x, memory, n);
  return memory;
}
template <class T>
using Buffer = Compute<T>[kSame<T, Compute<T>> ? 1 : kPiece];

// Calls piece(begin, length) for [0, n).
void for_pieces(int64_t n, const auto& piece) {
  for (int64_t i = 0; i < n; i += kPiece) piece(i, n - i < kPiece ? n - i : kPiece);
}
// f fills n elements of y, in the compute type.
template <class T>
void write(T* y, int64_t n, const auto& f) {
  using A = Compute<T>;
  if constexpr (kSame<T, A>) {
    f(y);
  } else {
    alignas(64) A memory[kPiece];
    f(memory);
    convert_run(memory, y, n);
  }
}

// f32 holds the squares of most data.
struct SquareSum : Squares {
  struct Simple : Reduction<"square_sum", kFloats> {
    LOCUS_HD static auto map(auto x) { return x * x; }
    LOCUS_HD static auto combine(auto a, auto b) { return a + b; }
    LOCUS_HD static bool kept(auto sum) { return Moments<decltype(sum)>{2, 0, sum}.kept(); }
  };
  LOCUS_HD static Simple simple() { return {}; }
  LOCUS_HD static double from(double sum, double) { return sum; }
};

template <bool kCentred, class T>
Moments<double> moments_of(const T* x, int64_t n) {
  using A = Compute<T>;
  alignas(64) Buffer<T> memory;
  Moments<double> all{};
  for_pieces(n, [&](int64_t i, int64_t length) {
    const A* v = loaded(x + i, length, memory);
    Moments<double> piece{static_cast<double>(length), 0, 0};
    if constexpr (kCentred)
      piece = widened(v[0], reduce_block<CheckedSpreadSum>(v, length, CheckedSpreadSum(), v[0]));
    else
      piece.squares = reduce_block<SquareSum>(v, length);
    all = combine(all, piece);
  });
  return all;
}

template <class A>
__attribute__((noinline)) void apply(const A* x, int64_t n, auto stat, auto gamma, auto beta,
                                     A* __restrict y) {
  for (int64_t j = 0; j < n; ++j) y[j] = stat(j).apply(x[j], gamma(j), beta(j));
}
template <class T>
void apply_run(const T* x, int64_t n, auto stat, auto gamma, auto beta, T* y) {
  alignas(64) Buffer<T> memory;
  for_pieces(n, [&](int64_t i, int64_t length) {
    write(y + i, length, [&](auto* out) {
      apply(loaded(x + i, length, memory), length, from(stat, i), from(gamma, i), from(beta, i),
            out);
    });
  });
}

template <class A>
__attribute__((noinline)) void slope(const A* dy, const A* x, int64_t n, auto stat, auto gamma,
                                     A* __restrict dx) {
  for (int64_t j = 0; j < n; ++j) dx[j] = stat(j).slope(dy[j], x[j], gamma(j));
}
template <class T>
void slope_run(const T* dy, const T* x, int64_t n, auto stat, auto gamma, T* dx) {
  alignas(64) Buffer<T> memory, memory2;
  for_pieces(n, [&](int64_t i, int64_t length) {
    write(dx + i, length, [&](auto* out) {
      slope(loaded(dy + i, length, memory), loaded(x + i, length, memory2), length, from(stat, i),
            from(gamma, i), out);
    });
  });
}

// The sums of dy gamma, and of that times the normalised x.
template <class A>
__attribute__((noinline)) NormSums sums(const A* dy, const A* x, int64_t n, NormStat<A> stat,
                                        auto gamma) {
  constexpr int kLanes = 128 / sizeof(A);
  A a[kLanes] = {}, b[kLanes] = {};
  const auto add = [&](int k, int64_t j) {
    const A d = dy[j] * gamma(j);
    a[k] += d;
    b[k] += d * stat.hat(x[j]);
  };
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes)
    for (int k = 0; k < kLanes; ++k) add(k, j + k);
  for (int k = 0; j + k < n; ++k) add(k, j + k);
  for (int w = kLanes / 2; w > 0; w /= 2)
    for (int k = 0; k < w; ++k) {
      a[k] += a[k + w];
      b[k] += b[k + w];
    }
  return {static_cast<double>(a[0]), static_cast<double>(b[0])};
}
template <class T>
NormSums sums_of(const T* dy, const T* x, int64_t n, NormStat<Compute<T>> stat, auto gamma) {
  alignas(64) Buffer<T> memory, memory2;
  NormSums all{};
  for_pieces(n, [&](int64_t i, int64_t length) {
    all = combine(all, sums(loaded(dy + i, length, memory), loaded(x + i, length, memory2), length,
                            stat, from(gamma, i)));
  });
  return all;
}

// Down the columns: adds a row to neighbouring accumulators.
template <class A, class V>
__attribute__((noinline)) void add_moments(const A* x, int64_t n, int64_t count, const A* first,
                                           V* __restrict mean, V* __restrict squares) {
  for (int64_t j = 0; j < n; ++j) {
    const Moments<V> m = SpreadSum::add(Moments<V>{0, mean[j], squares[j]}, x[j],
                                        Position<A, int64_t>{0, count, first[j]});
    mean[j] = m.mean;
    squares[j] = m.squares;
  }
}
template <class A>
__attribute__((noinline)) void add_sums(const A* dy, const A* x, int64_t n, auto stat,
                                        A* __restrict a, A* __restrict b) {
  for (int64_t j = 0; j < n; ++j) {
    a[j] += dy[j];
    b[j] += dy[j] * stat(j).hat(x[j]);
  }
}

// Calls done(c, sum) with the sum over each channel c. If runs are long enough for a loop, run(c,
// o) sums elements (o, c, ...). Else columns(j, n, begin, end, sums) adds rows [begin, end) of n
// columns, from column j of channels * inner, to `sums`.
template <class Sum>
void for_channels(const Call& call, const Along& s, const auto& run, const auto& columns,
                  const auto& done) {
  const bool runs = s.inner >= kSideBySide;
  const int64_t width = runs ? s.n : s.n * s.inner, step = runs ? 1 : kWide;
  const int64_t across = (width + step - 1) / step;
  const int64_t each = runs ? s.inner : 1, most = runs ? 32 : 64;
  int64_t parts = s.outer * each / (runs ? kPart : kDeep);
  parts = parts < 1 ? 1 : parts > most ? most : parts;
  if (parts > s.outer && s.outer > 0) parts = s.outer;
  const Scratch scratch(call, static_cast<size_t>(parts * width) * sizeof(Sum));
  Sum* const sums = scratch.as<Sum>();
  const int64_t work = (s.outer * each * step + parts - 1) / parts;
  parallel_ranges(across * parts, grain(4 * work), [&](int64_t first, int64_t last) {
    for (int64_t u = first; u < last; ++u) {
      const int64_t part = u / across, j = u % across * step;
      const int64_t begin = s.outer * part / parts, end = s.outer * (part + 1) / parts;
      Sum* const to = sums + part * width + j;
      if (runs) {
        Sum all{};
        for (int64_t o = begin; o < end; ++o) all = combine(all, run(j, o));
        *to = all;
      } else {
        const int64_t n = width - j < kWide ? width - j : kWide;
        for (int64_t k = 0; k < n; ++k) to[k] = Sum{};
        for (int64_t o = begin; o < end; o += kDeep)
          columns(j, n, o, o + kDeep < end ? o + kDeep : end, to);
      }
    }
  });
  const int64_t inner = width / (s.n > 0 ? s.n : 1);
  for (int64_t c = 0; c < s.n; ++c) {
    Sum all{};
    for (int64_t part = 0; part < parts; ++part)
      for (int64_t i = 0; i < inner; ++i) all = combine(all, sums[part * width + c * inner + i]);
    done(c, all);
  }
}

// The gradient's sums for each channel. for_stats(o, j, n, f) calls f(k, length, statistics) for
// the pieces of columns j .. j + n of row o with equal statistics.
template <class T>
void for_channel_sums(const Call& call, const Along& s, const T* dy, const T* x,
                      const auto& stat_of_run, const auto& for_stats, const auto& done) {
  using A = Compute<T>;
  for_channels<NormSums>(
      call, s,
      [&](int64_t c, int64_t o) {
        const int64_t at = (o * s.n + c) * s.inner;
        return sums_of(dy + at, x + at, s.inner, stat_of_run(c, o), Same<A>{1});
      },
      [&](int64_t j, int64_t n, int64_t begin, int64_t end, NormSums* all) {
        alignas(64) A a[kWide], b[kWide];
        alignas(64) Buffer<T> memory, memory2;
        for (int64_t k = 0; k < n; ++k) a[k] = b[k] = 0;
        for (int64_t o = begin; o < end; ++o) {
          const int64_t at = o * s.n * s.inner + j;
          const A *d = loaded(dy + at, n, memory), *v = loaded(x + at, n, memory2);
          for_stats(o, j, n, [&](int64_t k, int64_t length, auto stat) {
            add_sums(d + k, v + k, length, stat, a + k, b + k);
          });
        }
        for (int64_t k = 0; k < n; ++k)
          all[k] = combine(all[k], {static_cast<double>(a[k]), static_cast<double>(b[k])});
      },
      done);
}

}  // namespace
}  // namespace locus::LOCUS_ISA_NAMESPACE
