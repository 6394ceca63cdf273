// What the .cu files of copy, create, view, join and index share. Included by *.cu only.
#pragma once

#include <locus/ops/copy/copy_kernel.h>
#include <locus/ops/kernel/launch.h>

namespace locus::cuda {

struct alignas(16) Word16 {
  uint64_t a, b;
};

// Calls f with a value of an unsigned type of this size.
template <class F>
void by_bytes(int bytes, const F& f) {
  switch (bytes) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
    default:
      return f(Word16{});
  }
}

// Fills `out`, any strides, with the first size_of(dtype) bytes of `bits`.
void fill_view(const View& out, uint64_t bits, StreamView s);

}  // namespace locus::cuda
