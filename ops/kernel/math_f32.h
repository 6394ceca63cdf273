// f32 functions for the host, computed in f64 and rounded once: within 0.51 ulp. Branch-free, so
// that compilers vectorize them. On a GPU they are CUDA's.
#pragma once

#include <locus/ops/kernel/math_exp.h>

namespace locus::m {
namespace f32 {

// x = k pi/2 + r with |r| at most pi/4, for |x| below 2^28: the first part of pi/2 has 25 bits, so
// that its product with k is exact.
LOCUS_HD double quarter_turns(double x, uint64_t& k) {
  const double shifter = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer
  const double t = fma(x, 0.63661977236758134, shifter), n = t - shifter;
  k = double_bits(t);
  return fma(n, -1.58932547735281966916e-08, fma(n, -1.57079631090164184570, x));
}
// musl's polynomials for |r| up to pi/4.
LOCUS_HD double sin_near_0(double r) {
  const double z = r * r;
  double p = fma(2.7183114939898219e-06, z, -1.9839334836096632e-04);
  p = fma(p, z, 8.3333293858894632e-03);
  p = fma(p, z, -1.6666666641626524e-01);
  return r * fma(p, z, 1.0);
}
LOCUS_HD double cos_near_0(double r) {
  const double z = r * r;
  double p = fma(2.4390448796277409e-05, z, -1.3886763774609929e-03);
  p = fma(p, z, 4.1666623323739063e-02);
  p = fma(p, z, -4.9999999725103100e-01);
  return fma(p, z, 1.0);
}
// sin(x + quarters pi/2)
LOCUS_HD double sin_after(double x, uint64_t quarters) {
  uint64_t k;
  const double r = quarter_turns(x, k);
  k += quarters;
  const double y = (k & 1) != 0 ? cos_near_0(r) : sin_near_0(r);
  return bits_double(double_bits(y) ^ (k & 2) << 62);
}
LOCUS_HD float sin(float x) { return static_cast<float>(sin_after(x, 0)); }
LOCUS_HD float cos(float x) { return static_cast<float>(sin_after(x, 1)); }
LOCUS_HD float tan(float x) {
  uint64_t k;
  const double r = quarter_turns(x, k), s = sin_near_0(r), c = cos_near_0(r);
  const bool odd = (k & 1) != 0;
  return static_cast<float>((odd ? -c : s) / (odd ? s : c));
}
// Whether sin, cos and tan above take x.
LOCUS_HD bool turns_quickly(float x) { return !(abs(x) >= 268435456.0f); }

// tan(pi/8) and tan(3 pi/8) part three ranges. Each is brought near 0, where one polynomial serves.
LOCUS_HD float atan(float x) {
  const double a = abs(static_cast<double>(x));
  const bool middle = a > 0.41421356237309503, large = a > 2.4142135623730949;
  const double over = large ? -1.0 : middle ? a - 1.0 : a;
  const double under = large ? a : middle ? a + 1.0 : 1.0;
  const double base = large ? 1.5707963267948966 : middle ? 0.78539816339744828 : 0.0;
  const double t = over / under, z = t * t;
  double p = fma(4.7484593354131814e-02, z, -8.4785284718698696e-02);
  p = fma(p, z, 1.1045122303788577e-01);
  p = fma(p, z, -1.4282044997296811e-01);
  p = fma(p, z, 1.9999905307926167e-01);
  p = fma(p, z, -3.3333332516074331e-01);
  const double y = base + fma(p * z, t, t);
  return copysign(static_cast<float>(y), x);
}

// asin(t) for |t| up to 1/2. Beyond, asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)).
LOCUS_HD double asin_near_0(double t) {
  const double z = t * t;
  double p = fma(3.4689460535773913e-02, z, 7.4726003808121827e-03);
  p = fma(p, z, 2.4617040917442675e-02);
  p = fma(p, z, 3.0110494825308400e-02);
  p = fma(p, z, 4.4660141742971776e-02);
  p = fma(p, z, 7.4999482435127724e-02);
  p = fma(p, z, 1.6666667188696341e-01);
  return fma(p * z, t, t);
}
LOCUS_HD float asin(float x) {
  const double a = abs(static_cast<double>(x));
  const bool large = a > 0.5;
  const double t = large ? sqrt(0.5 - 0.5 * a) : a, y = asin_near_0(t);
  return copysign(static_cast<float>(large ? 1.5707963267948966 - 2.0 * y : y), x);
}
LOCUS_HD float acos(float x) {
  const double v = x, a = abs(v);
  const bool large = a > 0.5;
  const double t = large ? sqrt(0.5 - 0.5 * a) : v, y = asin_near_0(t), turned = 2.0 * y;
  const double far = v < 0.0 ? 3.1415926535897931 - turned : turned;
  return static_cast<float>(large ? far : 1.5707963267948966 - y);
}

// x = 2^k (1 + t); log(1 + t) within 2^-33, for normal x > 0.
LOCUS_HD double log_near_1(double x, double& k) {
  const double t = beside_power(x, k);
  double p = fma(-5.9943381300716653e-02, t, 1.0727198876544357e-01);
  p = fma(p, t, -1.0870481438621537e-01);
  p = fma(p, t, 1.1021036815666354e-01);
  p = fma(p, t, -1.2412640214813657e-01);
  p = fma(p, t, 1.4285703767042547e-01);
  p = fma(p, t, -1.6670328206528963e-01);
  p = fma(p, t, 2.0000096212394598e-01);
  p = fma(p, t, -2.4999938093195827e-01);
  p = fma(p, t, 3.3333331986333923e-01);
  p = fma(p, t, -5.0000000284365166e-01);
  return fma(p * t, t, t);
}
LOCUS_HD double log(double x) {
  double k;
  const double r = log_near_1(x, k);
  return log_or_end(x, fma(k, 0.69314718055994531, r));
}
LOCUS_HD float log2(float x) {
  double k;
  const double r = log_near_1(x, k);
  return static_cast<float>(log_or_end(x, fma(r, 1.4426950408889634, k)));
}
LOCUS_HD float log10(float x) {
  double k;
  const double r = log_near_1(x, k);
  return static_cast<float>(log_or_end(x, fma(k, 0.30102999566398120, r * 0.43429448190325183)));
}

// Below this, differences and logarithms lose digits; sums of powers of x replace them.
constexpr double kNear0 = 0.03;
LOCUS_HD float sinh(float x) {
  const double a = abs(static_cast<double>(x)), z = a * a, e = m::exp(a);
  const double near = fma(z * a, fma(z, 0.0083333333333333332, 0.16666666666666666), a);
  return copysign(static_cast<float>(a < kNear0 ? near : 0.5 * e - 0.5 / e), x);
}
LOCUS_HD float cosh(float x) {
  const double e = m::exp(abs(static_cast<double>(x)));
  return static_cast<float>(0.5 * e + 0.5 / e);
}
LOCUS_HD float asinh(float x) {
  const double a = abs(static_cast<double>(x)), z = a * a;
  const double near = fma(z * a, fma(z, 0.075, -0.16666666666666666), a);
  return copysign(static_cast<float>(a < kNear0 ? near : log(a + sqrt(z + 1.0))), x);
}
LOCUS_HD float acosh(float x) {
  const double v = x;
  return static_cast<float>(v < 1.0 ? nan(v) : log(v + sqrt((v - 1.0) * (v + 1.0))));
}
LOCUS_HD float atanh(float x) {
  const double a = abs(static_cast<double>(x)), z = a * a;
  const double near = fma(z * a, fma(z, fma(z, 0.14285714285714285, 0.2), 0.33333333333333331), a);
  return copysign(static_cast<float>(a < kNear0 ? near : 0.5 * log((1.0 + a) / (1.0 - a))), x);
}
LOCUS_HD float cbrt(float x) {
  const double a = abs(static_cast<double>(x)), y = inverse_cube_root(a), r = a * y * y;
  return copysign(static_cast<float>(a == 0.0 || a == infinity(a) ? a : r), x);
}
// x^y for finite x > 0 and finite y.
LOCUS_HD float pow(float x, float y) {
  return static_cast<float>(m::exp2(y * (log_of_normal(x, false) * 1.4426950408889634)));
}
LOCUS_HD bool powers_quickly(float x, float y) {
  return (x > 0.0f) & (x < infinity(x)) & (abs(y) < infinity(y));
}

}  // namespace f32

#ifndef __CUDA_ARCH__
LOCUS_HD float sin(float x) { return f32::turns_quickly(x) ? f32::sin(x) : __builtin_sinf(x); }
LOCUS_HD float cos(float x) { return f32::turns_quickly(x) ? f32::cos(x) : __builtin_cosf(x); }
LOCUS_HD float tan(float x) { return f32::turns_quickly(x) ? f32::tan(x) : __builtin_tanf(x); }
LOCUS_HD float pow(float x, float y) {
  return f32::powers_quickly(x, y) ? f32::pow(x, y) : __builtin_powf(x, y);
}
using f32::acosh, f32::atanh, f32::cbrt;
using f32::asin, f32::acos, f32::atan, f32::log2, f32::log10, f32::sinh, f32::cosh, f32::asinh;
#endif

}  // namespace locus::m
