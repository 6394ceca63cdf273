#include <locus/ops/allclose.h>
#include <locus/ops/compare.h>

#include <limits>

#include <locus/core/autograd.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <tests/support/contexts.h>

namespace locus {
namespace {

using test::contexts;
using test::message_of;
using test::values;
using testing::ElementsAre;
using testing::HasSubstr;

const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInf = std::numeric_limits<float>::infinity();

TEST(Compare, GivesTruthValues) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({1.f, 2.f, 3.f}, c), y = array({2.f, 2.f, 2.f}, c);
    EXPECT_EQ((x == y).dtype(), bool_);
    EXPECT_EQ((x == y).context(), c);
    EXPECT_THAT(values(x == y), ElementsAre(0, 1, 0));
    EXPECT_THAT(values(x != y), ElementsAre(1, 0, 1));
    EXPECT_THAT(values(x < y), ElementsAre(1, 0, 0));
    EXPECT_THAT(values(x <= y), ElementsAre(1, 1, 0));
    EXPECT_THAT(values(x > y), ElementsAre(0, 0, 1));
    EXPECT_THAT(values(x >= y), ElementsAre(0, 1, 1));
    EXPECT_THAT(values(2 < x), ElementsAre(0, 0, 1));
    EXPECT_THAT(values(x == 2), ElementsAre(0, 1, 0));
  }
}

TEST(Compare, NanIsUnequalToAll) {
  for (Context c : contexts()) {
    for (DType d : {f32, f64, f16, bf16}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      const Tensor x = array({kNan, 1.f}, {c, d});
      EXPECT_THAT(values(x == x), ElementsAre(0, 1));
      EXPECT_THAT(values(x != x), ElementsAre(1, 0));
      EXPECT_THAT(values(x < 2), ElementsAre(0, 1));
      EXPECT_THAT(values(x >= x), ElementsAre(0, 1));
    }
  }
}

TEST(Compare, NumbersOutsideTheDtypeCompareByValue) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({0, 44, 255}, {c, u8});
    EXPECT_THAT(values(x == 300), ElementsAre(0, 0, 0));
    EXPECT_THAT(values(x < 300), ElementsAre(1, 1, 1));
    EXPECT_THAT(values(x > -1), ElementsAre(1, 1, 1));
    EXPECT_THAT(values(x > 43.5), ElementsAre(0, 1, 1));
    const int64_t large = (int64_t{1} << 53) + 1;
    EXPECT_THAT(values(full({1}, large, {c, i64}) == large - 1), ElementsAre(0));
  }
}

TEST(Compare, BroadcastsAndTakesAnyLayout) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(6, c).reshape({2, 3});
    EXPECT_THAT(values(x.T() > array({0.f, 3.f}, c)), ElementsAre(0, 0, 1, 1, 1, 1));
    EXPECT_EQ((zeros({0, 3}, c) == 1).shape(), Shape({0, 3}));
  }
}

TEST(AllClose, FollowsNumPysRule) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({1.f, 100.f, 0.f}, c);
    EXPECT_TRUE(allclose(x, x));
    EXPECT_TRUE(allclose(x, array({1.f, 100.0005f, 1e-9f}, c)));
    EXPECT_FALSE(allclose(x, array({1.f, 100.f, 1e-7f}, c)));
    EXPECT_FALSE(allclose(x, x + .01));
    EXPECT_TRUE(allclose(x, x + .01, {.atol = .02}));
    // rtol multiplies b alone.
    EXPECT_TRUE(allclose(full({2}, 9, c), full({2}, 10, c), {.rtol = .1, .atol = 0}));
    EXPECT_FALSE(allclose(full({2}, 10, c), full({2}, 9, c), {.rtol = .1, .atol = 0}));
  }
}

TEST(AllClose, InfinitiesEqualThemselvesAndNaNOnlyOnRequest) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({1.f, kInf, -kInf}, c), n = array({1.f, kNan}, c);
    EXPECT_TRUE(allclose(x, x));
    EXPECT_FALSE(allclose(x, -x));
    EXPECT_FALSE(allclose(array({1.f}, c), array({kInf}, c)));
    EXPECT_FALSE(allclose(array({kInf}, c), array({1.f}, c)));
    EXPECT_FALSE(allclose(n, n));
    EXPECT_TRUE(allclose(n, n, {.equal_nan = true}));
    EXPECT_FALSE(allclose(n, array({1.f, 2.f}, c), {.equal_nan = true}));
  }
}

TEST(AllClose, BroadcastsOperandsOfAnyDType) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    EXPECT_TRUE(allclose(ones({2, 3}, c), ones({3}, {c, i64})));
    EXPECT_TRUE(allclose(ones({2, 3}, {c, f16}), 1));
    EXPECT_TRUE(allclose(1.00000001, ones({2, 3}, c)));
    EXPECT_FALSE(allclose(ones({2}, {c, u8}), 300));
    EXPECT_TRUE(allclose(array({false, true}, c), array({0.f, 1.f}, c)));
    EXPECT_TRUE(allclose(zeros({0, 3}, c), ones({3}, c)));
  }
}

