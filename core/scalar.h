// A weak number: a C++ literal beside a tensor. It takes the tensor's dtype where NumPy's does
// (x + 1 stays f16, but an i32 tensor + 0.5 becomes f64).
#pragma once

#include <cstdint>
#include <type_traits>

namespace locus {

class Scalar {
 public:
  enum class Kind : uint8_t { boolean, integer, floating };

  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr Scalar(T v)
      : floating_(static_cast<double>(v)),
        integer_(std::is_floating_point_v<T> ? saturate(static_cast<double>(v))
                                             : static_cast<int64_t>(v)),
        kind_(std::is_same_v<T, bool>       ? Kind::boolean
              : std::is_floating_point_v<T> ? Kind::floating
                                            : Kind::integer) {}

  constexpr Kind kind() const { return kind_; }
  // The exact value for an integer, the value cut toward zero (saturating, NaN to 0) otherwise.
  constexpr int64_t integer() const { return integer_; }
  constexpr double floating() const { return floating_; }

 private:
  static constexpr int64_t saturate(double v) {
    if (!(v == v)) return 0;
    if (v >= 9223372036854775807.0) return INT64_MAX;
    if (v <= -9223372036854775808.0) return INT64_MIN;
    return static_cast<int64_t>(v);
  }

  double floating_;
  int64_t integer_;
  Kind kind_;
};

}  // namespace locus
