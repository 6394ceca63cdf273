// The functions that the body of a kernel may call on the host, with CUDA's names. On GPUs most are
// CUDA's own, which has more: calls with operands of several types may be ambiguous there. min,
// max, fmin and fmax ignore a NaN if the other is none, as in CUDA. Free of the standard library.
#pragma once

#include <locus/ops/kernel/math.h>

namespace locus::names {

template <class V>
concept Whole = requires(V v) {
  v | v;
};

// Of two operands: double if one is, or both are integers; else float.
template <class A, class B>
using Floating =
    If<kSame<decltype(A() + B() + 0.0f), float> && !(Whole<A> && Whole<B>), float, double>;
template <class T>
struct NotDeduced {
  using type = T;
};

// CUDA has the names with an f itself.
#ifdef __CUDACC__
#define LOCUS_F(name)
#define LOCUS_F2(name)
#else
#define LOCUS_F(name) \
  LOCUS_HD float name##f(float x) { return names::name(x); }
#define LOCUS_F2(name) \
  LOCUS_HD float name##f(float x, float y) { return names::name(x, y); }
#endif

// name and namef. Integers are computed in double, as in C++.
#define LOCUS_NAME_OF(name, of)                 \
  LOCUS_HD float name(float x) { return of; }   \
  LOCUS_HD double name(double x) { return of; } \
  template <Whole V>                            \
  LOCUS_HD double name(V x) {                   \
    return name(static_cast<double>(x));        \
  }                                             \
  LOCUS_F(name)
#define LOCUS_NAME(name) LOCUS_NAME_OF(name, m::name(x))
LOCUS_NAME(sqrt)
LOCUS_NAME(floor)
LOCUS_NAME(ceil)
LOCUS_NAME(trunc)
LOCUS_NAME(rint)
LOCUS_NAME(round)
LOCUS_NAME(cbrt)
LOCUS_NAME(sin)
LOCUS_NAME(cos)
LOCUS_NAME(tan)
LOCUS_NAME(asin)
LOCUS_NAME(acos)
LOCUS_NAME(atan)
LOCUS_NAME(sinh)
LOCUS_NAME(cosh)
LOCUS_NAME(tanh)
LOCUS_NAME(asinh)
LOCUS_NAME(acosh)
LOCUS_NAME(atanh)
LOCUS_NAME(exp)
LOCUS_NAME(expm1)
LOCUS_NAME(log)
LOCUS_NAME(log1p)
LOCUS_NAME(log2)
LOCUS_NAME(log10)
LOCUS_NAME(erf)
LOCUS_NAME_OF(fabs, m::abs(x))
#undef LOCUS_NAME

template <class V>
LOCUS_HD auto abs(V x) {
  return m::abs(+x);
}
template <class A, class B>
LOCUS_HD auto max(A a, B b) {
  using V = decltype(true ? +a : +b);
  const V x = static_cast<V>(a), y = static_cast<V>(b);
  return x > y || y != y ? x : y;
}
template <class A, class B>
LOCUS_HD auto min(A a, B b) {
  using V = decltype(true ? +a : +b);
  const V x = static_cast<V>(a), y = static_cast<V>(b);
  return x < y || y != y ? x : y;
}
#define LOCUS_NAME(name, of)                         \
  template <class A, class B>                        \
  LOCUS_HD auto name(A a, B b) {                     \
    using V = Floating<A, B>;                        \
    return of(static_cast<V>(a), static_cast<V>(b)); \
  }                                                  \
  LOCUS_F2(name)
LOCUS_NAME(pow, m::pow)
LOCUS_NAME(fmod, m::fmod)
LOCUS_NAME(copysign, m::copysign)
LOCUS_NAME(hypot, m::hypot)
LOCUS_NAME(fmax, names::max)
LOCUS_NAME(fmin, names::min)

#ifdef __CUDACC__
#undef LOCUS_NAME
#undef LOCUS_NAME_OF
#undef LOCUS_F
#undef LOCUS_F2
// CUDA's has no signed 64-bit integers.
template <class T>
__device__ __forceinline__ T atomicAdd(T* p, typename NotDeduced<T>::type v) {
  if constexpr (sizeof(T) == 8 && Whole<T>)
    return static_cast<T>(
        ::atomicAdd(reinterpret_cast<unsigned long long*>(p), static_cast<unsigned long long>(v)));
  else
    return ::atomicAdd(p, v);
}
}  // namespace locus::names
#else
// f32 and f64 of a function of the C library.
#define LOCUS_NAME_C(name) LOCUS_NAME_OF(name, name##_of(x))
#define LOCUS_C_OF(name)                                               \
  LOCUS_HD float name##_of(float x) { return __builtin_##name##f(x); } \
  LOCUS_HD double name##_of(double x) { return __builtin_##name(x); }
