// Conversions between element types, the same on every context. Floating to integer truncates and
// saturates; NaN becomes 0. Integers wrap. To bool: x != 0. To f16 and bf16, every type is rounded
// once.
#pragma once

#include <locus/ops/kernel/types.h>

namespace locus {

namespace detail {

// f64 to f32 rounding to odd, so that a second rounding to 16 bits is correct (Boldo and Melquiond,
// "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
LOCUS_HD float to_odd(double v) {
  const float f = static_cast<float>(v);
  if (!(static_cast<double>(f) != v) || v != v) return f;
  uint32_t u = float_bits(f);
  const double a = v < 0 ? -v : v, b = f < 0 ? -static_cast<double>(f) : static_cast<double>(f);
  if (b > a) --u;
  return bits_float(u | 1u);
}

// i64 to f64, rounding to odd: if dropped bits are not 0, the lowest kept bit is set.
LOCUS_HD double to_odd(int64_t v) {
  constexpr int64_t kExact = int64_t{1} << 53, kBit = int64_t{1} << 11;
  if (v <= -kExact || v >= kExact) v = (v & -kBit) | ((v & (kBit - 1)) != 0 ? kBit : 0);
  return static_cast<double>(v);
}

template <class To, class From>
LOCUS_HD To saturate(From v) {
  // 2^(bits - 1), or 2^bits for u8: exact in every floating type, one past the largest value.
  constexpr From kEnd = static_cast<From>(
      kSigned<To> ? 2.0 * static_cast<double>(int64_t{1} << (8 * sizeof(To) - 2)) : 256.0);
  constexpr From kBegin = kSigned<To> ? -kEnd : From(0);
  constexpr To kMax =
      static_cast<To>(kSigned<To> ? ~(uint64_t{1} << 63) >> (64 - 8 * sizeof(To)) : uint64_t{255});
  constexpr To kMin = static_cast<To>(kSigned<To> ? -static_cast<int64_t>(kMax) - 1 : 0);
  if (v != v) return To(0);
  if (v >= kEnd) return kMax;
  if (v <= kBegin) return kMin;
  return static_cast<To>(v);
}

}  // namespace detail

template <class To, class From>
LOCUS_HD To convert(From v) {
  if constexpr (kSame<To, From>)
    return v;
  else if constexpr (k16Bit<From>)
    return convert<To>(static_cast<float>(v));
  else if constexpr (kSame<To, bool>)
    return v != From(0);
  else if constexpr (k16Bit<To> && (kSame<From, float> || sizeof(From) == 1))
    return To(static_cast<float>(v));
  else if constexpr (k16Bit<To> && kSame<From, int64_t>)
    return To(detail::to_odd(detail::to_odd(v)));
  else if constexpr (k16Bit<To>)
    return To(detail::to_odd(static_cast<double>(v)));
  else if constexpr (kFloating<From> && kInteger<To>)
    return detail::saturate<To>(v);
  else
    return static_cast<To>(v);
}

// Converts n contiguous elements.
template <class To, class From>
LOCUS_HD void convert_run(const From* from, To* to, int64_t n) {
  int64_t i = 0;
#if defined(__F16C__) && !defined(__CUDACC__)
  typedef float Floats __attribute__((vector_size(32)));
  typedef short Halves __attribute__((vector_size(16)));
  if constexpr (kSame<To, float> && kSame<From, Half>) {
    for (; i + 8 <= n; i += 8) {
      Halves h;
      __builtin_memcpy(&h, &from[i].bits, sizeof h);
      const Floats f = __builtin_ia32_vcvtph2ps256(h);
      __builtin_memcpy(to + i, &f, sizeof f);
    }
  } else if constexpr (kSame<To, Half> && kSame<From, float>) {
    for (; i + 8 <= n; i += 8) {
      Floats f;
      __builtin_memcpy(&f, from + i, sizeof f);
      const Halves h = __builtin_ia32_vcvtps2ph256(f, 0);
      __builtin_memcpy(&to[i].bits, &h, sizeof h);
    }
  }
#endif
  for (; i < n; ++i) to[i] = convert<To>(from[i]);
}

}  // namespace locus
