// Indices and class labels as tensors hold them, for the host and for nvcc: integers of any width,
// or floating numbers as in MXNet.
#pragma once

#include <string>

#include <locus/core/dtype.h>

namespace locus {

// The number that a tensor holds as an index or a label. Not exact: what only stands for it.
struct Id {
  int64_t value = 0;
  bool exact = true;
};
inline constexpr int64_t kNaN = INT64_MIN;  // the value of one that is not exact
// "7", "nan", "past 64 bits", "with a fraction". Compiled once, for kernels that throw.
std::string to_string(const Id& id);

LOCUS_HD constexpr bool is_id_dtype(DType d) {
  return d == i64 || d == i32 || d == f32 || d == f64 || d == u8 || d == i8;
}

// Floating numbers are cut toward zero, or with `whole` must have no fraction.
template <class T>
LOCUS_HD Id to_id(T v, bool whole) {
  if (v != v) return {kNaN, false};
  if (v >= T(0x1p63)) return {INT64_MAX, false};
  if (v < T(-0x1p63)) return {-INT64_MAX, false};
  const int64_t i = static_cast<int64_t>(v);
  return {i, !whole || static_cast<T>(i) == v};
}

LOCUS_HD Id id_at(const void* ids, DType d, int64_t i, bool whole = false) {
  switch (d) {
    case i32:
      return {static_cast<const int32_t*>(ids)[i]};
    case f32:
      return to_id(static_cast<const float*>(ids)[i], whole);
    case f64:
      return to_id(static_cast<const double*>(ids)[i], whole);
    case u8:
      return {static_cast<const uint8_t*>(ids)[i]};
    case i8:
      return {static_cast<const int8_t*>(ids)[i]};
    default:
      return {static_cast<const int64_t*>(ids)[i]};
  }
}

}  // namespace locus
