// Reads indices and class labels from tensors: integers of any width or, as in MXNet, floating
// numbers. For host and device code.
#pragma once

#include <type_traits>

#include <locus/core/dtype.h>

namespace locus {

// The result of id_at for NaN and, with `whole`, for a fraction.
inline constexpr int64_t kNaN = INT64_MIN;

LOCUS_HD constexpr bool is_id_dtype(DType d) {
  return d == i64 || d == i32 || d == f32 || d == f64 || d == u8 || d == i8;
}

// Floating numbers are truncated. With `whole`, a fraction gives kNaN. Numbers past 64 bits give
// INT64_MAX or -INT64_MAX.
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

// False if id_at returned kNaN or an end of the range.
LOCUS_HD constexpr bool is_exact(int64_t id, DType d) {
  return (d != f32 && d != f64) || (id != kNaN && id != INT64_MAX && id != -INT64_MAX);
}

}  // namespace locus
