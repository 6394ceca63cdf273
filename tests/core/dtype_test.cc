#include <locus/core/dtype.h>

#include <cmath>
#include <limits>

#include "tests/support/contexts.h"

namespace locus::test {
namespace {

Half half_of_bits(uint16_t bits) {
  Half h;
  h.bits = bits;
  return h;
}

TEST(DTypes, EveryHalfSurvivesTheRoundTrip) {
  for (int bits = 0; bits < 65536; ++bits) {
    const Half h = half_of_bits(uint16_t(bits));
    const float f = float(h);
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(float(Half(f))));
    } else {
      ASSERT_EQ(Half(f).bits, bits) << f;
    }
  }
}

TEST(DTypes, HalvesRoundToNearestEven) {
  // Between neighbours: below the middle rounds down, the middle rounds to even.
  for (uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const double low = float(half_of_bits(bits)), high = float(half_of_bits(uint16_t(bits + 1)));
    const float middle = float((low + high) / 2);
    ASSERT_EQ(Half(middle).bits, bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(Half(std::nextafter(middle, 0.f)).bits, bits);
    ASSERT_EQ(Half(std::nextafter(middle, 1e9f)).bits, bits + 1);
  }
  EXPECT_EQ(Half(65519.f).bits, 0x7bff);
  EXPECT_EQ(Half(65520.f).bits, 0x7c00);
  EXPECT_EQ(Half(-std::numeric_limits<float>::infinity()).bits, 0xfc00);
}

TEST(DTypes, BFloatsRoundToNearestEven) {
  EXPECT_EQ(float(BFloat16(1.f + 1.f / 256)), 1.f);
  EXPECT_EQ(float(BFloat16(1.f + 3.f / 256)), 1.f + 4.f / 256);
  EXPECT_EQ(float(BFloat16(3.4e38f)), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(float(BFloat16(NAN))));
}

TEST(DTypes, PromoteAsNumPyDoes) {
  EXPECT_EQ(promote(f32, i32), f64);
  EXPECT_EQ(promote(f32, i8), f32);
  EXPECT_EQ(promote(f16, u8), f16);
  EXPECT_EQ(promote(f16, bf16), f32);
  EXPECT_EQ(promote(i32, i64), i64);
  EXPECT_EQ(promote(bool_, u8), u8);
  for (int a = 0; a < kNumDTypes; ++a) {
    EXPECT_EQ(promote(DType(a), DType(a)), DType(a));
    for (int b = 0; b < kNumDTypes; ++b)
      EXPECT_EQ(promote(DType(a), DType(b)), promote(DType(b), DType(a)));
  }
}

TEST(DTypes, ANumberIsWeak) {
  EXPECT_EQ(promote(f16, Scalar(1e10)), f16);
  EXPECT_EQ(promote(i32, Scalar(2)), i32);
  EXPECT_EQ(promote(i32, Scalar(0.5)), f64);
  EXPECT_EQ(promote(bool_, Scalar(1)), i64);
  EXPECT_EQ(promote(bool_, Scalar(true)), bool_);
}

TEST(DTypes, AScalarSaturates) {
  EXPECT_EQ(Scalar(1e300).integer(), INT64_MAX);
  EXPECT_EQ(Scalar(-1e300).integer(), INT64_MIN);
  EXPECT_EQ(Scalar(NAN).integer(), 0);
  EXPECT_EQ(Scalar(-2.9).integer(), -2);
  EXPECT_EQ(Scalar(INT64_MAX).integer(), INT64_MAX);
}

TEST(DType, ThatIsNoEnumeratorIsRefused) {
  const DType none = static_cast<DType>(77);
  EXPECT_STREQ(name(none), "unknown dtype");
  EXPECT_THROW(expect_dtype(none), DTypeError);
  EXPECT_THROW(make_meta(none, Shape{2}), DTypeError);
}

}  // namespace
}  // namespace locus::test
