// Variance and standard deviation. Internal to ops.
#pragma once

#include <locus/ops/reduce/squares.h>

namespace locus::reduction {

struct Var : CheckedSpreadSum {
  double ddof = 0;
  bool root = false;

  LOCUS_HD auto result(auto a, double n) const {
    a.squares /= n > ddof ? n - ddof : 0;
    return root ? m::sqrt(a.squares) : a.squares;
  }
  auto grad(auto& x, auto&, auto& dy, auto& over) const {
    return over.centered(x) * over.share(dy, ddof) * 2;
  }
  void check(auto expect) const { expect(ddof == ddof, "ddof", ddof, "a number"); }
};
struct Std : Reduction<"std", kFloats, kX | kOut> {
  double ddof = 0;

  void kernel(const auto& f) const { f(Var{{}, ddof, true}); }
  auto grad(auto& x, auto& y, auto& dy, auto& over) const {
    return over.centered(x) / divisor(y) * over.share(dy * (y != 0), ddof);
  }
  void check(auto expect) const { expect(ddof == ddof, "ddof", ddof, "a number"); }
};

}  // namespace locus::reduction
