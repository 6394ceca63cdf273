// Scalar mathematics, written once for the host and for device code.
//
// On a GPU these are CUDA's functions. On the host, most are branch-free polynomials, which
// compilers vectorize: f32 exp, exp2, log, log1p, expm1 and tanh (Cephes) are within 2 ulp, erf
// (Eigen) within 8, the others of f32 within 0.51 (math_f32.h); f64 functions are within 3.5
// (math_exp.h). The rest, and angles above 2^28, are libm's. An element gets the same bits alone
// and in a vector. IEEE's special cases hold: NaN in, NaN out; exp(-inf) = 0; log(0) = -inf;
// nothing overflows into NaN. Integers wrap.
#pragma once

#include <locus/ops/kernel/math_f32.h>

namespace locus::m {

// 1 / (1 + exp(-x)), exact to rounding on both sides of 0: never 1 - (something near 1).
template <class V>
LOCUS_HD V sigmoid(V x) {
  const V e = exp(-abs(x));
  const V p = c(x, 1) / (c(x, 1) + e);
  return x < c(x, 0) ? e * p : p;
}

// sqrt(x^2 + y^2) without overflow of the squares.
template <class V>
LOCUS_HD V hypot(V x, V y) {
  const V a = abs(x), b = abs(y), top = max(a, b), rest = min(a, b), part = rest / top;
  const V end = infinity(x);
  const bool infinite = (a == end) | (b == end);  // also with NaN
  return infinite ? end : rest == 0 ? top : top * sqrt(fma(part, part, c(x, 1)));
}

// Integers: two's complement, as in NumPy.
template <class V>
LOCUS_HD V add(V x, V y) {
  if constexpr (kFloating<V>)
    return x + y;
  else if constexpr (kSame<V, bool>)
    return x || y;
  else
    return static_cast<V>(static_cast<Wrap<V>>(x) + static_cast<Wrap<V>>(y));
}
template <class V>
LOCUS_HD V subtract(V x, V y) {
  if constexpr (kFloating<V>)
    return x - y;
  else
    return static_cast<V>(static_cast<Wrap<V>>(x) - static_cast<Wrap<V>>(y));
}
template <class V>
LOCUS_HD V negative(V x) {
  if constexpr (kFloating<V>)
    return -x;
  else
    return subtract(V(0), x);
}
template <class V>
LOCUS_HD V multiply(V x, V y) {
  if constexpr (kFloating<V>)
    return x * y;
  else if constexpr (kSame<V, bool>)
    return x && y;
  else
    return static_cast<V>(static_cast<Wrap<V>>(x) * static_cast<Wrap<V>>(y));
}
// Integers to a negative power: 1 / x^-y cut to an integer (0 for x = 0).
template <class V>
LOCUS_HD V power(V x, V y) {
  if constexpr (kFloating<V>) {
    return pow(x, y);
  } else {
    if constexpr (kSigned<V>) {
      if (y < 0) return static_cast<V>(x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0);
    }
    Wrap<V> base = static_cast<Wrap<V>>(x), result = 1;
    for (V e = y; e != 0; e = static_cast<V>(e >> 1)) {
      if (e & 1) result *= base;
      base *= base;
    }
    return static_cast<V>(result);
  }
}

// x 2^e, rounded once if e is an integer. 0 and infinities stay.
template <class V>
LOCUS_HD V ldexp(V x, V e) {
  if (x + x == x && e == e) return x;
  if (e != rint(e)) return x * pow(c(x, 2), e);
  const V most = c(e, 9999);
  return scale(x, static_cast<int>(e > most ? most : e < -most ? -most : e));
}
// Whether 2^e is a whole power of 2 and a normal number.
LOCUS_HD bool scales_quickly(float e) { return (e == rint(e)) & (abs(e) <= 126.0f); }
LOCUS_HD bool scales_quickly(double e) { return (e == rint(e)) & (abs(e) <= 1022.0); }
LOCUS_HD float power_of_2(float e) {
  return bits_float((float_bits(e + 12582912.0f) + 127) << 23);  // the low bits of 1.5 * 2^23 are 0
}
LOCUS_HD double power_of_2(double e) {
  return bits_double((double_bits(e + 6755399441055744.0) + 1023) << 52);
}
// x log y. If x is 0, the result is 0 unless y is NaN.
template <class V>
LOCUS_HD V xlogy(V x, V y) {
  return x == c(x, 0) && y == y ? c(x, 0) : x * log(y);
}

}  // namespace locus::m
