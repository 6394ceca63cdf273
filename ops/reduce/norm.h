// The norms of any order, as a reduction.
#pragma once

#include <locus/ops/reduce/squares.h>

namespace locus::reduction {

// Powers of elements may overflow or underflow although the norm does not. So the accumulator adds
// powers of x / top; top is the element with the greatest power so far.
struct Norm : Reduction<"norm", kFloats, kX | kOut> {
  static constexpr bool kHeavy = true;
  double ord = 2;

  // The plain sum of powers, or the extreme.
  struct Plain : Reduction<"norm", kFloats> {
    static constexpr bool kHeavy = true;
    double ord;

    LOCUS_HD bool greatest() const { return ord == m::infinity(ord); }
    LOCUS_HD bool least() const { return ord == -m::infinity(ord); }
    LOCUS_HD bool powers() const { return !(ord == 0 || ord == 1 || greatest() || least()); }
    template <class V, class I>
    using Acc = double;
    LOCUS_HD double init(double zero) const { return least() ? highest(zero) : zero; }
    LOCUS_HD double map(double x) const {
      const double a = m::abs(x);
      if (powers()) return m::pow(a, ord);
      return ord == 0 ? static_cast<double>(a != 0) : a;
    }
    LOCUS_HD double combine(double a, double b) const {
      if (greatest()) return m::max(b, a);
      return least() ? m::min(b, a) : a + b;
    }
    LOCUS_HD bool kept(double sum) const { return !powers() || (sum > 0x1p-900 && sum < 0x1p1000); }
  };
  LOCUS_HD Plain simple() const { return {{}, ord}; }
  LOCUS_HD auto from(double sum, auto a) const {
    return decltype(a){simple().powers() ? 1. : 0., sum};
  }

  bool needs_elements() const { return simple().greatest() || simple().least(); }
  template <class V, class I>
  struct Acc {
    double top, sum;
  };
  LOCUS_HD auto init(auto a) const {
    const Plain plain = simple();
    return decltype(a){plain.powers() && ord < 0 ? m::infinity(ord) : 0., plain.init(0)};
  }
  template <class A>
  LOCUS_HD A add(A a, auto x, const auto&) const {
    const Plain plain = simple();
    const double v = m::abs(static_cast<double>(x));
    if (!plain.powers()) return {0, plain.combine(a.sum, plain.map(v))};
    if (ord > 0 ? v > a.top : v < a.top) return {v, a.sum * m::pow(a.top / v, ord) + 1};
    return {a.top, a.sum + (v == a.top ? 1 : m::pow(v / a.top, ord))};
  }
  template <class A>
  LOCUS_HD A combine(A a, auto b) const {
    const Plain plain = simple();
    if (!plain.powers()) return {0, plain.combine(a.sum, b.sum)};
    const bool up = ord > 0 ? b.top > a.top : b.top < a.top;
    const double power = m::pow(up ? a.top / b.top : b.top / a.top, ord);
    const double e = a.top == b.top ? 1 : power;  // infinities and zeros, too
    return up ? A{b.top, a.sum * e + b.sum} : A{a.top, a.sum + b.sum * e};
  }
  LOCUS_HD double result(auto a, double) const {
    return simple().powers() ? a.top * m::pow(a.sum, 1 / ord) : a.sum;
  }
  // Order 2, the common one: its sum runs at the speed of memory. Squares of large and small f64
  // are scaled and summed separately.
  struct Euclidean : Squares {
    struct Sums {
      double middle, large, small;
      Sums() = default;
      LOCUS_HD Sums(double m, double l = 0, double s = 0) : middle(m), large(l), small(s) {}
    };
    template <class V, class I>
    using Acc = If<kSame<V, double>, Sums, double>;
    using Squares::add, Squares::combine, Squares::result;
    LOCUS_HD static Sums add(Sums a, double x, const auto&) {
      const double v = m::abs(x);
      const bool large = v > 0x1p480, small = v < 0x1p-480;
      const double scaled = v * (large ? 0x1p-600 : small ? 0x1p600 : 1.), y = scaled * scaled;
      return {a.middle + (large || small ? 0. : y), a.large + (large ? y : 0.),
              a.small + (small ? y : 0.)};
    }
    LOCUS_HD static Sums combine(Sums a, Sums b) {
      return {a.middle + b.middle, a.large + b.large, a.small + b.small};
    }
    LOCUS_HD static double result(Sums a, double) {
      if (a.large != 0) return m::sqrt(a.large + a.middle * 0x1p-600 * 0x1p-600) * 0x1p600;
      if (a.middle == 0) return m::sqrt(a.small) * 0x1p-600;
      return m::sqrt(a.middle + a.small * 0x1p-600 * 0x1p-600);
    }
    LOCUS_HD static Squares simple() { return {}; }
    LOCUS_HD static Sums from(double sum, Sums) { return sum; }
  };
  void kernel(const auto& f) const {
    if (ord == 2)
      f(Euclidean());
    else
      f(*this);
  }
  // x / y first, because 1 / y may be infinite. A high order would amplify y's rounding error, so
  // elements are divided by the extreme one, and the sum of powers gives the norm.
  auto grad(auto& x, auto& y, auto& dy, auto& over) const {
    if (ord == 2) return x / divisor(y) * dy;
    auto slope = sign(x) * dy;
    if (ord == 1) return slope;
    if (ord == 0) return slope * 0;
    if (needs_elements()) return slope * (abs(x) == y);
    const auto top = over(Norm{{}, m::copysign(m::infinity(ord), ord)}, x), zero = x == 0;
    const auto whole = logical_or(logical_or(zero, y == 0), abs(x) == top);
    const auto part = where(whole, 1, abs(x) / divisor(top));
    const auto powers = over.sum(where(zero, 0, pow(part, ord)));
    return slope * (y != 0) * pow(part, ord - 1) * pow(divisor(powers), 1 / ord - 1);
  }
  void check(auto expect) const { expect(ord == ord, "ord", ord, "a number"); }
};

}  // namespace locus::reduction
