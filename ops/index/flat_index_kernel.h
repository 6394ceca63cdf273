// Positions of elements in row-major order, for the host and for nvcc.
#pragma once

#include <locus/core/kernel_list.h>

namespace locus {

struct UnravelAttrs {
  Meta shape;
  uint8_t axes_last = 0;  // the result's shape: 0: (axes, n); 1: (n, axes)
};
struct RavelAttrs {
  Meta shape;
  uint8_t mode = 0;  // IndexMode
};

// The position of element `flat` of m's shape. False, and zeros, if there is none.
LOCUS_HD bool unravel_one(const Meta& m, int64_t flat, int64_t (&at)[kMaxRank]) {
  const bool found = flat >= 0 && flat < m.size();
  if (!found) flat = 0;
  for (int axis = m.rank - 1; axis >= 0; --axis) {
    const int64_t n = m.shape[axis] > 0 ? m.shape[axis] : 1;
    const bool small = ((flat | n) >> 32) == 0;  // divides several times faster
    const int64_t outer = small ? static_cast<uint32_t>(flat) / static_cast<uint32_t>(n) : flat / n;
    at[axis] = flat - outer * n;
    flat = outer;
  }
  return found;
}

// The flat position of an element of m's shape, from its indices. If index `bad_axis` is outside
// its axis, `flat` is 0.
struct Raveled {
  int64_t flat = 0, bad = 0;
  int bad_axis = -1;
};
struct RavelInputs {
  const int64_t* ids[kMaxRank];
};
LOCUS_HD Raveled ravel_one(const RavelAttrs& a, const RavelInputs& in, int64_t i) {
  Raveled r;
  for (int axis = 0; axis < a.shape.rank; ++axis) {
    const int64_t id = in.ids[axis][i], n = a.shape.shape[axis];
    const bool inside = id >= 0 && id < n;
    if (!inside && (a.mode == 0 || n == 0)) return {0, id, axis};
    int64_t at = id;
    if (a.mode == 1) at = id < 0 ? 0 : id < n ? id : n - 1;
    if (a.mode == 2 && !inside) at = id % n + (id % n < 0 ? n : 0);
    r.flat = r.flat * n + at;
  }
  return r;
}

template <class Backend>
constexpr KernelList flat_index_kernels() {
  KernelList list;
  list.add("unravel_index", DTypes<i64>{}, Backend::unravel_index);
  list.add("ravel_multi_index", DTypes<i64>{}, Backend::ravel_multi_index);
  return list;
}

namespace detail {
// Throws IndexError "unravel_index: index 7 is out of bounds for axis 0 with size 3; expected 0 to
// 2".
[[noreturn]] void throw_outside(const char* op, int64_t index, int axis, int64_t size);
}  // namespace detail

}  // namespace locus
