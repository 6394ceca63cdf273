// The logarithm of the sum of exponentials. Internal to ops.
#pragma once

#include <locus/ops/reduce/reduction.h>

namespace locus::reduction {

// top + log(sum): the sum is that of exp(x - top).
struct LogSumExp : Reduction<"logsumexp", kFloats, kX | kOut> {
  static constexpr bool kHeavy = true;
  template <class V, class I>
  struct Acc {
    V top, sum;
  };
  LOCUS_HD static auto init(auto a) { return decltype(a){lowest(a.top), 0}; }
  LOCUS_HD static auto add(auto a, auto x, const auto&) { return combine(a, decltype(a){x, 1}); }
  LOCUS_HD static auto combine(auto a, auto b) {  // if b.top is NaN, so is sum
    const bool up = b.top > a.top;
    auto e = m::exp(-m::abs(b.top - a.top));
    e = b.top == a.top ? static_cast<decltype(e)>(1) : e;  // infinities, too
    return decltype(a){up ? b.top : a.top, up ? a.sum * e + b.sum : a.sum + b.sum * e};
  }
  LOCUS_HD static auto result(auto a, double) { return a.top + m::log(a.sum); }
  // softmax. The division by the sum removes y's rounding error. inf - inf counts as 0. If all are
  // -inf, the gradient is 0.
  auto grad(auto& x, auto& y, auto& dy, auto& over) const {
    const auto top = where(y == -m::infinity(1.0), 0, y);
    const auto e = exp(where(x == top, 0, x - top));
    return e * (dy / divisor(over.sum(e)));
  }
};

}  // namespace locus::reduction
