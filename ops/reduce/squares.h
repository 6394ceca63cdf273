// Sums of squares, which reductions and normalizations share. Internal to ops.
#pragma once

#include <locus/ops/reduce/reduction.h>

namespace locus::reduction {

// Chan, Golub and LeVeque, "Algorithms for computing the sample variance" (1983), on the distances
// from element 0: `squares` sums their squared distances from `mean`.
template <class V>
struct Spread {
  V count, mean, squares;

  template <class W>
  LOCUS_HD operator Spread<W>() const {
    return {static_cast<W>(count), static_cast<W>(mean), static_cast<W>(squares)};
  }
  // Whether no square overflowed in f32, and those that underflowed are negligible.
  LOCUS_HD bool kept() const {
    // Bit operations, so that loops over columns vectorize.
    return ((squares > static_cast<V>(0x1p-100)) & (squares < m::infinity(squares))) |
           ((count <= 1) & (squares == 0));
  }
};

struct SpreadSum : Reduction<"var", kFloats, kX> {
  static constexpr bool kCentered = true;
  template <class V, class I>
  using Acc = Spread<V>;
  template <class V>
  LOCUS_HD static Spread<V> add(Spread<V> a, auto x, const auto& at) {
    const V n = static_cast<V>(at.count), y = static_cast<V>(x) - static_cast<V>(at.first),
            d = y - a.mean, mean = a.mean + d * (1 / n);
    return {n, mean, a.squares + d * (y - mean)};
  }
  template <class V>
  LOCUS_HD static Spread<V> combine(Spread<V> a, Spread<V> b) {
    const V n = a.count + b.count, d = b.mean - a.mean, part = n > 0 ? d * (b.count / n) : n;
    return {n, a.mean + part, a.squares + b.squares + d * (part * a.count)};
  }
  template <class V>
  LOCUS_HD static bool kept(const Spread<V>& a) {
    return a.kept();
  }
  LOCUS_HD static auto result(auto a, double) { return a.squares; }
};
// Computes the spread of f32 in f32 if f32 holds the squares, else in f64.
struct CheckedSpreadSum : SpreadSum {
  template <class V, class I>
  using Acc = Spread<double>;
  LOCUS_HD static SpreadSum simple() { return {}; }
  LOCUS_HD static auto from(auto sum, auto a) { return static_cast<decltype(a)>(sum); }
};

// The Euclidean norm of elements whose squares f64 holds.
struct Squares : Reduction<"norm", kFloats> {
  template <class V, class I>
  using Acc = double;
  LOCUS_HD static double add(double a, auto x, const auto&) {
    const double y = x;
#ifdef __FMA__
    if constexpr (kSame<decltype(x), float>) return __builtin_fma(y, y, a);  // y * y is exact
#endif
    return a + y * y;
  }
  LOCUS_HD static double combine(double a, double b) { return a + b; }
  LOCUS_HD static double result(double a, double) { return m::sqrt(a); }
  LOCUS_HD static bool kept(double sum) { return sum > 0x1p-900 && sum < 0x1p1000; }
};

}  // namespace locus::reduction
