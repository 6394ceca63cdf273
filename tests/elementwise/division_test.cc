// Division with remainder: signs, zeros, infinities and large quotients, as NumPy has them.
#include <cmath>
#include <limits>

#include <locus/core/autograd.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::Each;
using testing::ElementsAre;

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInf = std::numeric_limits<double>::infinity();

// Equal numbers, with equal signs of zeros, or both NaN.
MATCHER_P(SameAs, wanted, "") {
  for (size_t i = 0; i < arg.size(); ++i)
    if (!(std::isnan(arg[i]) && std::isnan(wanted[i])) &&
        (arg[i] != wanted[i] || std::signbit(arg[i]) != std::signbit(wanted[i]))) {
      *result_listener << "element " << i << " is " << arg[i] << ", wanted " << wanted[i];
      return false;
    }
  return arg.size() == wanted.size();
}

class Division : public testing::TestWithParam<DType> {};

TEST_P(Division, OfSpecialNumbersIsNumPys) {
  const std::vector<double> x{1, -1, 1, -1, 5, -5, 5, kInf, 0, -0., 0, kNan, 7, -7, 7, -7};
  const std::vector<double> y{kInf, kInf, -kInf, -kInf, 0, 0, -0., 1, 0, 1, -1, 1, 2, 2, -2, -2};
  const std::vector<double> quotient{0,    -1,  -1,  0,    kInf, -kInf, -kInf, kNan,
                                     kNan, -0., -0., kNan, 3,    -4,    -4,    3};
  const std::vector<double> floored{1,    kInf, -kInf, -1,   kNan, kNan, kNan, kNan,
                                    kNan, 0,    -0.,   kNan, 1,    1,    -1,   -1};
  const std::vector<double> cut{1,    -1,  1, -1,   kNan, kNan, kNan, kNan,
                                kNan, -0., 0, kNan, 1,    -1,   1,    -1};
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor a = array(x, {c, GetParam()}), b = array(y, {c, GetParam()});
    EXPECT_THAT(values(floor_divide(a, b)), SameAs(quotient));
    EXPECT_THAT(values(remainder(a, b)), SameAs(floored));
    EXPECT_THAT(values(fmod(a, b)), SameAs(cut));
    const auto [whole, rest] = divmod(a, b);
    EXPECT_THAT(values(whole), SameAs(quotient));
    EXPECT_THAT(values(rest), SameAs(floored));
    // One by one: other code than for whole blocks.
    for (size_t i = 0; i < x.size(); ++i) {
      const Slice at(static_cast<int64_t>(i), static_cast<int64_t>(i) + 1);
      EXPECT_THAT(values(floor_divide(a(at), b(at))), SameAs(std::vector<double>{quotient[i]}));
      EXPECT_THAT(values(fmod(a(at), b(at))), SameAs(std::vector<double>{cut[i]}));
    }
  }
}
INSTANTIATE_TEST_SUITE_P(DTypes, Division, testing::Values(f16, bf16, f32, f64),
                         [](const auto& p) { return std::string(name(p.param)); });

TEST(DivisionOf, RoundedQuotientsIsMadeOfTheExactRemainder) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor one = ones({1000}, {c, f64});
    EXPECT_THAT(values(floor_divide(one, .1)), Each(9));
    EXPECT_THAT(values(one % .1), Each(std::fmod(1, .1)));
  }
}

TEST(DivisionOf, HugeQuotientsHasExactRemainders) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const std::vector<double> x{1e308, -1e308, 1e22, 9007199254740993., 1.7e308, 5e-324};
    const std::vector<double> y{3e-308, 7, .1, 3, 5e-324, 3};
    const Tensor a = array(x, {c, f64}), b = array(y, {c, f64});
    const std::vector<double> cut = values(fmod(a, b)), floored = values(a % b);
    for (size_t i = 0; i < x.size(); ++i) {
      const double r = std::fmod(x[i], y[i]);
      EXPECT_EQ(cut[i], r) << x[i] << " by " << y[i];
      EXPECT_EQ(floored[i], r < 0 ? r + y[i] : r) << x[i] << " by " << y[i];
    }
    const Tensor single = array({3e38f, 16777217.f * 8}, c);
    EXPECT_THAT(fmod(single, 7).to_vector<float>(),
                ElementsAre(std::fmod(3e38f, 7.f), std::fmod(16777217.f * 8, 7.f)));
  }
}

