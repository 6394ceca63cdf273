// The base header for host and device code. NVRTC can compile it: no standard library header is
// included.
#pragma once

#ifdef __CUDACC_RTC__
namespace locus {
using int8_t = signed char;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned;
using int64_t = long long;
using uint64_t = unsigned long long;
}  // namespace locus
#else
#include <cstdint>
#endif

// Marks a function for the host and, under nvcc, for the device. On the host the function is always
// inlined: translation units built for different instruction sets must not share one copy.
#ifdef __CUDACC__
#define LOCUS_HD __host__ __device__ __forceinline__
#else
#define LOCUS_HD inline __attribute__((always_inline))
#endif

namespace locus {

LOCUS_HD uint32_t float_bits(float v) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(v);
#else
  return __builtin_bit_cast(uint32_t, v);
#endif
}
LOCUS_HD float bits_float(uint32_t v) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(v);
#else
  return __builtin_bit_cast(float, v);
#endif
}
LOCUS_HD uint64_t double_bits(double v) {
#ifdef __CUDA_ARCH__
  return static_cast<uint64_t>(__double_as_longlong(v));
#else
  return __builtin_bit_cast(uint64_t, v);
#endif
}
LOCUS_HD double bits_double(uint64_t v) {
#ifdef __CUDA_ARCH__
  return __longlong_as_double(static_cast<long long>(v));
#else
  return __builtin_bit_cast(double, v);
#endif
}

}  // namespace locus
