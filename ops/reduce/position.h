// The positions of the extremes. Internal to ops.
#pragma once

#include <type_traits>

#include <locus/ops/reduce/reduction.h>

namespace locus::reduction {

// The first largest or smallest element; NaN is larger and smaller than all. Without elements:
// position 0, with the worst value.
template <Name Of, bool kMax>
struct Arg : Reduction<Of, kAll> {
  static constexpr const char* kNoGradient = "a position has none";
  static constexpr bool kOrdered = true;
  static constexpr bool needs_elements() { return true; }
  template <class T>
  using Out = int64_t;
  template <class V, class I>
  struct Acc {
    V value;
    I index;
  };
  LOCUS_HD static auto init(auto a) {
    return decltype(a){kMax ? lowest(a.value) : highest(a.value), 0};
  }
  // Bit operations, to avoid branches.
  LOCUS_HD static bool better(auto b, auto a) {
    if constexpr (std::is_integral_v<decltype(a)>) return kMax ? b > a : b < a;
    return (a == a) & !(kMax ? b <= a : b >= a);
  }
  LOCUS_HD static auto add(auto a, auto x, const auto& at) {
    const bool take = better(x, a.value);
    return decltype(a){take ? x : a.value, take ? at.index : a.index};
  }
  LOCUS_HD static auto combine(auto a, auto b) {
    const bool equal = (a.value == b.value) | ((a.value != a.value) & (b.value != b.value));
    const bool take = equal ? b.index < a.index : better(b.value, a.value);
    return decltype(a){take ? b.value : a.value, take ? b.index : a.index};
  }
  LOCUS_HD static auto moved(auto a, int64_t k) {
    return Acc<decltype(a.value), int64_t>{a.value, a.index + k};
  }
  LOCUS_HD static int64_t result(auto a, double) { return a.index; }
};
struct ArgMax : Arg<"argmax", true> {};
struct ArgMin : Arg<"argmin", false> {};

using Positions = List<ArgMax, ArgMin>;

}  // namespace locus::reduction
