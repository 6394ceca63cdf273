// Exponential functions, their inverses, erf and cube roots, for the host: branch-free, so that
// compilers vectorize them. On a GPU they are CUDA's.
#pragma once

#include <locus/ops/kernel/math_base.h>

namespace locus::m {

#ifndef __CUDA_ARCH__

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

// e^r - 1 and the power 2^n of e^x = e^r 2^n, with |r| below 0.35. The polynomial is within 1e-18.
LOCUS_HD double exp_rest(double r) {
  // In pairs, for shorter dependency chains.
  const double z = r * r, y = z * z;
  const double a = fma(0.16666666666666669, r, 0.5);
  const double b = fma(0.008333333333330051, r, 0.041666666666666664);
  const double c = fma(0.00019841269863105968, r, 0.0013888888888886545);
  const double d = fma(2.7557268378684192e-06, r, 2.4801587317181886e-05);
  const double f = fma(2.5100424157005067e-08, r, 2.755728291148268e-07);
  const double g = fma(2.0911264239196083e-09, z, f);
  const double p = fma(fma(g, y, fma(d, z, c)), y, fma(b, z, a));
  return fma(p, z, r);
}
// e 2^n for t = n + 1.5 2^52, in two steps as in f32.
LOCUS_HD double times_power(double e, double t) {
  // n + 2048 is not negative, so the shift is unsigned.
  const uint64_t n = double_bits(t) - 0x4338000000000000u + 2048, half = n >> 1, rest = n - half;
  return e * bits_double((half - 1) << 52) * bits_double((rest - 1) << 52);
}
// x = n ln2 + r, t = n + 1.5 2^52. Beyond [low, high] it takes the end.
LOCUS_HD double exp_reduced(double x, double low, double high, double& t) {
  const double shifter = 6755399441055744.0;  // 1.5 * 2^52
  double v = x > high ? high : x;
  v = v < low ? low : v;
  t = fma(v, 1.4426950408889634, shifter);
  const double k = t - shifter;
  return fma(k, -1.42860682030941723212e-6, fma(k, -6.93145751953125e-1, v));
}
LOCUS_HD double exp(double x) {
  double t;
  const double r = exp_reduced(x, -746.0, 710.0, t);
  return times_power(exp_rest(r) + 1.0, t);
}
LOCUS_HD double exp2(double x) {
  double v = x > 1025.0 ? 1025.0 : x;
  v = v < -1076.0 ? -1076.0 : v;
  const double shifter = 6755399441055744.0, t = v + shifter;
  return times_power(exp_rest((v - (t - shifter)) * 0.69314718055994531) + 1.0, t);
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
  return u == 0.0f || u == infinity(x) ? log(u) : x == 0.0f ? x : r;
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
  const float r = v * (p / q);  // off by an ulp or two where it is nearly 1
  return r > 1.0f ? 1.0f : r < -1.0f ? -1.0f : r;
}

#endif

// f and k of x = 2^k (1 + f), with 1 + f from sqrt(1/2) to sqrt(2), for normal x > 0.
LOCUS_HD double beside_power(double x, double& k) {
  const uint64_t root = 0x3fe6a09e667f3bcdu, bits = double_bits(x) - root;  // sqrt(1/2)
  // 2^52 + 2048 + the exponent: AVX2 has no signed shift of 64 bits.
  const uint64_t exponent = ((bits + (uint64_t{2048} << 52)) >> 52) | 0x4330000000000000u;
  k = bits_double(exponent) - 4503599627372544.0;
  return bits_double((bits & 0xfffffffffffffu) + root) - 1.0;
}
// log(x) for normal x > 0, by fdlibm's polynomials. `scaled`: x has 54 powers of 2 too many.
LOCUS_HD double log_of_normal(double x, bool scaled) {
  double k;
  const double f = beside_power(x, k);
  k -= scaled ? 54.0 : 0.0;
  const double half = 0.5 * f * f, s = f / (2.0 + f), z = s * s, w = z * z;
  const double a = fma(fma(0.15313837699209373, w, 0.22222198432149784), w, 0.39999999999409419);
  double b = fma(0.14798198605116586, w, 0.18183572161618050);
  b = fma(fma(b, w, 0.28571428743662391), w, 0.66666666666667351);
  const double p = fma(s, half + fma(a, w, b * z), k * 1.90821492927058770002e-10);
  return fma(k, 6.93147180369123816490e-01, f - (half - p));
}
// r, or what log(x) is where x is not a finite number above 0.
LOCUS_HD double log_or_end(double x, double r) {
  r = x == infinity(x) ? x : r;
  r = x == 0.0 ? -infinity(x) : r;
  return x < 0.0 || x != x ? nan(x) : r;
}

// A step of Newton's method (of third order) towards x^(-1/3).
LOCUS_HD double nearer_root(double x, double y) {
  const double e = fma(-x * y, y * y, 1.0);
  return fma(y * e, fma(e, 0.22222222222222221, 0.33333333333333331), y);
}
// x^(-1/3) for normal x > 0, within 2^-50. Its upper bits are a constant less a third of x's.
LOCUS_HD double inverse_cube_root(double x) {
  const double whole = 4503599627370496.0;  // 2^52: adding it rounds to an integer, in the low bits
  const double bits = bits_double((double_bits(x) >> 32) | 0x4330000000000000u) - whole;
  const double start = 1430188164.0 - bits * 0.33333333333333331;
  const double y = bits_double(double_bits(start + whole) << 32);
  return nearer_root(x, nearer_root(x, nearer_root(x, y)));
}

#ifndef __CUDA_ARCH__
// f64: fdlibm's ways. sinh and cosh are within 3.5 ulp, the others within 3.
LOCUS_HD double log(double x) {
  const bool tiny = x < 2.2250738585072014e-308;
  return log_or_end(x, log_of_normal(tiny ? x * 18014398509481984.0 : x, tiny));
}
LOCUS_HD double log1p(double x) {
  const double u = 1.0 + x, r = log(u) + (x - (u - 1.0)) / u;
  return u == 0.0 || u == infinity(x) ? log(u) : x == 0.0 ? x : r;
}
LOCUS_HD double expm1(double x) {
  double t;
  const double p = exp_rest(exp_reduced(x, -40.0, 40.0, t)), power = times_power(1.0, t);
  const double small = fma(p, power, power - 1.0);
  return x > 40.0 ? exp(x) : x == 0.0 ? x : small;
}
LOCUS_HD double tanh(double x) {
  const double a = abs(x), e = expm1(a > 22.0 ? 44.0 : a + a);
  const bool large = a > 1.0;
  const double q = (large ? 2.0 : e) / (e + 2.0);
  return copysign(large ? 1.0 - q : q, x);
}
// (e^a - e^-a) / 2. From 22 on it is e^a / 2, as a product that overflows no earlier than sinh.
LOCUS_HD double sinh(double x) {
  const double a = abs(x), e = expm1(a > 22.0 ? 22.0 : a), h = exp(0.5 * a);
  return copysign(a > 22.0 ? 0.5 * h * h : 0.5 * (e + e / (e + 1.0)), x);
}
LOCUS_HD double cosh(double x) {
  const double a = abs(x), h = exp(0.5 * a), e = h * h;
  return a > 22.0 ? 0.5 * h * h : 0.5 * e + 0.5 / e;
}
LOCUS_HD double asinh(double x) {
  const double a = abs(x), z = a * a;
  const bool large = a > 268435456.0;
  const double r = log1p(large ? a - 1.0 : a + z / (1.0 + sqrt(z + 1.0)));
  return copysign(large ? r + 0.69314718055994531 : r, x);
}
// A root within 2^-50. Its upper 22 bits, t, have an exact square; a step of Newton's method from t
// gives the root within 0.67 ulp.
LOCUS_HD double cbrt(double x) {
  const double a = abs(x);
  const bool tiny = a < 2.2250738585072014e-308;
  const double v = tiny ? a * 18014398509481984.0 : a, y = inverse_cube_root(v), near = v * y * y;
  const double t = bits_double(double_bits(near) & 0xffffffffc0000000u), r = v / (t * t);
  double root = fma(t, (r - t) / (t + t + r), t);
  root = tiny ? root * 3.814697265625e-06 : root;
  return copysign(a == 0.0 || !(a < infinity(a)) ? a : root, x);
}
#endif

}  // namespace locus::m
