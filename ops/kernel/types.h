// The types that kernels compute in. Like all of ops/kernel that formulas build on, free of the
// standard library.
#pragma once

#include <locus/core/half.h>

namespace locus {

template <class A, class B>
inline constexpr bool kSame = false;
template <class A>
inline constexpr bool kSame<A, A> = true;
template <class T>
inline constexpr bool kFloating = kSame<T, float> || kSame<T, double>;
template <class T>
inline constexpr bool k16Bit = kSame<T, Half> || kSame<T, BFloat16>;
template <class T>
inline constexpr bool kInteger =
    kSame<T, int32_t> || kSame<T, int64_t> || kSame<T, uint8_t> || kSame<T, int8_t>;
template <class T>
inline constexpr bool kSigned = T(-1) < T(0);

namespace detail {
template <class T, bool Small>
struct ComputeType {
  using type = T;
};
template <class T>
struct ComputeType<T, true> {
  using type = int32_t;
};
template <>
struct ComputeType<Half, false> {
  using type = float;
};
template <>
struct ComputeType<BFloat16, false> {
  using type = float;
};
}  // namespace detail

// f16 and bf16 in f32, the others in themselves.
template <class T>
using Compute = typename detail::ComputeType<T, false>::type;
// Also i8, u8 and bool in i32, as C++ computes them.
template <class T>
using Promoted = typename detail::ComputeType<T, sizeof(T) == 1>::type;

}  // namespace locus
