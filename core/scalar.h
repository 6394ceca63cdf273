// Scalar: a weak number, a C++ literal used with a tensor. Promotion follows NumPy: an f16 tensor +
// 1 stays f16, an i32 tensor + 0.5 becomes f64.
#pragma once

#include <cstdint>
#include <type_traits>

#include <locus/core/caller.h>

namespace locus {

class Scalar {
 public:
  enum class Kind : uint8_t { boolean, integer, floating };

  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr Scalar(T v)
      : floating_(static_cast<double>(v)),
        integer_(std::is_floating_point_v<T> ? saturate(static_cast<double>(v))
                 : beyond(v)                 ? INT64_MAX
                                             : static_cast<int64_t>(v)),
        kind_(std::is_same_v<T, bool>       ? Kind::boolean
              : std::is_floating_point_v<T> ? Kind::floating
                                            : Kind::integer),
        beyond_i64_(beyond(v)) {}

  constexpr Kind kind() const { return kind_; }
  // The value truncated toward zero; NaN gives 0. Exact for integers. Saturates.
  constexpr int64_t integer() const { return integer_; }
  constexpr double floating() const { return floating_; }
  // Whether the value is an unsigned integer >= 2^63. No integer dtype holds it.
  constexpr bool beyond_i64() const { return beyond_i64_; }

 private:
  static constexpr int64_t saturate(double v) {
    if (!(v == v)) return 0;
    if (v >= 9223372036854775807.0) return INT64_MAX;
    if (v <= -9223372036854775808.0) return INT64_MIN;
    return static_cast<int64_t>(v);
  }

  template <class T>
  static constexpr bool beyond(T v) {
    if constexpr (std::is_integral_v<T> && std::is_unsigned_v<T> && sizeof(T) == 8)
      return v > static_cast<T>(INT64_MAX);
    else
      return false;
  }

  double floating_;
  int64_t integer_;
  Kind kind_;
  bool beyond_i64_;
};

template <>
struct At<Scalar> {
  template <class T>
  requires std::is_arithmetic_v<T> At(T v, Caller c = Caller::here()) : value(v), from(c) {}
  At(Scalar v, Caller c = Caller::here()) : value(v), from(c) {}
  Scalar value;
  Caller from;
};

}  // namespace locus
