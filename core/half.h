// Storage types for IEEE half and bfloat16. Code computes in float and converts. Conversion rounds
// to nearest even, keeps NaN, and overflows to infinity. Hardware instructions, if present, give
// the same bits, except the bits of a NaN.
#pragma once

#include <locus/core/hd.h>

namespace locus {

struct Half {
  uint16_t bits = 0;
  Half() = default;
  LOCUS_HD explicit Half(float v);
  LOCUS_HD explicit operator float() const;
};
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  LOCUS_HD explicit BFloat16(float v);
  LOCUS_HD explicit operator float() const;
};

LOCUS_HD Half::Half(float v) {
#if defined(__CUDA_ARCH__)
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
#elif defined(__F16C__)
  typedef float Four __attribute__((vector_size(16)));
  bits = static_cast<uint16_t>(__builtin_ia32_vcvtps2ph(Four{v, 0, 0, 0}, 0)[0]);
#else
  const uint32_t u = float_bits(v), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) {
    bits = static_cast<uint16_t>(sign | 0x7e00u);
  } else if (a >= 0x477ff000u) {  // rounds past 65504
    bits = static_cast<uint16_t>(sign | 0x7c00u);
  } else if (a < 0x38800000u) {  // subnormal: let the adder of 0.5 round
    const float shifted = bits_float(a) + 0.5f;
    bits = static_cast<uint16_t>(sign | (float_bits(shifted) - 0x3f000000u));
  } else {
    const uint32_t odd = (a >> 13) & 1u;
    bits = static_cast<uint16_t>(sign | ((a - 0x38000000u + 0xfffu + odd) >> 13));
  }
#endif
}
LOCUS_HD Half::operator float() const {
#if defined(__CUDA_ARCH__)
  float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
  return v;
#elif defined(__F16C__)
  typedef short Eight __attribute__((vector_size(16)));
  return __builtin_ia32_vcvtph2ps(Eight{static_cast<short>(bits), 0, 0, 0, 0, 0, 0, 0})[0];
#else
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16, e = (bits >> 10) & 31u,
                 m = bits & 0x3ffu;
  if (e == 31) return bits_float(sign | 0x7f800000u | (m << 13));
  if (e != 0) return bits_float(sign | ((e + 112) << 23) | (m << 13));
  const float tiny = static_cast<float>(m) * 5.9604644775390625e-8f;  // m * 2^-24, exact
  return bits_float(sign | float_bits(tiny));
#endif
}
LOCUS_HD BFloat16::BFloat16(float v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
#else
  const uint32_t u = float_bits(v);
  bits = (u & 0x7fffffffu) > 0x7f800000u
             ? static_cast<uint16_t>((u >> 16) | 0x40u)
             : static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
#endif
}
LOCUS_HD BFloat16::operator float() const { return bits_float(static_cast<uint32_t>(bits) << 16); }

}  // namespace locus
