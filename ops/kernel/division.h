// Division with remainder, for formulas. Free of the standard library.
//
// Remainders are exact for any quotient. Integers: division by zero gives 0, and the lowest number
// divided by -1 stays. floor_divide() of floating numbers is NumPy's: the quotient is made of the
// exact remainder, so 1 / .1 is 9.
#pragma once

#include <locus/ops/kernel/math.h>

namespace locus::m {

// A quotient cut to an integer, and the remainder with the dividend's sign.
template <class V>
struct Division {
  V quotient, rest;
};

// i64 from -2^51 to 2^51 as f64 and back, in steps that vector instructions have.
LOCUS_HD double to_f64(int64_t v) {
  return bits_double(static_cast<uint64_t>(v) + 0x4338000000000000u) - 6755399441055744.0;
}
LOCUS_HD int64_t to_i64(double v) {
  return static_cast<int64_t>(double_bits(v + 6755399441055744.0) - 0x4338000000000000u);
}

// Whether divide_quickly() may be called: quotients so small that floating arithmetic is exact.
LOCUS_HD bool divides_quickly([[maybe_unused]] float x, [[maybe_unused]] float y) {
#if defined(__FMA__) || defined(__CUDA_ARCH__)
  return abs(x / y) < 4194304.0f && abs(y) < infinity(y);
#else
  return false;
#endif
}
LOCUS_HD bool divides_quickly([[maybe_unused]] double x, [[maybe_unused]] double y) {
#if defined(__FMA__) || defined(__CUDA_ARCH__)
  return abs(x / y) < 2251799813685248.0 && abs(y) < infinity(y);
#else
  return false;
#endif
}
LOCUS_HD bool divides_quickly([[maybe_unused]] int64_t x, [[maybe_unused]] int64_t y) {
#ifdef __CUDA_ARCH__
  return false;
#else
  constexpr uint64_t kHalf = uint64_t{1} << 50;
  return ((static_cast<uint64_t>(x) + kHalf) | (static_cast<uint64_t>(y) + kHalf)) < 2 * kHalf;
#endif
}
template <class V>
requires(kInteger<V>) LOCUS_HD bool divides_quickly(V, V) {
#ifdef __CUDA_ARCH__
  return false;
#else
  return true;
#endif
}

// Without branches.
template <class V>
LOCUS_HD Division<V> divide_quickly(V x, V y) {
  if constexpr (kFloating<V>) {
    // A rounded quotient is the right one or, in size, 1 above: then the rest has another sign.
    const V one = c(x, 1), q = trunc(x / y), r = fma(-q, y, x);
    const bool above = r * copysign(one, x) < 0;
    return {above ? q - copysign(one, q) : q, copysign(above ? r + copysign(y, x) : r, x)};
  } else if constexpr (kSame<V, int64_t>) {
    const double a = to_f64(x), b = to_f64(y == 0 ? 1 : y), q = trunc(a / b);
    return {y == 0 ? 0 : to_i64(q), y == 0 ? 0 : to_i64(a - q * b)};
  } else {
    using F = If<sizeof(V) == 4, double, float>;
    const bool simple = y == 0;
    bool lowest = false;
    if constexpr (kSigned<V>) lowest = y == V(-1);
    const V divisor = simple || lowest ? V(1) : y;
    const V q = static_cast<V>(trunc(static_cast<F>(x) / static_cast<F>(divisor)));
    const V quotient = lowest ? static_cast<V>(Wrap<V>(0) - static_cast<Wrap<V>>(q)) : q;
    return {simple ? V(0) : quotient,
            static_cast<V>(static_cast<Wrap<V>>(x) -
                           static_cast<Wrap<V>>(q) * static_cast<Wrap<V>>(divisor))};
  }
}
// Of any integers.
template <class V>
LOCUS_HD Division<V> divide_slowly(V x, V y) {
  if (y == 0) return {0, 0};
  if constexpr (kSigned<V>) {
    if (y == -1) return {static_cast<V>(Wrap<V>(0) - static_cast<Wrap<V>>(x)), 0};
  }
  return {static_cast<V>(x / y), static_cast<V>(x % y)};
}
template <bool Quickly, class V>
LOCUS_HD Division<V> divide_whole(V x, V y) {
  if constexpr (Quickly || kFloating<V>)
    return divide_quickly(x, y);
  else
    return divide_slowly(x, y);
}

// The following are the branch-free halves, if `Quickly`, and the others.

// The remainder with the dividend's sign.
template <bool Quickly, class V>
LOCUS_HD V rest_cut(V x, V y) {
  if constexpr (kFloating<V> && !Quickly)
    return fmod(x, y);
  else
    return divide_whole<Quickly>(x, y).rest;
}
// The remainder with the divisor's sign.
template <bool Quickly, class V>
LOCUS_HD V rest_floored(V x, V y) {
  const V r = rest_cut<Quickly>(x, y);
  if constexpr (kFloating<V>) {
    const V moved = (r < 0) != (y < 0) ? r + y : r;
    return r == 0 ? copysign(r, y) : moved;
  } else if constexpr (kSigned<V>) {
    return r != 0 && (r < 0) != (y < 0) ? static_cast<V>(r + y) : r;
  } else {
    return r;
  }
}
// The quotient, rounded down.
template <bool Quickly, class V>
LOCUS_HD V quotient_floored(V x, V y) {
  if constexpr (kFloating<V> && !Quickly) {
    if (y == 0) return x / y;
    const V r = fmod(x, y), moved = r != 0 && (r < 0) != (y < 0) ? c(x, 1) : c(x, 0);
    const V q = (x - r) / y - moved, whole = floor(q);
    if (q == 0) return copysign(q, x / y);
    return q - whole > c(x, .5) ? whole + c(x, 1) : whole;
  } else {
    const Division<V> d = divide_whole<Quickly>(x, y);
    const bool down = d.rest != 0 && (d.rest < 0) != (y < 0);
    const V q = static_cast<V>(down ? d.quotient - V(1) : d.quotient);
    if constexpr (kFloating<V>) return q == 0 ? copysign(q, x / y) : q;
    return q;
  }
}

// The quotients of integers by one positive number, rounded down. They are exact: x + 1/2 is so far
// from multiples of the divisor that rounding errors do not matter. i64: where divides_quickly().
template <class V>
class FloorBy {
 public:
  LOCUS_HD explicit FloorBy(V divisor) : factor_(1 / static_cast<F>(divisor)) {}
  LOCUS_HD V operator()(V x) const {
    if constexpr (kSame<V, int64_t>)
      return to_i64(floor((to_f64(x) + 0.5) * factor_));
    else
      return static_cast<V>(floor((static_cast<F>(x) + F(0.5)) * factor_));
  }

 private:
  using F = If<sizeof(V) == 1, float, double>;
  F factor_;
};

}  // namespace locus::m