#define LOCUS_C(name) LOCUS_C_OF(name) LOCUS_NAME_C(name)
LOCUS_C(erfc)
LOCUS_C(exp2)
LOCUS_C(lgamma)
LOCUS_C(tgamma)
LOCUS_C(nearbyint)
LOCUS_C(logb)
#undef LOCUS_C
#undef LOCUS_C_OF
#undef LOCUS_NAME_C
LOCUS_NAME_OF(exp10, pow(10.0f, x))
LOCUS_NAME_OF(rsqrt, 1.0f / m::sqrt(x))
LOCUS_NAME_OF(rcbrt, 1.0f / m::cbrt(x))
#undef LOCUS_NAME_OF
LOCUS_HD float atan2_of(float y, float x) { return __builtin_atan2f(y, x); }
LOCUS_HD double atan2_of(double y, double x) { return __builtin_atan2(y, x); }
LOCUS_HD float remainder_of(float x, float y) { return __builtin_remainderf(x, y); }
LOCUS_HD double remainder_of(double x, double y) { return __builtin_remainder(x, y); }
LOCUS_HD float fdim_of(float x, float y) { return __builtin_fdimf(x, y); }
LOCUS_HD double fdim_of(double x, double y) { return __builtin_fdim(x, y); }
LOCUS_HD float nextafter_of(float x, float y) { return __builtin_nextafterf(x, y); }
LOCUS_HD double nextafter_of(double x, double y) { return __builtin_nextafter(x, y); }
LOCUS_NAME(atan2, atan2_of)
LOCUS_NAME(remainder, remainder_of)
LOCUS_NAME(fdim, fdim_of)
LOCUS_NAME(nextafter, nextafter_of)
#undef LOCUS_NAME
#undef LOCUS_F
#undef LOCUS_F2
LOCUS_HD float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
LOCUS_HD double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
LOCUS_HD float ldexp(float x, int e) { return m::scale(x, e); }
LOCUS_HD double ldexp(double x, int e) { return m::scale(x, e); }
template <class V>
LOCUS_HD bool isnan(V x) {
  return +x != +x;
}
template <class V>
LOCUS_HD bool isinf(V x) {
  const auto v = static_cast<Floating<V, V> >(x);
  return m::abs(v) == m::infinity(v);
}
template <class V>
LOCUS_HD bool isfinite(V x) {
  const auto v = static_cast<Floating<V, V> >(x);
  return m::abs(v) < m::infinity(v);
}
LOCUS_HD bool signbit(double x) { return double_bits(x) >> 63 != 0; }

LOCUS_HD float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
LOCUS_HD float ldexpf(float x, int e) { return m::scale(x, e); }
LOCUS_HD float __expf(float x) { return m::exp(x); }
LOCUS_HD float __logf(float x) { return m::log(x); }
LOCUS_HD float __sinf(float x) { return m::sin(x); }
LOCUS_HD float __cosf(float x) { return m::cos(x); }
LOCUS_HD float __powf(float x, float y) { return m::pow(x, y); }
LOCUS_HD float __fdividef(float x, float y) { return x / y; }
LOCUS_HD int __float_as_int(float x) { return static_cast<int>(float_bits(x)); }
LOCUS_HD unsigned __float_as_uint(float x) { return float_bits(x); }
LOCUS_HD float __int_as_float(int x) { return bits_float(static_cast<unsigned>(x)); }
LOCUS_HD float __uint_as_float(unsigned x) { return bits_float(x); }

