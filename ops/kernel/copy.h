// Strided copies, for the kernels of every family, and elements by their size. Read by the CPU
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

// Calls f with a value of the unsigned type of this size; 16 bytes, as widen() finds them, need
// by_bytes().
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

// A weak number as an element of dtype d, its bytes first: integers exact (wrapping into narrow
// types), floats as casts do.
[[gnu::always_inline]] inline uint64_t element_bits(DType d, const Scalar& s) {
  uint64_t bits = 0;
  dispatch(d, [&](auto type) {
    using T = typename decltype(type)::type;
    const T v =
        s.kind() == Scalar::Kind::floating ? convert<T>(s.floating()) : convert<T>(s.integer());
    __builtin_memcpy(&bits, &v, sizeof v);
  });
  return bits;
}

// The element size, at most 16 bytes, in which a same-dtype walk can be done: elements made of
// runs. Rescales the walk.
LOCUS_HD int widen(Walk<2>& w, int bytes, const void* in, const void* out) {
  if (w.stride[0][w.rank - 1] != 1 || w.stride[1][w.rank - 1] != 1) return bytes;
  while (bytes < 16) {
    if ((reinterpret_cast<uintptr_t>(in) | reinterpret_cast<uintptr_t>(out)) &
        static_cast<uintptr_t>(2 * bytes - 1))
      return bytes;
    if (w.shape[w.rank - 1] % 2 != 0) return bytes;
    for (int i = 0; i + 1 < w.rank; ++i)
      if (w.stride[0][i] % 2 != 0 || w.stride[1][i] % 2 != 0) return bytes;
    w.shape[w.rank - 1] /= 2;
    w.size /= 2;
    for (int i = 0; i + 1 < w.rank; ++i) {
      w.stride[0][i] /= 2;
      w.stride[1][i] /= 2;
    }
    bytes *= 2;
  }
  return bytes;
}

// Copies `in` to `out`, views of one shape, casting where the dtypes differ; and sets every byte of
// `out` to zero. For the kernels of other families.
#ifdef LOCUS_ISA
namespace LOCUS_ISA {
void copy_view(const View& in, const View& out);
void zero_view(const View& out);
}  // namespace LOCUS_ISA
#endif
namespace cuda {
void copy_view(const View& in, const View& out, StreamView stream);
void zero_view(const View& out, StreamView stream);
}  // namespace cuda

}  // namespace locus
