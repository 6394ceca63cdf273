// Division by a number that is known before, for dividends below 2^31 (Granlund and Montgomery
// 1994, round-up method).
#pragma once

#include <cstdint>

#include <locus/core/hd.h>

namespace locus {

struct Divisor {
  uint32_t value, magic, shift;
};
inline Divisor divisor(int64_t value) {
  const uint32_t d = static_cast<uint32_t>(value);
  uint32_t shift = 0;
  while (shift < 31 && (1u << shift) < d) ++shift;
  const uint64_t one = 1;
  return {d, static_cast<uint32_t>(((one << 32) * ((one << shift) - d)) / d + 1), shift};
}
LOCUS_HD uint32_t divide(uint32_t n, Divisor d) {
#if defined(__CUDA_ARCH__)
  return (__umulhi(n, d.magic) + n) >> d.shift;
#else
  return static_cast<uint32_t>(((uint64_t{n} * d.magic >> 32) + n) >> d.shift);
#endif
}

}  // namespace locus