TEST(AllClose, RefusesWhatItCannotCompare) {
  EXPECT_THAT(message_of<ContextMismatch>([] { allclose(ones({2}, cpu(0)), ones({2}, cpu(1))); }),
              testing::StartsWith("allclose: operands live on different contexts"));
  EXPECT_THAT(message_of<ShapeError>([] { allclose(ones({2}), ones({3})); }),
              testing::AllOf(testing::StartsWith("allclose: "), HasSubstr("compare_test.cc:")));
  EXPECT_THROW(allclose(1, 2), Error);
  EXPECT_THROW(allclose(Tensor(), ones({2})), Error);
}

TEST(AllClose, IsNotRecorded) {
  const Tensor x = array({1.f, 2.f});
  x.attach_grad();
  Tensor y;
  {
    autograd::Record record;
    y = x * 3;
    EXPECT_TRUE(allclose(y, x * 3));
  }
  y.backward();
  EXPECT_THAT(values(x.grad()), ElementsAre(3, 3));
}

TEST(Compare, LogicTakesWhatIsNotZeroForTrue) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({0.f, 2.f, 0.f, kNan}, c), y = array({0.f, 0.f, -1.f, 1.f}, c);
    EXPECT_THAT(values(logical_and(x, y)), ElementsAre(0, 0, 0, 1));
    EXPECT_THAT(values(logical_or(x, y)), ElementsAre(0, 1, 1, 1));
    EXPECT_THAT(values(logical_xor(x, y)), ElementsAre(0, 1, 1, 0));
    EXPECT_THAT(values(logical_not(x)), ElementsAre(1, 0, 1, 0));
    EXPECT_THAT(values(logical_not(x > 1)), ElementsAre(1, 0, 1, 1));
  }
}

TEST(Compare, ClassifiesNumbers) {
  for (Context c : contexts()) {
    for (DType d : {f32, f64, f16, bf16}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      const Tensor x = array({kNan, kInf, -kInf, 1.f}, {c, d});
      EXPECT_THAT(values(isnan(x)), ElementsAre(1, 0, 0, 0));
      EXPECT_THAT(values(isinf(x)), ElementsAre(0, 1, 1, 0));
      EXPECT_THAT(values(isfinite(x)), ElementsAre(0, 0, 0, 1));
    }
    EXPECT_THAT(values(isfinite(array({1, 2}, c))), ElementsAre(1, 1));
  }
}

TEST(Where, ChoosesAndBroadcasts) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(-3, 3, c);
    EXPECT_THAT(values(where(x > 0, x, -x)), ElementsAre(3, 2, 1, 0, 1, 2));
    EXPECT_THAT(values(where(x > 0, x, 0)), ElementsAre(0, 0, 0, 0, 1, 2));
    EXPECT_THAT(values(where(x > 0, 7, x)), ElementsAre(-3, -2, -1, 0, 7, 7));
    EXPECT_THAT(values(where(x, 1, 0)), ElementsAre(1, 1, 1, 0, 1, 1));
    EXPECT_EQ(where(x > 0, 1, 0).dtype(), i64);
    EXPECT_EQ(where(x > 0, 1.5, 0).dtype(), f32);
    EXPECT_EQ(where(x > 0, array({1}, {c, i32}), 0.5).dtype(), f64);
    const Tensor table =
        where(array({{true}, {false}}, c), array({1.f, 2.f, 3.f}, c), array({{-1.f}, {-2.f}}, c));
    EXPECT_EQ(table.shape(), Shape({2, 3}));
    EXPECT_THAT(values(table), ElementsAre(1, 2, 3, -2, -2, -2));
    const std::string text =
        message_of<ShapeError>([&] { (void)where(x > 0, ones({4}, c), ones({6}, c)); });
    EXPECT_NE(text.find("where"), std::string::npos) << text;
  }
}

TEST(Where, HidesNanOfTheOtherBranch) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({-1.f, 4.f}, c);
    EXPECT_THAT(values(where(x > 0, pow(x, .5), 0)), ElementsAre(0, 2));
  }
}

TEST(Where, TheChosenBranchGetsTheGradient) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({1.f, 2.f, 3.f}, c), y = array({5.f}, c);
    x.attach_grad();
    y.attach_grad();
    Tensor z;
    {
      autograd::Record record;
      z = where(x > 1.5, x, y);
    }
    z.backward();
    EXPECT_THAT(values(x.grad()), ElementsAre(0, 1, 1));
    EXPECT_THAT(values(y.grad()), ElementsAre(1));
  }
}

// Numbers are not rounded to the tensor's dtype first.
TEST(AllClose, ComparesWithTheNumberItself) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (Context c : contexts()) {
    EXPECT_FALSE(allclose(full({1}, infinity, {c, f16}), 1e6));
    EXPECT_FALSE(allclose(full({1}, infinity, c), 1e300));
    EXPECT_FALSE(allclose(full({2}, 3.335, {c, f16}), 3.336));
    EXPECT_FALSE(allclose(full({1}, .1, c), .1, {.rtol = 0, .atol = 0}));
    EXPECT_TRUE(allclose(full({1}, .5, c), .5, {.rtol = 0, .atol = 0}));
    EXPECT_TRUE(allclose(infinity, full({1}, infinity, c)));
  }
}

TEST(AllClose, RefusesTolerancesThatAreNoneByName) {
  const Tensor x = ones({2});
  EXPECT_THAT(message_of<ValueError>(
                  [&] { allclose(x, x, {.rtol = std::numeric_limits<double>::quiet_NaN()}); }),
              testing::HasSubstr("rtol nan"));
  EXPECT_THROW(allclose(x, x, {.atol = -1}), ValueError);
}

}  // namespace
}  // namespace locus
