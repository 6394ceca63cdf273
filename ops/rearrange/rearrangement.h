// The form of a rearrangement: an op whose result elements are elements of its input, or a
// constant.
//
//   struct Roll : Rearrangement {
//     static constexpr const char* kName = "roll";
//     int64_t shift[kMaxRank] = {};
//     template <class I>
//     LOCUS_HD Source<I> source(int axis, const Place<I>& p) const {...}
//   };
//
// A rearrangement is the op's attributes. source() says where a result element comes from along one
// axis of the input. Kernels, inference and the registration are made of it:
//   source(axis, place)  the position along this axis of the input
//   constant()           the constant; default 0
//   moved(in, out)       the number of leading axes that may move; later ones are copied
// By default axis i of the result depends on axis i of the input alone. Others set kByAxis to
// false. The result's shape, the adjoint and the samples stand in rearrange.cc.
#pragma once

#include <locus/core/kernel.h>
#include <locus/core/scalar.h>

namespace locus {

// Along one axis of the input. `n` result elements, from this one on along the result's last axis,
// come from positions `step` apart, or are the constant if `at` is negative. GPUs read `at` alone.
template <class I>
struct Source {
  static constexpr I kAll = static_cast<I>(~(uint64_t{1} << 63) >> (64 - 8 * sizeof(I)));

  I at;
  I n = kAll;
  I step = 0;
};

// A place in the result, and the lengths of both. I is int32_t if 31 bits count the result.
template <class I>
struct Place {
  int rank = 0, in_rank = 0;
  I index[kMaxRank] = {}, out[kMaxRank] = {}, in[kMaxRank] = {};

  // The index at an axis. No dynamic address, so that a GPU keeps the index in registers.
  LOCUS_HD I at(int axis) const {
    I found = 0;
#ifdef __CUDA_ARCH__
#pragma unroll
    for (int i = 0; i < kMaxRank; ++i)
      if (i == axis) found = index[i];
#else
    found = index[axis];
#endif
    return found;
  }
  LOCUS_HD bool is_last(int axis) const { return axis == rank - 1; }
};

struct Rearrangement {
  static constexpr bool kByAxis = true;

  LOCUS_HD Scalar constant() const { return 0; }
  LOCUS_HD int moved(const Meta&, const Meta& out) const { return out.rank; }
};

}  // namespace locus
