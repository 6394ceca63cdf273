// Scalar mathematics, written once for the host and for device code.
//
// On a GPU these are CUDA's functions. On the host, f32 exp, exp2, log, tanh, sigmoid and erf and
// f64 exp and exp2 are branch-free polynomials, which compilers vectorize. Cephes' expf, logf and
// tanhf are within 2 ulp, f64 exp within 1, erf (Eigen's rational function) within 8. The rest is
// libm. An element gets the same bits alone and in a vector. IEEE's special cases hold: NaN in, NaN
// out; exp(-inf) = 0; log(0) = -inf; nothing overflows into NaN. Integers wrap.
#pragma once

#include <locus/ops/kernel/cast.h>

namespace locus::m {

// A constant in x's own type: `0.5 * x` would compute f32 in f64.
template <class V>
LOCUS_HD V c(const V&, double value) {
  return static_cast<V>(value);
}

LOCUS_HD float infinity(float) { return bits_float(0x7f800000u); }
LOCUS_HD float nan(float) { return bits_float(0x7fc00000u); }
LOCUS_HD double infinity(double) { return bits_double(0x7ff0000000000000u); }
LOCUS_HD double nan(double) { return infinity(1.0) - infinity(1.0); }

// NaN if either is.
template <class V>
LOCUS_HD V max(V a, V b) {
  return a > b || a != a ? a : b;
}
template <class V>
LOCUS_HD V min(V a, V b) {
  return a < b || a != a ? a : b;
}
template <class V>
LOCUS_HD V abs(V x) {
  if constexpr (kSame<V, float>)
    return bits_float(float_bits(x) & 0x7fffffffu);
  else if constexpr (kSame<V, double>)
    return bits_double(double_bits(x) & 0x7fffffffffffffffu);
  else if constexpr (kSigned<V>)
    return static_cast<V>(x < 0 ? Wrap<V>(0) - static_cast<Wrap<V>>(x) : static_cast<Wrap<V>>(x));
  else
    return x;
}
LOCUS_HD float copysign(float magnitude, float sign) {
  return bits_float((float_bits(magnitude) & 0x7fffffffu) | (float_bits(sign) & 0x80000000u));
}
LOCUS_HD double copysign(double magnitude, double sign) {
  return bits_double((double_bits(magnitude) & 0x7fffffffffffffffu) |
                     (double_bits(sign) & 0x8000000000000000u));
}

// mask ? x : y without a branch, because a CPU would mispredict irregular masks.
template <class V>
LOCUS_HD V choose(bool mask, V x, V y) {
  if constexpr (kSame<V, float>) {
    return bits_float(choose(mask, float_bits(x), float_bits(y)));
  } else if constexpr (kSame<V, double>) {
    return bits_double(choose(mask, double_bits(x), double_bits(y)));
  } else {
    const auto from = static_cast<Wrap<V>>(x), to = static_cast<Wrap<V>>(y);
    return static_cast<V>(to ^ ((from ^ to) & (Wrap<V>(0) - static_cast<Wrap<V>>(mask))));
  }
}
// a * b + c, rounded once if the machine has fma.
LOCUS_HD float fma(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return ::fmaf(a, b, c);
#elif defined(__FMA__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
LOCUS_HD double fma(double a, double b, double c) {
#if defined(__CUDA_ARCH__)
  return ::fma(a, b, c);
#elif defined(__FMA__)
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}

// CUDA's function on the device, libm's on the host. Not std::name, whose inline overloads would be
// shared between instruction sets.
#ifdef __CUDA_ARCH__
#define LOCUS_LIBM(name) ::name
#else
#define LOCUS_LIBM(name) __builtin_##name
#endif
#define LOCUS_M64(name) \
  LOCUS_HD double name(double x) { return LOCUS_LIBM(name)(x); }
#define LOCUS_M(name) \
  LOCUS_M64(name)     \
  LOCUS_HD float name(float x) { return LOCUS_LIBM(name##f)(x); }
LOCUS_M(sqrt)
LOCUS_M(floor)
LOCUS_M(ceil)
LOCUS_M(trunc)
LOCUS_M(rint)
LOCUS_M(round)
LOCUS_M(cbrt)
LOCUS_M(sin)
LOCUS_M(cos)
LOCUS_M(tan)
LOCUS_M(asin)
LOCUS_M(acos)
LOCUS_M(atan)
LOCUS_M(sinh)
LOCUS_M(cosh)
LOCUS_M(asinh)
LOCUS_M(acosh)
LOCUS_M(atanh)
LOCUS_M(log2)
LOCUS_M(log10)
// The identity for integers.
#define LOCUS_WHOLE(name) \
  template <class V>      \
  requires(!kFloating<V>) LOCUS_HD V name(V x) { return x; }
LOCUS_WHOLE(floor)
LOCUS_WHOLE(ceil)
LOCUS_WHOLE(trunc)
LOCUS_WHOLE(rint)
LOCUS_WHOLE(round)
#undef LOCUS_WHOLE
LOCUS_HD float pow(float x, float y) { return LOCUS_LIBM(powf)(x, y); }
LOCUS_HD double pow(double x, double y) { return LOCUS_LIBM(pow)(x, y); }
LOCUS_HD float fmod(float x, float y) { return LOCUS_LIBM(fmodf)(x, y); }
LOCUS_HD double fmod(double x, double y) { return LOCUS_LIBM(fmod)(x, y); }
LOCUS_HD float scale(float x, int n) { return LOCUS_LIBM(ldexpf)(x, n); }
LOCUS_HD double scale(double x, int n) { return LOCUS_LIBM(ldexp)(x, n); }

#ifdef __CUDA_ARCH__
LOCUS_M(exp)
LOCUS_M(exp2)
LOCUS_M(expm1)
LOCUS_M(log)
LOCUS_M(log1p)
LOCUS_M(tanh)
LOCUS_M(erf)
#else
LOCUS_M64(expm1)
LOCUS_M64(log)
LOCUS_M64(log1p)
LOCUS_M64(tanh)
LOCUS_M64(erf)

// exp(r) - 1 for |r| below 0.35.
LOCUS_HD float exp_near_0(float r) {
  float p = fma(1.9875691500e-4f, r, 1.3981999507e-3f);
  p = fma(p, r, 8.3334519073e-3f);
  p = fma(p, r, 4.1665795894e-2f);
  p = fma(p, r, 1.6666665459e-1f);
  p = fma(p, r, 5.0000001201e-1f);
  return fma(p * r, r, r);
}
// p 2^n in two steps, because one would overflow the exponent near the ends of the range.
LOCUS_HD float times_power(float p, int32_t n) {
  const int32_t half = n >> 1, rest = n - half;
  return p * bits_float(static_cast<uint32_t>(half + 127) << 23) *
         bits_float(static_cast<uint32_t>(rest + 127) << 23);
}

// exp(r) - 1 with x = n ln2 + r. Comparisons keep NaN.
LOCUS_HD float exp_rest(float x, int32_t& n) {
  const float shifter = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float t = fma(x, 1.44269504f, shifter);
  n = static_cast<int32_t>(float_bits(t) - float_bits(shifter));
  const float k = t - shifter;
  float r = fma(k, -0.693359375f, x);
  r = fma(k, 2.12194440e-4f, r);
  return exp_near_0(r);
}

LOCUS_HD float exp(float x) {
  float v = x > 89.0f ? 89.0f : x;
  v = v < -104.0f ? -104.0f : v;
  int32_t n;
  const float p = exp_rest(v, n) + 1.0f;
  return times_power(p, n);
}
LOCUS_HD float exp2(float x) {
  const float shifter = 12582912.0f;
  float v = x > 129.0f ? 129.0f : x;
  v = v < -151.0f ? -151.0f : v;
  const float t = v + shifter;
  const int32_t n = static_cast<int32_t>(float_bits(t) - float_bits(shifter));
  return times_power(exp_near_0((v - (t - shifter)) * 0.693147181f) + 1.0f, n);
}

// exp(r) 2^n for |r| below 0.35 and t = n + 1.5 2^52. The polynomial is within 1e-18 of exp(r).
LOCUS_HD double exp_times_power(double r, double t) {
  const double shifter = 6755399441055744.0;  // 1.5 * 2^52
  // In pairs, for shorter dependency chains.
  const double z = r * r, y = z * z;
  const double a = fma(0.16666666666666669, r, 0.5);
  const double b = fma(0.008333333333330051, r, 0.041666666666666664);
  const double c = fma(0.00019841269863105968, r, 0.0013888888888886545);
  const double d = fma(2.7557268378684192e-06, r, 2.4801587317181886e-05);
  const double f = fma(2.5100424157005067e-08, r, 2.755728291148268e-07);
  const double g = fma(2.0911264239196083e-09, z, f);
  const double p = fma(fma(g, y, fma(d, z, c)), y, fma(b, z, a));
  const double e = fma(p, z, r) + 1.0;
  // Two steps as in f32. n + 2048 is not negative, so the shift is unsigned.
  const uint64_t n = double_bits(t) - double_bits(shifter) + 2048, half = n >> 1, rest = n - half;
  return e * bits_double((half - 1) << 52) * bits_double((rest - 1) << 52);
}
LOCUS_HD double exp(double x) {
  double v = x > 710.0 ? 710.0 : x;
  v = v < -746.0 ? -746.0 : v;
  const double shifter = 6755399441055744.0;
  const double t = fma(v, 1.4426950408889634, shifter), k = t - shifter;
  const double r = fma(k, -6.93145751953125e-1, v);
  return exp_times_power(fma(k, -1.42860682030941723212e-6, r), t);
}
LOCUS_HD double exp2(double x) {
  double v = x > 1025.0 ? 1025.0 : x;
  v = v < -1076.0 ? -1076.0 : v;
  const double shifter = 6755399441055744.0, t = v + shifter;
  return exp_times_power((v - (t - shifter)) * 0.69314718055994531, t);
}

LOCUS_HD float log(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const uint32_t bits = float_bits(tiny ? x * 8388608.0f : x);
  float e = static_cast<float>(static_cast<int32_t>((bits >> 23) & 255u) - 126);
  e = tiny ? e - 23.0f : e;
  float f = bits_float((bits & 0x7fffffu) | 0x3f000000u);  // in [0.5, 1)
  const bool low = f < 0.707106781f;
  e = low ? e - 1.0f : e;
  f = (low ? f + f : f) - 1.0f;
  const float z = f * f;
  float p = fma(7.0376836292e-2f, f, -1.1514610310e-1f);
  p = fma(p, f, 1.1676998740e-1f);
  p = fma(p, f, -1.2420140846e-1f);
  p = fma(p, f, 1.4249322787e-1f);
  p = fma(p, f, -1.6668057665e-1f);
  p = fma(p, f, 2.0000714765e-1f);
  p = fma(p, f, -2.4999993993e-1f);
  p = fma(p, f, 3.3333331174e-1f);
  p = p * f * z;
  p = fma(e, -2.12194440e-4f, p);
  p = fma(z, -0.5f, p);
  float r = fma(e, 0.693359375f, f + p);
  r = x == infinity(x) ? x : r;
  r = x == 0.0f ? -infinity(x) : r;
  return x < 0.0f || x != x ? nan(x) : r;
}

// log of the rounded sum, corrected for the rounding error.
LOCUS_HD float log1p(float x) {
  const float u = 1.0f + x, r = log(u) + (x - (u - 1.0f)) / u;
  return u == 0.0f || u == infinity(x) ? log(u) : r;
}

// 2^n (exp(r) - 1) + (2^n - 1) with x = n ln2 + r, if that cannot overflow.
LOCUS_HD float expm1(float x) {
  int32_t n;
  const float p = exp_rest(x > 16.0f ? 16.0f : x < -18.0f ? -18.0f : x, n);
  const float power = bits_float(static_cast<uint32_t>(n + 127) << 23);
  const float small = fma(p, power, power - 1.0f);
  return x > 16.0f ? exp(x) : x == 0.0f ? x : small;
}

LOCUS_HD float tanh(float x) {
  const float a = abs(x), z = x * x;
  const float large = 1.0f - 2.0f / (exp(a + a) + 1.0f);
  float p = fma(-5.70498872745e-3f, z, 2.06390887954e-2f);
  p = fma(p, z, -5.37397155531e-2f);
  p = fma(p, z, 1.33314422036e-1f);
  p = fma(p, z, -3.33332819422e-1f);
  return copysign(a < 0.625f ? fma(p * z, x, x) : large, x);
}

LOCUS_HD float erf(float x) {
  float v = x > 4.0f ? 4.0f : x;
  v = v < -4.0f ? -4.0f : v;
  const float z = v * v;
  float p = fma(-2.72614225801306e-10f, z, 2.77068142495902e-08f);
  p = fma(p, z, -2.10102402082508e-06f);
  p = fma(p, z, -5.69250639462346e-05f);
  p = fma(p, z, -7.34990630326855e-04f);
  p = fma(p, z, -2.95459980854025e-03f);
  p = fma(p, z, -1.60960333262415e-02f);
  float q = fma(-1.45660718464996e-05f, z, -2.13374055278905e-04f);
  q = fma(q, z, -1.68282697438203e-03f);
  q = fma(q, z, -7.37332916720468e-03f);
  q = fma(q, z, -1.42647390514189e-02f);
  const float r = v * p / q;  // off by an ulp or two where it is nearly 1
  return r > 1.0f ? 1.0f : r < -1.0f ? -1.0f : r;
}
#endif
#undef LOCUS_M
#undef LOCUS_M64
#undef LOCUS_LIBM

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
