// Strided copies for kernels of all families, and dispatch on element size. Included by the CPU
// kernels of every instruction set and by nvcc.
#pragma once

#include <locus/core/dtype.h>
#include <locus/core/kernel_list.h>
#include <locus/core/scalar.h>
#include <locus/ops/kernel/cast.h>
#include <locus/ops/kernel/walk.h>

namespace locus {

struct alignas(16) Word16 {
  uint64_t a, b;
};

// Calls f with a value of the unsigned type of this size. by_bytes() also takes 16, as from
// widen().
[[gnu::always_inline]] inline void by_size(int bytes, const auto& f) {
  switch (bytes) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}
[[gnu::always_inline]] inline void by_bytes(int bytes, const auto& f) {
  if (bytes == 16) return f(Word16{});
  by_size(bytes, f);
}

// A weak number as an element of dtype d, in the first bytes. Integers wrap; floats convert as in
// cast.h.
[[gnu::always_inline]] inline uint64_t element_bits(DType d, const Scalar& s) {
  uint64_t bits = 0;
  dispatch(d, [&](auto type) {
    using T = typename decltype(type)::type;
    const bool inexact = s.kind() == Scalar::Kind::floating || s.beyond_i64();
    const T v = inexact ? convert<T>(s.floating()) : convert<T>(s.integer());
    __builtin_memcpy(&bits, &v, sizeof v);
  });
  return bits;
}

struct Strides {
  int64_t* v;
  int n;
};
// Merges neighbouring elements of a same-dtype walk into words. Returns the word size, at most 16
// bytes. Rescales the walk and the strides in `others`.
template <class... S>
LOCUS_HD int widen(Walk<2>& w, int bytes, const void* in, const void* out, const S&... others) {
  const int last = w.rank - 1;
  if (w.stride[0][last] != 1 || w.stride[1][last] != 1) return bytes;
  const Strides all[] = {{w.stride[0], last}, {w.stride[1], last}, others...};
  for (; bytes < 16; bytes *= 2) {
    if ((reinterpret_cast<uintptr_t>(in) | reinterpret_cast<uintptr_t>(out)) &
        static_cast<uintptr_t>(2 * bytes - 1))
      return bytes;
    if (w.shape[last] % 2 != 0) return bytes;
    for (const Strides& s : all)
      for (int i = 0; i < s.n; ++i)
        if (s.v[i] % 2 != 0) return bytes;
    for (const Strides& s : all)
      for (int i = 0; i < s.n; ++i) s.v[i] /= 2;
    w.shape[last] /= 2;
    w.size /= 2;
  }
  return bytes;
}

// Copies and fills views on one device type, for kernels of all families. `copy` takes views of one
// shape and casts if the dtypes differ. `fill` sets each element to the first bytes of `bits`.
#ifdef LOCUS_ISA_NAMESPACE
namespace LOCUS_ISA_NAMESPACE {
struct Views {
  static void copy(const View& in, const View& out, StreamView stream);
  static void fill(const View& out, uint64_t bits, StreamView stream);
};
}  // namespace LOCUS_ISA_NAMESPACE
#endif
namespace cuda {
struct Views {
  static void copy(const View& in, const View& out, StreamView stream);
  static void fill(const View& out, uint64_t bits, StreamView stream);
};
}  // namespace cuda

}  // namespace locus
