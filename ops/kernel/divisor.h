// Division by numbers that the host knows before a launch.
#pragma once

#include <locus/ops/kernel/types.h>

namespace locus {

// Divides numbers from 0 to 2^31 - 1 by one multiplication (Granlund and Montgomery 1994, round-up
// method).
struct Divisor {
  uint32_t value = 1, magic = 1, shift = 0;

  Divisor() = default;
  // 0 < value < 2^31
  LOCUS_HD explicit Divisor(int64_t v) : value(static_cast<uint32_t>(v)), shift(0) {
    while (shift < 31 && (1u << shift) < value) ++shift;
    magic = static_cast<uint32_t>(((uint64_t{(1u << shift) - value}) << 32) / value + 1);
  }
  LOCUS_HD uint32_t divide(uint32_t n) const {
    return (static_cast<uint32_t>(uint64_t{n} * magic >> 32) + n) >> shift;
  }
};
LOCUS_HD int32_t operator/(int32_t n, Divisor d) {
  return static_cast<int32_t>(d.divide(static_cast<uint32_t>(n)));
}

// The divisor type for indices of type I, int32_t or int64_t.
template <class I>
using DivisorOf = If<sizeof(I) == 4, Divisor, int64_t>;

}  // namespace locus
