// Steps of fused kernels, which compute as the kernels of one formula do. Free of the standard
// library.
#pragma once

#include <locus/ops/jit/element.h>

namespace locus::fusion {

// How the elements of rows are shared out.
struct Rows {
  int64_t n = 1;        // elements of a row
  int32_t threads = 1;  // of a team: a power of two, at most kTeam
  int32_t packed = 0;   // packs of all arrays are aligned, and fill a row
};
// Threads of a team at most; packs of an array that a thread holds; elements of a row that a thread
// of the host holds.
enum { kTeam = 256, kPacks = 4, kHostPart = 4096 };

// The type in which kernels of one formula compute elements of T.
#ifdef __CUDACC__
template <class T>
using Wide = Promoted<T>;
#else
template <class T>
using Wide = Compute<T>;
#endif

// v rounded to f16, in few steps without branches, of which compilers make vector code. NaN stays
// NaN. Adding 2^13 times the power of two below v, at least 2^-14, rounds to f16's last bit.
LOCUS_HD float rounded_to_half(float v) {
  const uint32_t bits = float_bits(v), sign = bits & 0x80000000u, a = bits ^ sign;
  uint32_t power = a & 0x7f800000u;
  power = power < 0x38800000u ? 0x38800000u : power;
  power = power > 0x47800000u ? 0x47800000u : power;  // 2^16 and above are infinite
  const float shifter = bits_float(power + (13u << 23)), r = (bits_float(a) + shifter) - shifter;
  return bits_float(float_bits(r > 65504.0f ? m::infinity(r) : r) | sign);
}

// v after a store as T and a load.
template <class T, class V>
LOCUS_HD Compute<T> stored(V v) {
#ifndef __CUDACC__
  if constexpr (kSame<T, Half> && kSame<V, float>) return rounded_to_half(v);
#endif
  return convert<Compute<T>>(convert<T>(v));
}

// The formula's result, an element of T. Operands come as Compute<their type>.
template <class T, class F, class... X>
LOCUS_HD Compute<T> apply(const F& f, X... x) {
  return stored<T>(static_cast<Wide<T>>(f.apply(static_cast<Wide<X>>(x)...)));
}

}  // namespace locus::fusion
