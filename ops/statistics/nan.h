// Reductions of the numbers among elements that may be NaN, and the count of nonzero elements.
// Internal to ops.
#pragma once

#include <locus/ops/reduce/reduction.h>

namespace locus::reduction {

struct CountNonzero : Reduction<"count_nonzero", kAll> {
  static constexpr const char* kNoGradient = "a count has none";
  template <class T>
  using Out = int64_t;
  template <class V, class I>
  using Acc = I;
  LOCUS_HD static auto add(auto a, auto x, const auto&) {
    return static_cast<decltype(a)>(a + (x != 0));
  }
  LOCUS_HD static auto combine(auto a, auto b) { return a + b; }
};
// The same, of elements as words of their bits. Bits outside the mask do not count.
struct CountWords : CountNonzero {
  uint64_t mask = 0;

  LOCUS_HD explicit CountWords(DType d) {
    const uint64_t all = ~uint64_t{0} >> (64 - 8 * size_of(d));
    mask = is_floating(d) ? all >> 1 : all;  // but for the sign: -0 is 0
  }
  LOCUS_HD auto add(auto a, auto x, const auto&) const {
    return static_cast<decltype(a)>(a + ((x & static_cast<decltype(x)>(mask)) != 0));
  }
};

struct NumberSum : Reduction<"nansum", kFloats> {
  bool divides = false;  // by the count of numbers
  template <class V, class I>
  struct Acc {
    V sum;
    I count;
  };
  LOCUS_HD static auto add(auto a, auto x, const auto&) {
    const bool number = x == x;
    using V = decltype(a.sum);
    a.sum += number ? static_cast<V>(x) : V(0);
    a.count += number;
    return a;
  }
  LOCUS_HD static auto combine(auto a, auto b) {
    a.sum += b.sum;
    a.count += b.count;
    return a;
  }
  LOCUS_HD auto result(auto a, double) const {
    return divides ? a.sum / static_cast<decltype(a.sum)>(a.count) : a.sum;
  }
};
struct NanSum : Reduction<"nansum", kFloats, kX> {
  static void kernel(const auto& f) { f(NumberSum()); }
  auto grad(auto& x, auto&, auto& dy, auto&) const { return where(isnan(x), 0, dy); }
};
struct NanMean : Reduction<"nanmean", kFloats, kX> {
  static void kernel(const auto& f) { f(NumberSum{{}, true}); }
  auto grad(auto& x, auto&, auto& dy, auto& over) const {
    const auto count = divisor(over(CountNonzero(), x == x)).astype(dy.dtype());
    return where(isnan(x), 0, dy / count);
  }
};

// NaN is the accumulator of no numbers.
LOCUS_HD auto extreme(auto a, auto b, bool largest) {
  return (largest ? b > a : b < a) | (a != a) ? b : a;
}
// Both extremes in one kernel, for GPUs. A CPU's loops are faster if they know which one it is.
struct NumberExtreme : Reduction<"nanmax", kFloats> {
  bool largest = true;
  LOCUS_HD static auto init(auto a) { return m::nan(a); }
  LOCUS_HD auto combine(auto a, auto b) const { return extreme(a, b, largest); }
};
template <Name Of, bool kMax>
struct NanExtreme : Reduction<Of, kFloats, kX | kOut> {
  static constexpr bool kInRange = true;
  static constexpr bool needs_elements() { return true; }
  LOCUS_HD static auto init(auto a) { return m::nan(a); }
  LOCUS_HD static auto combine(auto a, auto b) { return extreme(a, b, kMax); }
#ifdef __CUDACC__
  static void kernel(const auto& f) { f(NumberExtreme{{}, kMax}); }
#endif
  auto grad(auto& x, auto& y, auto& dy, auto&) const { return where(x == y, dy, 0); }
};
struct NanMax : NanExtreme<"nanmax", true> {};
struct NanMin : NanExtreme<"nanmin", false> {};

using NanReductions = List<NanSum, NanMean, NanMax, NanMin>;
using Counts = List<CountNonzero>;

}  // namespace locus::reduction
