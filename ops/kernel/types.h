// The types that kernels compute in. Like all headers that formulas include, free of the standard
// library.
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
template <bool Condition, class A, class B>
struct IfType {
  using type = A;
};
template <class A, class B>
struct IfType<false, A, B> {
  using type = B;
};
}  // namespace detail
template <bool Condition, class A, class B>
using If = typename detail::IfType<Condition, A, B>::type;

// f32 for f16 and bf16, otherwise T.
template <class T>
using Compute = If<k16Bit<T>, float, T>;
// Also i32 for i8, u8 and bool, as in C++.
template <class T>
using Promoted = If<sizeof(T) == 1, int32_t, Compute<T>>;
// The unsigned type in which integers wrap.
template <class T>
using Wrap = If<sizeof(T) == 8, uint64_t, uint32_t>;

}  // namespace locus
