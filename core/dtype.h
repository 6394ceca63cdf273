// Element types: names, sizes, C++ storage types, and NumPy's promotion rules.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <tuple>
#include <type_traits>

#include <locus/core/half.h>
#include <locus/core/kernel.h>
#include <locus/core/scalar.h>

namespace locus {

// The C++ storage type of each DType, in order. dtype_of() maps back; integers map by size and
// sign.
template <DType D>
using CppTypeOf =
    std::tuple_element_t<static_cast<size_t>(D), std::tuple<float, double, Half, BFloat16, int32_t,
                                                            int64_t, uint8_t, int8_t, bool>>;

// C++ types that a tensor can store: bool, float, double, Half, BFloat16, integers with a DType.
template <class T>
concept Element = std::same_as<T, bool> || std::same_as<T, float> || std::same_as<T, double> ||
                  std::same_as<T, Half> || std::same_as<T, BFloat16> ||
                  (std::signed_integral<T> && sizeof(T) != 2) ||
                  (std::integral<T> && sizeof(T) == 1);

template <Element T>
constexpr DType dtype_of() {
  return std::same_as<T, bool>       ? bool_
         : std::same_as<T, float>    ? f32
         : std::same_as<T, double>   ? f64
         : std::same_as<T, Half>     ? f16
         : std::same_as<T, BFloat16> ? bf16
         : sizeof(T) == 4            ? i32
         : sizeof(T) == 8            ? i64
         : std::is_signed_v<T>       ? i8
                                     : u8;
}

LOCUS_HD constexpr int size_of(DType d) {
  constexpr int kSizes[] = {4, 8, 2, 2, 4, 8, 1, 1, 1};
  return kSizes[static_cast<int>(d)];
}
constexpr bool is_dtype(DType d) {
  return static_cast<unsigned>(d) <= static_cast<unsigned>(bool_);
}
constexpr bool is_floating(DType d) { return d == f32 || d == f64 || d == f16 || d == bf16; }
constexpr bool is_integer(DType d) { return d == i32 || d == i64 || d == u8 || d == i8; }

// "f32", "bool_" is spelled "bool".
const char* name(DType d);
std::ostream& operator<<(std::ostream& os, DType d);
void expect_dtype(DType d);  // DTypeError if d is no enumerator

// The common dtype of two operands, by NumPy's table. f16 with bf16 gives f32. bf16 with an integer
// behaves as f16 does (i8, u8: bf16; i32, i64: f64).
DType promote(DType a, DType b);
// The common dtype of a tensor and a weak number: the tensor's dtype, unless the number has a
// higher kind. An integer tensor with a floating number gives f64. A bool tensor with an integer
// gives i64.
DType promote(DType a, const Scalar& b);
// Whether dtype d can represent the number. Integers: the number truncated toward zero is in range
// (so no NaN). Floating dtypes: always, rounded. bool: always.
bool holds(DType d, const Scalar& s);
// Throws DTypeError, naming op, unless holds(d, s).
void check_fits(const char* op, DType d, const Scalar& s);
// The dtype of an inexact result (division, exp, mean): d if floating, else f64.
constexpr DType inexact(DType d) { return is_floating(d) ? d : f64; }

// Calls f with a std::type_identity of the storage type. In kernels, all threads take the same
// branch. Always inlined: copies for different instruction sets must not be merged.
template <class F>
constexpr __attribute__((always_inline)) decltype(auto) dispatch(DType d, F&& f) {
  switch (d) {
    case f32:
      return f(std::type_identity<float>());
    case f64:
      return f(std::type_identity<double>());
    case f16:
      return f(std::type_identity<Half>());
    case bf16:
      return f(std::type_identity<BFloat16>());
    case i32:
      return f(std::type_identity<int32_t>());
    case i64:
      return f(std::type_identity<int64_t>());
    case u8:
      return f(std::type_identity<uint8_t>());
    case i8:
      return f(std::type_identity<int8_t>());
    case bool_:
      break;
  }
  return f(std::type_identity<bool>());
}

}  // namespace locus
