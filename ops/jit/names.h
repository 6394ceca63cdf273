// The functions that the body of a kernel may call on the host and on GPUs, with CUDA's names.
// Their operands may have several types. min, max, fmin, fmax, atomicMin and atomicMax ignore a NaN
// if the other value is none. GPUs have CUDA's other functions, too. Free of the standard library.
#pragma once

#include <locus/ops/kernel/math.h>

namespace locus::names {

template <class V>
concept Whole = requires(V v) {
  v | v;
};

// Of a function's operands: double if one is, or all are integers; else float.
template <class A, class B = A, class C = B>
using Floating =
    If<kSame<decltype(A() + B() + C() + 0.0f), float> && !(Whole<A> && Whole<B> && Whole<C>), float,
       double>;
template <class T>
struct NotDeduced {
  using type = T;
};

// CUDA has the names with an f itself.
#ifdef __CUDACC__
#define LOCUS_LIBM(name) ::name
#define LOCUS_F(name)
#define LOCUS_F2(name)
#else
#define LOCUS_LIBM(name) __builtin_##name
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
// f32 and f64 of a function that only bodies call.
#define LOCUS_NAME(name)                                               \
  LOCUS_HD float name##_of(float x) { return LOCUS_LIBM(name##f)(x); } \
  LOCUS_HD double name##_of(double x) { return LOCUS_LIBM(name)(x); }  \
  LOCUS_NAME_OF(name, name##_of(x))
LOCUS_NAME(erfc)
LOCUS_NAME(exp2)
LOCUS_NAME(lgamma)
LOCUS_NAME(tgamma)
LOCUS_NAME(nearbyint)
LOCUS_NAME(logb)
#ifdef __CUDACC__
LOCUS_NAME(exp10)
LOCUS_NAME(rsqrt)
LOCUS_NAME(rcbrt)
#else
LOCUS_NAME_OF(exp10, m::pow(m::c(x, 10), x))
LOCUS_NAME_OF(rsqrt, 1.0f / m::sqrt(x))
LOCUS_NAME_OF(rcbrt, 1.0f / m::cbrt(x))
#endif
#undef LOCUS_NAME
#undef LOCUS_NAME_OF
#undef LOCUS_F

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
#define LOCUS_NAME_C(name)                                                         \
  LOCUS_HD float name##_of(float x, float y) { return LOCUS_LIBM(name##f)(x, y); } \
  LOCUS_HD double name##_of(double x, double y) { return LOCUS_LIBM(name)(x, y); } \
  LOCUS_NAME(name, name##_of)
LOCUS_NAME_C(atan2)
LOCUS_NAME_C(remainder)
LOCUS_NAME_C(fdim)
LOCUS_NAME_C(nextafter)
#undef LOCUS_NAME_C
#undef LOCUS_NAME
#undef LOCUS_F2

template <class A, class B, class C>
LOCUS_HD auto fma(A a, B b, C c) {
  using V = Floating<A, B, C>;
  const V x = static_cast<V>(a), y = static_cast<V>(b), z = static_cast<V>(c);
  if constexpr (kSame<V, float>)
    return LOCUS_LIBM(fmaf)(x, y, z);
  else
    return LOCUS_LIBM(fma)(x, y, z);
}
#undef LOCUS_LIBM
template <class V>
LOCUS_HD auto ldexp(V x, int e) {
  return m::scale(static_cast<Floating<V>>(x), e);
}
template <class V>
LOCUS_HD bool isnan(V x) {
  return +x != +x;
}
template <class V>
LOCUS_HD bool isinf(V x) {
  const auto v = static_cast<Floating<V>>(x);
  return m::abs(v) == m::infinity(v);
}
template <class V>
LOCUS_HD bool isfinite(V x) {
  const auto v = static_cast<Floating<V>>(x);
  return m::abs(v) < m::infinity(v);
}
template <class V>
LOCUS_HD bool signbit(V x) {
  const auto v = static_cast<Floating<V>>(x);
  if constexpr (kSame<decltype(v), const float>)
    return float_bits(v) >> 31 != 0;
  else
    return double_bits(v) >> 63 != 0;
}

// Sets *p to to(*p) and returns the old value, at once for all threads.
#ifdef __CUDACC__
template <class T, class F>
LOCUS_HD T atomically(T* p, const F& to) {
  // *p is a part of an aligned word.
  using W = If<sizeof(T) == 8, unsigned long long, unsigned>;
  const auto address = reinterpret_cast<uint64_t>(p), at = address % sizeof(W);
  W* const word = reinterpret_cast<W*>(address - at);
  const W part = ~W(0) >> 8 * (sizeof(W) - sizeof(T)) << 8 * at;
  for (W seen = *const_cast<volatile W*>(word);;) {
    const W bytes = seen >> 8 * at;
    T old;
    memcpy(&old, &bytes, sizeof(T));
    const T value = to(old);
    W next = 0;
    memcpy(&next, &value, sizeof(T));
    next = (seen & ~part) | next << 8 * at;
    const W before = next == seen ? seen : ::atomicCAS(word, seen, next);
    if (before == seen) return old;
    seen = before;
  }
}
// Returns the result of CUDA's atomic function, if there is one of T or of integers of its size.
#define LOCUS_CUDA_ATOMIC(name, ...)                                     \
  using U = If<Whole<T> && sizeof(T) == 8, unsigned long long, T>;       \
  if constexpr (requires { ::name(p, __VA_ARGS__); })                    \
    return ::name(p, __VA_ARGS__);                                       \
  else if constexpr (requires(U * q) { ::name(q, __VA_ARGS__); })        \
    return static_cast<T>(::name(reinterpret_cast<U*>(p), __VA_ARGS__)); \
  else
#else
template <class T, class F>
inline T atomically(T* p, const F& to) {
  T old;
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  for (T next = to(old);
       !__atomic_compare_exchange(p, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED);)
    next = to(old);
  return old;
}
#define LOCUS_CUDA_ATOMIC(name, ...)
#endif
#define LOCUS_NAME(name, of)                                       \
  template <class T>                                               \
  LOCUS_HD T name(T* p, typename NotDeduced<T>::type v) {          \
    LOCUS_CUDA_ATOMIC(name, v)                                     \
    return atomically(p, [v](T x) { return static_cast<T>(of); }); \
  }
LOCUS_NAME(atomicAdd, x + v)
LOCUS_NAME(atomicSub, x - v)
LOCUS_NAME(atomicMax, names::max(x, v))
LOCUS_NAME(atomicMin, names::min(x, v))
LOCUS_NAME(atomicExch, v)
LOCUS_NAME(atomicAnd, x& v)
LOCUS_NAME(atomicOr, x | v)
LOCUS_NAME(atomicXor, x ^ v)
#undef LOCUS_NAME
template <class T>
LOCUS_HD T atomicCAS(T* p, typename NotDeduced<T>::type old, typename NotDeduced<T>::type v) {
  LOCUS_CUDA_ATOMIC(atomicCAS, old, v)
  return atomically(p, [old, v](T x) { return x == old ? v : x; });
}
#undef LOCUS_CUDA_ATOMIC

#ifndef __CUDACC__
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
#endif
}  // namespace locus::names
#ifndef __CUDACC__
extern "C" int printf(const char* format, ...);
#endif

// Generated code stands in this namespace. The using-declarations hide CUDA's overloads: a
// using-directive would be ambiguous with them.
namespace kernel {
using namespace locus;
using names::atomicMin, names::atomicExch, names::atomicCAS, names::atomicAnd, names::atomicOr;
using names::atomicXor;
using names::cosh, names::tanh, names::asinh, names::acosh, names::atanh, names::exp, names::expm1;
using names::erfc, names::exp2, names::lgamma, names::tgamma, names::nearbyint, names::logb;
using names::exp10, names::rsqrt, names::rcbrt, names::atan2, names::remainder, names::fdim;
using names::fmin, names::nextafter, names::fma, names::ldexp, names::isnan, names::isinf;
using names::isfinite, names::signbit, names::atomicAdd, names::atomicSub, names::atomicMax;
using names::log, names::log1p, names::log2, names::log10, names::erf, names::fabs, names::abs;
using names::max, names::min, names::pow, names::fmod, names::copysign, names::hypot, names::fmax;
using names::sin, names::cos, names::tan, names::asin, names::acos, names::atan, names::sinh;
using names::sqrt, names::floor, names::ceil, names::trunc, names::rint, names::round, names::cbrt;
#ifndef __CUDACC__
using names::__expf, names::__logf, names::__sinf, names::__cosf, names::__powf;
using names::__fdividef, names::__float_as_int, names::__float_as_uint, names::__int_as_float;
using names::__uint_as_float;
using names::ceilf, names::truncf, names::rintf, names::roundf, names::nearbyintf, names::powf;
using names::erff, names::erfcf, names::lgammaf, names::tgammaf, names::fabsf, names::floorf;
using names::exp10f, names::expm1f, names::logf, names::log2f, names::log10f, names::log1pf;
using names::fmodf, names::copysignf, names::hypotf, names::fmaxf, names::fminf, names::atan2f;
using names::remainderf, names::fdimf, names::nextafterf, names::fmaf, names::ldexpf, names::logbf;
using names::sinf, names::cosf, names::tanf, names::asinf, names::acosf, names::atanf;
using names::sinhf, names::coshf, names::tanhf, names::asinhf, names::acoshf, names::atanhf;
using names::sqrtf, names::rsqrtf, names::cbrtf, names::rcbrtf, names::expf, names::exp2f;
#endif
}  // namespace kernel
