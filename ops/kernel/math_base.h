// What the scalar mathematics of math.h is made of: constants, signs, choices, fma, and the
// functions that are CUDA's on the device and libm's on the host.
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
#define LOCUS_F32(name) \
  LOCUS_HD float name(float x) { return LOCUS_LIBM(name##f)(x); }
#define LOCUS_F64(name) \
  LOCUS_HD double name(double x) { return LOCUS_LIBM(name)(x); }
#define LOCUS_FLOATS(name) LOCUS_F32(name) LOCUS_F64(name)
LOCUS_FLOATS(sqrt)
LOCUS_FLOATS(floor)
LOCUS_FLOATS(ceil)
LOCUS_FLOATS(trunc)
LOCUS_FLOATS(rint)
LOCUS_FLOATS(round)
LOCUS_F64(sin)
LOCUS_F64(cos)
LOCUS_F64(tan)
LOCUS_F64(asin)
LOCUS_F64(acos)
LOCUS_F64(atan)
LOCUS_F64(acosh)
LOCUS_F64(atanh)
LOCUS_F64(log2)
LOCUS_F64(log10)
LOCUS_F64(erf)
LOCUS_HD double pow(double x, double y) { return LOCUS_LIBM(pow)(x, y); }
LOCUS_HD float fmod(float x, float y) { return LOCUS_LIBM(fmodf)(x, y); }
LOCUS_HD double fmod(double x, double y) { return LOCUS_LIBM(fmod)(x, y); }
LOCUS_HD float scale(float x, int n) { return LOCUS_LIBM(ldexpf)(x, n); }
LOCUS_HD double scale(double x, int n) { return LOCUS_LIBM(ldexp)(x, n); }
// The host computes these itself: math_exp.h, math_f32.h.
#ifdef __CUDA_ARCH__
LOCUS_FLOATS(exp)
LOCUS_FLOATS(exp2)
LOCUS_FLOATS(expm1)
LOCUS_FLOATS(log)
LOCUS_FLOATS(log1p)
LOCUS_FLOATS(sinh)
LOCUS_FLOATS(cosh)
LOCUS_FLOATS(tanh)
LOCUS_FLOATS(asinh)
LOCUS_FLOATS(cbrt)
LOCUS_F32(sin)
LOCUS_F32(cos)
LOCUS_F32(tan)
LOCUS_F32(asin)
LOCUS_F32(acos)
LOCUS_F32(atan)
LOCUS_F32(acosh)
LOCUS_F32(atanh)
LOCUS_F32(log2)
LOCUS_F32(log10)
LOCUS_F32(erf)
LOCUS_HD float pow(float x, float y) { return ::powf(x, y); }
#endif
#undef LOCUS_F32
#undef LOCUS_F64
#undef LOCUS_FLOATS
#undef LOCUS_LIBM

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

}  // namespace locus::m
