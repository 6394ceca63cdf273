// Indices and class labels as tensors hold them, for the host and for nvcc: integers of any width,
// or floating numbers as in MXNet.
#pragma once

#include <type_traits>

#include <locus/core/dtype.h>

namespace locus {

// What a floating number that is no index gives: outside every axis, in every mode.
inline constexpr int64_t kNoIndex = INT64_MIN;

LOCUS_HD constexpr bool is_id_dtype(DType d) {
  return d == i64 || d == i32 || d == f32 || d == f64 || d == u8 || d == i8;
}

// Floating numbers are cut toward zero, or with `whole` must have no fraction. NaN is no index.
template <class T>
LOCUS_HD int64_t to_id(T v, bool whole) {
  if constexpr (std::is_floating_point_v<T>) {
    if (v != v) return kNoIndex;
    if (v >= T(9e18)) return INT64_MAX;
    if (v <= T(-9e18)) return -INT64_MAX;
    const int64_t i = static_cast<int64_t>(v);
    return whole && static_cast<T>(i) != v ? kNoIndex : i;
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

}  // namespace locus
