// Indices outside their axis, and NaN.
#include <cmath>

#include <locus/ops/create.h>
#include <locus/ops/index.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus::test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(IndexMode, RefusesOthers) {
  const auto other = static_cast<IndexMode>(99);
  const Tensor x = arange(3), ids = array({0});
  EXPECT_THAT(message_of<ValueError>([&] { take(x, ids, {.mode = other}); }),
              HasSubstr("take: mode 99; expected IndexMode::raise"));
  EXPECT_THAT(message_of<ValueError>([&] {
                pick(x.reshape({1, 3}), ids, {.mode = other});
              }),
              HasSubstr("pick: mode 99"));
}

TEST(IndexMode, ModesDecideWhatLiesOutside) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor r = arange(3, c), ids = array({-4, 5, 1}, c);
    EXPECT_THAT(values(take(r, ids, {.mode = IndexMode::clip})), ElementsAre(0, 2, 1));
    EXPECT_THAT(values(take(r, ids, {.mode = IndexMode::wrap})), ElementsAre(2, 2, 1));
    const auto wait = [&] {
      const Tensor y = take(r, array({0, 7}, c));
      wait_all();
      y.to_vector<float>();
    };
    EXPECT_THAT(message_of<IndexError>(wait), HasSubstr("7"));
  }
  EXPECT_THAT(
      message_of<IndexError>([] { arange(3).take(array({-4})); }),
      HasSubstr("take: index -4 is out of bounds for axis 0 with size 3; expected -3 to 2"));
  EXPECT_THAT(message_of<IndexError>([] {
                pick(zeros({1, 3}), array({3}));
              }),
              HasSubstr("pick: index 3 is out of bounds for axis 1 with size 3"));
  EXPECT_THROW(take(zeros({0}), array({0})), IndexError);
  EXPECT_THROW(take(arange(3), array({true, false, true})), DTypeError);
}

TEST(IndexMode, TheSmallestIntegerIsAnIndexLikeOthers) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(3, c), ids = array({INT64_MIN, INT64_MAX}, c);
    EXPECT_THAT(values(take(x, ids, {.mode = IndexMode::clip})), ElementsAre(0, 2));
    EXPECT_THAT(values(take(x, ids, {.mode = IndexMode::wrap})), ElementsAre(1, 1));
    EXPECT_THAT(message_of<IndexError>([&] {
                  take(x, ids);
                  wait_all();
                }),
                HasSubstr("-9223372036854775808"));
  }
}

// Beyond 64 bits, clip is defined, the remainder is not.
TEST(IndexMode, InfinityIsClippedButNotWrapped) {
  for (Context c : contexts()) {
    for (DType d : {f32, f64}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      const Tensor x = arange(3, c), ids = from_values({INFINITY, -INFINITY, 1e30}, {3}, c, d);
      EXPECT_THAT(values(take(x, ids, {.mode = IndexMode::clip})), ElementsAre(2, 0, 2));
      for (int i = 0; i < 3; ++i)
        for (IndexMode mode : {IndexMode::wrap, IndexMode::raise})
          EXPECT_THROW((take(x, ids(Slice(i, i + 1)), {.mode = mode}), wait_all()), IndexError);
      const Tensor last = from_values({-std::ldexp(1., 62)}, {1}, c, d);  // -2^62 mod 3
      EXPECT_THAT(values(take(x, last, {.mode = IndexMode::wrap})), ElementsAre(2));
      EXPECT_THAT(values(one_hot(ids, 2)), Each(0));
    }
  }
}

TEST(IndexMode, NaNIsNoIndexInAnyMode) {
  for (Context c : contexts()) {
    for (DType d : {f32, f64, f16}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      Tensor x = arange(3, c);
      const Tensor ids = from_values({1, NAN}, {2}, c, d);
      for (IndexMode mode : {IndexMode::raise, IndexMode::clip, IndexMode::wrap})
        EXPECT_THROW((take(x, ids, {.mode = mode}), wait_all()), IndexError);
      EXPECT_THROW((pick(zeros({2, 3}, c), ids), wait_all()), IndexError);
      EXPECT_THROW((x[ids].gather(), wait_all()), IndexError);
      EXPECT_THROW(((x[ids] = array({1.f, 2.f}, c)), wait_all()), IndexError);
      EXPECT_THAT(values(one_hot(ids, 2)), ElementsAre(0, 1, 0, 0));
    }
  }
}

}  // namespace
}  // namespace locus::test
