// Sum, mean and product. Internal to ops.
#pragma once

#include <locus/ops/reduce/reduction.h>

namespace locus::reduction {

struct Sum : Reduction<"sum", kAll> {
  bool divides = false;  // by n
  template <class T>
  using Out = Wide<T>;
  template <class V, class I>
  using Acc = Wide<V>;
  LOCUS_HD static auto combine(auto a, auto b) { return m::add(a, b); }
  template <class A>
  LOCUS_HD A result(A a, double n) const {
    return kFloating<A> && divides ? a / static_cast<A>(n) : a;
  }
  auto grad(auto&, auto&, auto& dy, auto&) const { return dy; }
};
struct Mean : Reduction<"mean", kFloats> {
  static void kernel(const auto& f) { f(Sum{{}, true}); }
  auto grad(auto&, auto&, auto& dy, auto& over) const { return over.share(dy); }
};

struct Prod : Reduction<"prod", kAll, kX> {
  template <class T>
  using Out = Wide<T>;
  template <class V, class I>
  using Acc = Wide<V>;
  LOCUS_HD static int init(auto) { return 1; }
  LOCUS_HD static auto combine(auto a, auto b) { return m::multiply(a, b); }
  // If one element is 0, only that one has a gradient; if two are 0, none has. The product of all
  // may leave f64's range although that of the others does not, so it is kept as mantissas and a
  // power of 2.
  auto grad(auto& x, auto&, auto& dy, auto& over) const {
    const auto is_zero = x == 0, zeros = over(Sum(), is_zero);
    const auto nonzero = over.wide(where(is_zero, 1, x)), e = exponents(nonzero.detach(), over),
               mantissa = ldexp(nonzero, -e), product = over(Prod(), mantissa),
               power = over(Sum(), e);
    const auto others = where(zeros == 0, ldexp(product / mantissa * dy, power - e), 0);
    return where(is_zero, where(zeros == 1, ldexp(product * dy, power), 0), others)
        .astype(dy.dtype());
  }

 private:
  // Whole numbers e such that x 2^-e is about 1; 0 if the mantissas' product may leave the range.
  static auto exponents(const auto& x, auto& over) {
    const auto size = log2(abs(x)), e = rint(size);
    return where(over(Sum(), abs(size - e)) < 1000, e, 0);
  }
};

using Sums = List<Sum, Mean, Prod>;

}  // namespace locus::reduction