TEST(DivisionOf, IntegersByZeroIsZeroAndTheLowestStays) {
  for (Context c : contexts())
    for (DType d : {i8, i32, i64}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      const double low = d == i8 ? -128. : d == i32 ? -2147483648. : -9223372036854775808.;
      const Tensor x = full({600}, 5, {c, d}), lowest = array({low}, {c, f64}).astype(d);
      EXPECT_THAT(values(floor_divide(x, 0)), Each(0));
      EXPECT_THAT(values(x % 0), Each(0));
      EXPECT_THAT(values(fmod(x, 0)), Each(0));
      EXPECT_THAT(values(floor_divide(lowest, -1)), ElementsAre(low));
      EXPECT_THAT(values(remainder(lowest, -1)), ElementsAre(0));
      EXPECT_THAT(values(fmod(lowest, -1)), ElementsAre(0));
      const Tensor a = array({7, -7, 7, -7}, c).astype(d), b = array({3, 3, -3, -3}, c).astype(d);
      EXPECT_THAT(values(floor_divide(a, b)), ElementsAre(2, -3, -3, 2));
      EXPECT_THAT(values(fmod(a, b)), ElementsAre(1, -1, 1, -1));
      EXPECT_EQ(floor_divide(a, b).dtype(), d);
    }
}

TEST(DivisionOf, LargeI64IsExact) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    std::vector<int64_t> x, y, quotient, rest;
    for (int64_t i = 1; i < 2000; ++i) {
      x.push_back((i % 2 ? 1 : -1) * (i << (i % 53)));
      y.push_back((i % 3 ? 1 : -1) * (1 + (i * 7919 >> (i % 13))));
      const int64_t r = x.back() % y.back();
      const bool down = r != 0 && (r < 0) != (y.back() < 0);
      quotient.push_back(x.back() / y.back() - down);
      rest.push_back(down ? r + y.back() : r);
    }
    const Tensor a = array(x, c), b = array(y, c);
    EXPECT_EQ(floor_divide(a, b).to_vector<int64_t>(), quotient);
    EXPECT_EQ((a % b).to_vector<int64_t>(), rest);
  }
}

TEST(DivisionOf, IntegersByOneNumberIsExact) {
  for (Context c : contexts())
    for (DType d : {u8, i8, i32, i64}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      const int64_t most = d == u8 ? 255 : d == i8 ? 127 : d == i32 ? 2147483647 : (1ll << 50) - 1;
      const int64_t low = d == u8 ? 0 : -most;
      std::vector<int64_t> x;
      for (int64_t i = 0; i < 128; ++i)
        for (int64_t v : {low + i, most - i, i, d == u8 ? i : -i, most / 3 * (i % 3) + i})
          if (v <= most) x.push_back(v);
      const Tensor a = array(x, c).astype(d);
      for (int64_t y :
           {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{7}, int64_t{100}, most - 1, most}) {
        std::vector<int64_t> want;
        for (int64_t v : x) want.push_back(v / y - (v % y < 0));
        EXPECT_EQ(floor_divide(a, y).astype(i64).to_vector<int64_t>(), want) << "by " << y;
      }
    }
}

TEST(DivisionOf, BoolIsI8) {
  const Tensor x = array({true, false}), y = array({true, true});
  for (const Tensor& z : {floor_divide(x, y), x % y, fmod(x, y)}) EXPECT_EQ(z.dtype(), i8);
  EXPECT_THAT(values(floor_divide(x, y)), ElementsAre(1, 0));
}

TEST(DivisionOf, DivisorsHasTheGradientOfTheRemainder) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({7., -7., 1.}, {c, f64}), y = array({2., 2., kInf}, {c, f64});
    y.attach_grad();
    {
      const autograd::Record record;
      (x % y).sum().backward();
    }
    EXPECT_THAT(values(y.grad()), ElementsAre(-3, 4, 0));
    {
      const autograd::Record record;
      fmod(x, y).sum().backward();
    }
    EXPECT_THAT(values(y.grad()), ElementsAre(-3, 3, 0));
  }
}

}  // namespace
}  // namespace locus::test