// Sets *p to to(*p) and returns the old value, at once for all threads.
template <class T, class F>
inline T atomically(T* p, const F& to) {
  T old;
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  for (T next = to(old);
       !__atomic_compare_exchange(p, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED);)
    next = to(old);
  return old;
}
#define LOCUS_NAME(name, of)                                       \
  template <class T>                                               \
  inline T name(T* p, typename NotDeduced<T>::type v) {            \
    return atomically(p, [v](T x) { return static_cast<T>(of); }); \
  }
LOCUS_NAME(atomicAdd, x + v)
LOCUS_NAME(atomicSub, x - v)
LOCUS_NAME(atomicMax, x < v ? v : x)
LOCUS_NAME(atomicMin, v < x ? v : x)
LOCUS_NAME(atomicExch, v)
LOCUS_NAME(atomicAnd, x& v)
LOCUS_NAME(atomicOr, x | v)
LOCUS_NAME(atomicXor, x ^ v)
#undef LOCUS_NAME
template <class T>
inline T atomicCAS(T* p, typename NotDeduced<T>::type old, typename NotDeduced<T>::type v) {
  return atomically(p, [old, v](T x) { return x == old ? v : x; });
}

}  // namespace locus::names
extern "C" int printf(const char* format, ...);
#endif

// Generated code stands in this namespace. The using-declarations hide CUDA's overloads: a
// using-directive would be ambiguous with them.
namespace kernel {
using namespace locus;
using names::cosh, names::tanh, names::asinh, names::acosh, names::atanh, names::exp, names::expm1;
using names::fmin, names::atomicAdd;
using names::log, names::log1p, names::log2, names::log10, names::erf, names::fabs, names::abs;
using names::max, names::min, names::pow, names::fmod, names::copysign, names::hypot, names::fmax;
using names::sin, names::cos, names::tan, names::asin, names::acos, names::atan, names::sinh;
using names::sqrt, names::floor, names::ceil, names::trunc, names::rint, names::round, names::cbrt;
#ifndef __CUDACC__
using names::__float_as_uint, names::__int_as_float, names::__uint_as_float, names::atomicSub;
using names::__sinf, names::__cosf, names::__powf, names::__fdividef, names::__float_as_int;
using names::atomicMax, names::atomicMin, names::atomicExch, names::atomicCAS, names::atomicAnd;
using names::atomicOr, names::atomicXor;
using names::ceilf, names::truncf, names::rintf, names::roundf, names::nearbyintf, names::powf;
using names::erfc, names::exp2, names::lgamma, names::tgamma, names::nearbyint, names::logb;
using names::erff, names::erfcf, names::lgammaf, names::tgammaf, names::fabsf, names::floorf;
using names::exp10, names::rsqrt, names::rcbrt, names::atan2, names::remainder, names::fdim;
using names::exp10f, names::expm1f, names::logf, names::log2f, names::log10f, names::log1pf;
using names::fmodf, names::copysignf, names::hypotf, names::fmaxf, names::fminf, names::atan2f;
using names::nextafter, names::fma, names::ldexp, names::isnan, names::isinf, names::isfinite;
using names::remainderf, names::fdimf, names::fmaf, names::ldexpf, names::__expf, names::__logf;
using names::signbit, names::sqrtf, names::rsqrtf, names::cbrtf, names::expf, names::exp2f;
using names::sinf, names::cosf, names::tanf, names::asinf, names::acosf, names::atanf;
using names::sinhf, names::coshf, names::tanhf, names::asinhf, names::acoshf, names::atanhf;
#endif
}  // namespace kernel
