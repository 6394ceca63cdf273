// The extremes, and any and all, which are extremes of truth values. Internal to ops.
#pragma once

#include <locus/ops/reduce/reduction.h>

namespace locus::reduction {

template <Name Of, bool kMax>
struct Extreme : Reduction<Of, kAll, kX | kOut> {
  static constexpr bool kInRange = true;
  static constexpr bool needs_elements() { return true; }
  template <class T>
  using Element = If<kSame<T, uint8_t> || kSame<T, bool>, uint8_t, Promoted<T>>;
  LOCUS_HD static auto init(auto a) { return kMax ? lowest(a) : highest(a); }
  LOCUS_HD static auto combine(auto a, auto b) {  // NaN wins
    return kMax ? m::max(b, a) : m::min(b, a);
  }
  template <class A>
  LOCUS_HD static A result(A a, double n) {
    return n > 0 ? a : A(!kMax);  // any and all of nothing
  }
  auto grad(auto& x, auto& y, auto& dy, auto&) const { return (x == y).astype(dy.dtype()) * dy; }
};
template <Name Of, class R>
struct Logical : Reduction<Of, kBool> {
  static constexpr const char* kNoGradient = "booleans have none";
  static void kernel(const auto& f) { f(R()); }
};
// Structs, not aliases: nvcc cannot spell a kernel's type that contains a Name.
struct Max : Extreme<"max", true> {};
struct Min : Extreme<"min", false> {};
struct Any : Logical<"any", Max> {};
struct All : Logical<"all", Min> {};

using Extremes = List<Max, Min, Any, All>;

}  // namespace locus::reduction
