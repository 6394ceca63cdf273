// Philox 4x32-10 for host and device code.
#pragma once

#include <locus/core/generator.h>
#include <locus/core/hd.h>

namespace locus {

struct PhiloxBlock {
  uint32_t word[4];
};

LOCUS_HD uint64_t multiply_wide(uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
  uint64_t product;  // nvcc's own code for the product has an addition more
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
#else
  return uint64_t{a} * b;
#endif
}

// Philox 4x32-10: constants and rounds of Salmon et al. 2011, section 4.3.
LOCUS_HD PhiloxBlock philox(PhiloxBlock c, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = multiply_wide(0xD2511F53u, c.word[0]);
    const uint64_t b = multiply_wide(0xCD9E8D57u, c.word[2]);
    c = {{static_cast<uint32_t>(b >> 32) ^ c.word[1] ^ key0, static_cast<uint32_t>(b),
          static_cast<uint32_t>(a >> 32) ^ c.word[3] ^ key1, static_cast<uint32_t>(a)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return c;
}
LOCUS_HD PhiloxBlock philox(const PhiloxKey& key, uint64_t block) {
  const uint64_t at = key.offset + block;
  return philox({{static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32), 0, 0}},
                static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32));
}

// The blocks of one element, for methods that draw until they accept. Word 2 of the counter is the
// number of the attempt, word 3 the part: one of several variables of the element.
struct ElementBlocks {
  PhiloxKey key;
  uint64_t element = 0;
  uint32_t first_part = 0;

  LOCUS_HD PhiloxBlock operator()(uint32_t attempt, uint32_t part = 0) const {
    const uint64_t at = key.offset + element;
    return philox(
        {{static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32), attempt, first_part + part}},
        static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32));
  }
  LOCUS_HD ElementBlocks from(uint32_t part) const { return {key, element, first_part + part}; }
};

namespace detail {

// The high half of a * b.
LOCUS_HD uint64_t multiply_high(uint64_t a, uint64_t b) {
  const uint64_t a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
  const uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (middle & 0xffffffffu);
  return a1 * b1 + (middle >> 32) + (other >> 32);
}

LOCUS_HD uint64_t pair(const PhiloxBlock& b, int i) {
  return uint64_t{b.word[2 * i]} << 32 | b.word[2 * i + 1];
}

// Numbers of 53 bits: in [0, 1), and in (0, 1]. Two conversions of 32 bits and an exact sum,
// because AVX2 converts no 64-bit integers.
LOCUS_HD double fraction(uint64_t word) {
  return static_cast<double>(static_cast<uint32_t>(word >> 32)) * 0x1p-32 +
         static_cast<double>(static_cast<int>(static_cast<uint32_t>(word) >> 11)) * 0x1p-53;
}
LOCUS_HD double positive_fraction(uint64_t word) {
  return static_cast<double>(static_cast<uint32_t>(word >> 32)) * 0x1p-32 +
         static_cast<double>(static_cast<int>((static_cast<uint32_t>(word) >> 11) + 1)) * 0x1p-53;
}

}  // namespace detail
}  // namespace locus
