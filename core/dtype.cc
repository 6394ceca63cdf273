#include <locus/core/dtype.h>

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
  return kNames[static_cast<int>(d)];
}

std::ostream& operator<<(std::ostream& os, DType d) { return os << name(d); }

DType promote(DType a, DType b) { return kPromote[static_cast<int>(a)][static_cast<int>(b)]; }

DType promote(DType a, const Scalar& b) {
  if (is_floating(a) || b.kind() == Scalar::Kind::boolean) return a;
  if (b.kind() == Scalar::Kind::floating) return f64;
  return a == bool_ ? i64 : a;
}

bool fits(DType d, const Scalar& s) {
  if (!is_integer(d) || s.kind() == Scalar::Kind::floating) return true;
  const int bits = 8 * size_of(d) - (d == u8 ? 0 : 1);
  const int64_t high = static_cast<int64_t>((uint64_t{1} << bits) - 1);
  return !s.beyond_i64() && s.integer() <= high && s.integer() >= (d == u8 ? 0 : -high - 1);
}

void check_fits(const char* op, DType d, const Scalar& s) {
  if (fits(d, s)) [[likely]]
    return;
  throw DTypeError(std::string(op) + ": the number " +
                   (s.beyond_i64() ? "2^63 or above" : std::to_string(s.integer())) +
                   " does not fit the tensor's dtype " + name(d) +
                   "; convert the tensor first: x.astype(" + (s.beyond_i64() ? "f64)" : "i64)"));
}

}  // namespace locus
