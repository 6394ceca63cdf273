#include <locus/core/dtype.h>

#include <cmath>
#include <limits>
#include <ostream>

#include <locus/core/error.h>

namespace locus {
namespace {

// NumPy's numpy.promote_types for our types; f16 with bf16 has no common 16-bit type.
constexpr DType kPromote[kNumDTypes][kNumDTypes] = {
    // f32   f64  f16   bf16  i32  i64  u8    i8    bool
    {f32, f64, f32, f32, f64, f64, f32, f32, f32},      // f32
    {f64, f64, f64, f64, f64, f64, f64, f64, f64},      // f64
    {f32, f64, f16, f32, f64, f64, f16, f16, f16},      // f16
    {f32, f64, f32, bf16, f64, f64, bf16, bf16, bf16},  // bf16
    {f64, f64, f64, f64, i32, i64, i32, i32, i32},      // i32
    {f64, f64, f64, f64, i64, i64, i64, i64, i64},      // i64
    {f32, f64, f16, bf16, i32, i64, u8, i32, u8},       // u8 (with i8: NumPy's i16, which we lack)
    {f32, f64, f16, bf16, i32, i64, i32, i8, i8},       // i8
    {f32, f64, f16, bf16, i32, i64, u8, i8, bool_},     // bool
};

}  // namespace

const char* name(DType d) {
  constexpr const char* kNames[] = {"f32", "f64", "f16", "bf16", "i32", "i64", "u8", "i8", "bool"};
  return is_dtype(d) ? kNames[static_cast<int>(d)] : "unknown dtype";
}

void expect_dtype(DType d) {
  if (!is_dtype(d))
    throw DTypeError("dtype number ", static_cast<int>(d), "; expected f32, f64, f16, bf16, i32, ",
                     "i64, u8, i8 or bool_");
}

std::ostream& operator<<(std::ostream& os, DType d) { return os << name(d); }

DType promote(DType a, DType b) { return kPromote[static_cast<int>(a)][static_cast<int>(b)]; }

DType promote(DType a, const Scalar& b) {
  if (is_floating(a) || b.kind() == Scalar::Kind::boolean) return a;
  if (b.kind() == Scalar::Kind::floating) return f64;
  return a == bool_ ? i64 : a;
}

bool holds(DType d, const Scalar& s) {
  return dispatch(d, [&](auto type) {
    using T = typename decltype(type)::type;
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      using L = std::numeric_limits<T>;
      const double v = std::trunc(s.floating());
      if (s.kind() == Scalar::Kind::floating) return v >= L::min() && v < std::ldexp(1, L::digits);
      return !s.beyond_i64() && s.integer() >= L::min() && s.integer() <= L::max();
    }
    return true;
  });
}

void check_fits(const char* op, DType d, const Scalar& s) {
  if (holds(d, s)) [[likely]]
    return;
  throw DTypeError(op, ": the number ",
                   s.beyond_i64()             ? "2^63 or above"
                   : std::isnan(s.floating()) ? "nan"
                                              : std::to_string(s.integer()),
                   " does not fit the tensor's dtype ", name(d),
                   "; convert the tensor first: x.astype(", s.beyond_i64() ? "f64)" : "i64)");
}

}  // namespace locus
