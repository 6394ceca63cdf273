// Indices and class labels as tensors hold them, for the host and for nvcc: integers of any width,
// or floating numbers as in MXNet.
#pragma once

#include <type_traits>

#include <locus/core/dtype.h>

namespace locus {

// What id_at gives for NaN, and for a fraction where it is to be whole.
inline constexpr int64_t kNaN = INT64_MIN;

LOCUS_HD constexpr bool is_id_dtype(DType d) {
  return d == i64 || d == i32 || d == f32 || d == f64 || d == u8 || d == i8;
}

// Floating numbers are cut toward zero, or with `whole` must have no fraction. Those past 64 bits
// give the ends of the range but for kNaN.
template <class T>
LOCUS_HD int64_t to_id(T v, bool whole) {
  if constexpr (std::is_floating_point_v<T>) {
    if (v != v) return kNaN;
    if (v >= T(0x1p63)) return INT64_MAX;
    if (v <= T(-0x1p63)) return -INT64_MAX;
    const int64_t i = static_cast<int64_t>(v);
    return whole && static_cast<T>(i) != v ? kNaN : i;
  } else {
    return static_cast<int64_t>(v);
  }
}

LOCUS_HD int64_t id_at(const void* ids, DType d, int64_t i, bool whole = false) {
  switch (d) {
    case i32:
      return static_cast<const int32_t*>(ids)[i];
    case f32:
      return to_id(static_cast<const float*>(ids)[i], whole);
    case f64:
      return to_id(static_cast<const double*>(ids)[i], whole);
    case u8:
      return static_cast<const uint8_t*>(ids)[i];
    case i8:
      return static_cast<const int8_t*>(ids)[i];
    default:
      return static_cast<const int64_t*>(ids)[i];
  }
}

// Whether an id that id_at gave is the number itself: all integers are.
LOCUS_HD constexpr bool is_exact(int64_t id, DType d) {
  return (d != f32 && d != f64) || (id != kNaN && id != INT64_MAX && id != -INT64_MAX);
}

}  // namespace locus
