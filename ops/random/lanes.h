// Several Philox blocks at once, for CPU kernels. Each instruction set compiles its own copy.
#pragma once

#include <locus/ops/random/philox.h>

namespace locus::LOCUS_ISA_NAMESPACE {

inline constexpr int kLanes = 16;

// The blocks from `first` on. `part`: word 3 of the counters.
class BlockLanes {
 public:
  LOCUS_HD BlockLanes(const PhiloxKey& key, uint64_t first, uint32_t part = 0) {
#ifdef __AVX2__
    typedef uint64_t Vector __attribute__((vector_size(32)));
    typedef int Ints __attribute__((vector_size(32)));
    constexpr int kVectors = kLanes / 4;
    constexpr Vector kLow = Vector{} + 0xffffffffu;
    const Ints multiply_a = reinterpret_cast<Ints>(Vector{} + 0xD2511F53u);
    const Ints multiply_b = reinterpret_cast<Ints>(Vector{} + 0xCD9E8D57u);
    Vector word[4][kVectors];  // 32 bits in 64
    for (uint64_t j = 0; j < kVectors; ++j) {
      const Vector at = Vector{0, 1, 2, 3} + (key.offset + first + 4 * j);
      word[0][j] = at & kLow;
      word[1][j] = at >> 32;
      word[2][j] = Vector{};
      word[3][j] = Vector{} + part;
    }
    uint32_t key0 = static_cast<uint32_t>(key.seed), key1 = static_cast<uint32_t>(key.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      for (int j = 0; j < kVectors; ++j) {
        const Vector a = reinterpret_cast<Vector>(
            __builtin_ia32_pmuludq256(multiply_a, reinterpret_cast<Ints>(word[0][j])));
        const Vector b = reinterpret_cast<Vector>(
            __builtin_ia32_pmuludq256(multiply_b, reinterpret_cast<Ints>(word[2][j])));
        word[0][j] = (b >> 32) ^ word[1][j] ^ key0;
        word[1][j] = b & kLow;
        word[2][j] = (a >> 32) ^ word[3][j] ^ key1;
        word[3][j] = a & kLow;
      }
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    for (int w = 0; w < 4; ++w)
      for (int k = 0; k < kLanes; ++k) word_[w][k] = static_cast<uint32_t>(word[w][k / 4][k % 4]);
#else
    for (int k = 0; k < kLanes; ++k) {
      const PhiloxBlock b = ElementBlocks{key, first + static_cast<uint64_t>(k), part}(0);
      for (int w = 0; w < 4; ++w) word_[w][k] = b.word[w];
    }
#endif
  }
  LOCUS_HD PhiloxBlock operator[](int k) const {
    return {{word_[0][k], word_[1][k], word_[2][k], word_[3][k]}};
  }

 private:
  alignas(64) uint32_t word_[4][kLanes];
};

}  // namespace locus::LOCUS_ISA_NAMESPACE
