#include <locus/ops/bitwise.h>

#include <cstdint>

#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/named.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Bitwise, WorksOnBitsOfEveryInteger) {
  for (Context c : contexts())
    for (DType d : {u8, i8, i32, i64}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      const Tensor x = array({12, 7, 0}, c).astype(d), y = array({10, 1, 3}, c).astype(d);
      EXPECT_THAT(values(x & y), ElementsAre(8, 1, 0));
      EXPECT_THAT(values(x | y), ElementsAre(14, 7, 3));
      EXPECT_THAT(values(x ^ y), ElementsAre(6, 6, 3));
      EXPECT_EQ((x & 1).dtype(), d);
      const double top = d == u8 ? 256 : 0;
      EXPECT_THAT(values(~x), ElementsAre(top - 13, top - 8, top - 1));
      Tensor z = x + 0;
      z &= y;
      z |= 4;
      z ^= 1;
      EXPECT_THAT(values(z), ElementsAre(13, 4, 5));
    }
}

TEST(Bitwise, WritesIntoAViewInPlace) {
  for (Context c : contexts()) {
    const Tensor x = array({{12, 7}, {1, 2}}, c);
    x(0) &= 6;
    x(1) |= 4;
    x(1) ^= array({1, 0}, c);
    EXPECT_THAT(values(x), ElementsAre(4, 6, 4, 6)) << c;
  }
}

TEST(Bitwise, OfBoolIsLogic) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({true, true, false}, c), y = array({true, false, false}, c);
    EXPECT_THAT(values(x & y), ElementsAre(1, 0, 0));
    EXPECT_THAT(values(x | y), ElementsAre(1, 1, 0));
    EXPECT_THAT(values(x ^ y), ElementsAre(0, 1, 0));
    EXPECT_THAT(values(~x), ElementsAre(0, 0, 1));
    for (const Tensor& z : {x & y, x | y, x ^ y, ~x, invert(x)}) EXPECT_EQ(z.dtype(), bool_);
    EXPECT_EQ((x & array({3}, c)).dtype(), i64);
    EXPECT_EQ(left_shift(x, y).dtype(), i8);
    EXPECT_THAT(values(left_shift(x, y)), ElementsAre(2, 1, 0));
  }
}

TEST(Bitwise, ShiftsByAnyCount) {
  for (Context c : contexts())
    for (DType d : {i8, i32, i64}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      const int width = d == i8 ? 8 : d == i32 ? 32 : 64;
      const Tensor x = array({-100, 100}, c).astype(d);
      for (int by : {width, width + 1, 100, -1, -128}) {
        EXPECT_THAT(values(left_shift(x, by)), ElementsAre(0, 0)) << by;
        EXPECT_THAT(values(right_shift(x, by)), ElementsAre(-1, 0)) << by;
      }
      EXPECT_THAT(values(right_shift(x, 3)), ElementsAre(-13, 12));
      EXPECT_THAT(values(right_shift(x, width - 1)), ElementsAre(-1, 0));
      EXPECT_THAT(values(left_shift(ones({1}, {c, d}), width - 1)),
                  ElementsAre(-std::ldexp(1., width - 1)));
    }
  const Tensor bytes = array({200, 1}).astype(u8);
  EXPECT_THAT(values(left_shift(bytes, 1)), ElementsAre(144, 2));
  EXPECT_THAT(values(left_shift(bytes, 8)), ElementsAre(0, 0));
  EXPECT_THAT(values(right_shift(bytes, 9)), ElementsAre(0, 0));
}

TEST(Bitwise, NotOfBoolIsLogical) {
  for (Context c : contexts()) {
    const Tensor x = array({true, false}, c);
    EXPECT_EQ((~x).dtype(), bool_);
    EXPECT_THAT(values(~x), ElementsAre(0, 1));
    EXPECT_THAT(values(invoke("bitwise_not", {x})), ElementsAre(0, 1));
  }
}

TEST(Bitwise, RefusesFloats) {
  const Tensor x = ones({2}), n = array({1, 2});
  EXPECT_THAT(message_of<DTypeError>([&] { x& n; }), HasSubstr("bitwise_and"));
  EXPECT_THAT(message_of<DTypeError>([&] { n | .5; }), HasSubstr("bitwise_or"));
  EXPECT_THAT(message_of<DTypeError>([&] { ~x; }), HasSubstr("bitwise_not"));
  EXPECT_THAT(message_of<DTypeError>([&] { left_shift(x, 1); }), HasSubstr("left_shift"));
}

}  // namespace
}  // namespace locus::test
