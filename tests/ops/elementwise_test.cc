#include <locus/ops/elementwise.h>

#include <cmath>
#include <limits>

#include <locus/core/autograd.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <tests/support/contexts.h>

namespace locus {
namespace {

using test::contexts;
using test::message_of;
using test::values;
using testing::ElementsAre;

const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInf = std::numeric_limits<float>::infinity();

TEST(Elementwise, AddsSubtractsMultipliesAndDivides) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({1.f, 2.f, -3.f}, c), y = array({4.f, 0.5f, 2.f}, c);
    EXPECT_THAT(values(x + y), ElementsAre(5, 2.5, -1));
    EXPECT_THAT(values(x - y), ElementsAre(-3, 1.5, -5));
    EXPECT_THAT(values(x * y), ElementsAre(4, 1, -6));
    EXPECT_THAT(values(x / y), ElementsAre(0.25, 4, -1.5));
    EXPECT_EQ((x + y).context(), c);
    EXPECT_EQ((x + y).dtype(), f32);
  }
}

TEST(Elementwise, NumbersStandOnEitherSide) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({1.f, 2.f, 4.f}, c);
    EXPECT_THAT(values(x + 1), ElementsAre(2, 3, 5));
    EXPECT_THAT(values(1 - x), ElementsAre(0, -1, -3));
    EXPECT_THAT(values(2.0 / x), ElementsAre(2, 1, 0.5));
    EXPECT_THAT(values(x / 2), ElementsAre(0.5, 1, 2));
    EXPECT_THAT(values(power(2, x)), ElementsAre(2, 4, 16));
    EXPECT_THAT(values(maximum(x, 2)), ElementsAre(2, 2, 4));
  }
}

TEST(Elementwise, BroadcastsAsNumPy) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor column = array({{1.f}, {2.f}}, c), row = array({10.f, 20.f, 30.f}, c);
    const Tensor sum = column + row;
    EXPECT_EQ(sum.shape(), Shape({2, 3}));
    EXPECT_THAT(values(sum), ElementsAre(11, 21, 31, 12, 22, 32));
    EXPECT_EQ((ones({4, 1, 3}, c) * ones({5, 1}, c)).shape(), Shape({4, 5, 3}));
    const std::string text = message_of<ShapeError>([&] {
      (void)(ones({2, 3}, c) + ones({4}, c));
    });
    EXPECT_NE(text.find("add"), std::string::npos) << text;
  }
}

TEST(Elementwise, PromotesAsNumPy) {
  const auto of = [](DType d) { return ones({2}, d); };
  EXPECT_EQ((of(f32) + of(f64)).dtype(), f64);
  EXPECT_EQ((of(f16) + of(f32)).dtype(), f32);
  EXPECT_EQ((of(i32) + of(f32)).dtype(), f64);
  EXPECT_EQ((of(i32) + of(i64)).dtype(), i64);
  EXPECT_EQ((of(u8) + of(i8)).dtype(), promote(u8, i8));
  EXPECT_EQ((of(bool_) + of(bool_)).dtype(), bool_);
  EXPECT_EQ((of(f16) * 2.5).dtype(), f16);
  EXPECT_EQ((of(i32) * 2).dtype(), i32);
  EXPECT_EQ((of(i32) * 2.5).dtype(), f64);
  EXPECT_EQ((of(bool_) + 1).dtype(), i64);
  EXPECT_EQ((of(i32) / of(i32)).dtype(), f64);
  EXPECT_EQ((of(f16) / 2).dtype(), f16);
  EXPECT_THAT(values(array({7, 8}) / 2), ElementsAre(3.5, 4));
}

TEST(Elementwise, IntegersWrapAndRejectNumbersThatDoNotFit) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor top = full({2}, std::numeric_limits<int32_t>::max(), {c, i32});
    EXPECT_THAT((top + 1).to_vector<int32_t>(), ElementsAre(std::numeric_limits<int32_t>::min(),
                                                            std::numeric_limits<int32_t>::min()));
    EXPECT_THAT((full({1}, 200, {c, u8}) + full({1}, 100, {c, u8})).to_vector<uint8_t>(),
                ElementsAre(44));
    EXPECT_THAT((full({1}, 16, {c, i8}) * 16).to_vector<int8_t>(), ElementsAre(0));
    EXPECT_THROW(full({1}, 1, {c, u8}) + 300, DTypeError);
    EXPECT_THROW(full({1}, 1, {c, u8}) + -1, DTypeError);
    const int64_t large = (int64_t{1} << 62) + 1;  // not a double
    EXPECT_THAT((full({1}, large, {c, i64}) + 2).to_vector<int64_t>(), ElementsAre(large + 2));
  }
}

TEST(Elementwise, NumbersAreRoundedToTheTensorsDtype) {
  for (Context c : contexts()) {
    for (DType d : {f16, bf16, f32}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      const Tensor x = full({2}, .1, {c, d});
      EXPECT_THAT(values(x == .1), ElementsAre(1, 1));
      EXPECT_THAT(values(x - .1), ElementsAre(0, 0));
      EXPECT_THAT(values(.1 - x), ElementsAre(0, 0));
    }
    EXPECT_EQ(values(ones({1}, {c, f16}) + 70000)[0], kInf);
    EXPECT_EQ(values(where(zeros({1}, {c, bool_}), full({1}, 1, {c, f16}), 70000))[0], kInf);
  }
}

TEST(Elementwise, NumbersBeyondI64AreNotNegative) {
  const uint64_t half = uint64_t{1} << 63, top = UINT64_MAX;
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({5, -1}, c), y = full({1}, INT64_MAX, {c, i64});
    EXPECT_THROW(x + half, DTypeError);
    EXPECT_THROW(maximum(x, half), DTypeError);
    EXPECT_THROW(where(x > 0, x, half), DTypeError);
    EXPECT_THROW(x.copyto(c) += half, DTypeError);
    EXPECT_THAT(values(x == top), ElementsAre(0, 0));
    EXPECT_THAT(values(x < half), ElementsAre(1, 1));
    EXPECT_THAT(values(half <= x), ElementsAre(0, 0));
    EXPECT_THAT(values(y < half), ElementsAre(1));
    EXPECT_THAT(values(y != half), ElementsAre(1));
    EXPECT_EQ(values(ones({1}, c) * half)[0], 9223372036854775808.);
    EXPECT_EQ(values(x / half)[0], 5 / 9223372036854775808.);
  }
}

TEST(Elementwise, TwoNumbersAreAnError) {
  EXPECT_THAT(test::message_of<Error>([] { add(1, 2); }),
              testing::StartsWith(
                  "add: both operands are numbers; expected a tensor: full({}, number) (at "));
}

TEST(Elementwise, LdexpRoundsOnce) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({1.5f, 1.f, 0.f, 1e38f, 3e-45f, kInf, 1.f, 8.f}, c);
    const Tensor e = array({3.f, -149.f, 500.f, -280.f, 100.f, -9999.f, 128.f, .5f}, c);
    const auto z = ldexp(x, e).to_vector<float>();
    for (size_t i = 0; i < 7; ++i)
      EXPECT_EQ(z[i], std::ldexp(x.to_vector<float>()[i], int(e.to_vector<float>()[i]))) << i;
    EXPECT_NEAR(z[7], 8 * std::sqrt(2.f), 1e-5);
    EXPECT_EQ(ldexp(array({3}, c), 2).dtype(), f64);
    const Tensor ends = array({0.f, kInf, 1.f}, {c, f16});
    EXPECT_THAT(ldexp(ends, 1e5).astype(f64).to_vector<double>(),
                testing::ElementsAre(0, kInf, kInf));
    EXPECT_THAT(ldexp(ends, -1e5).astype(f64).to_vector<double>(),
                testing::ElementsAre(0, kInf, 0));
  }
}

TEST(Elementwise, XlogyIsZeroAtZero) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({0.f, 0.f, 0.f, 2.f, 0.f}, c),
                 y = array({0.f, -1.f, kInf, 1.f, kNan}, c);
    const auto z = values(xlogy(x, y));
    EXPECT_THAT(std::vector<double>(z.begin(), z.end() - 1), ElementsAre(0, 0, 0, 0));
    EXPECT_TRUE(std::isnan(z[4]));
    x.attach_grad();
    y.attach_grad();
    {
      autograd::Record record;
      (xlogy(x(Slice(0, 4)), y(Slice(0, 4)))).sum().backward();
    }
    EXPECT_THAT(values(x.grad()(Slice(0, 4))), ElementsAre(0, 0, kInf, 0));
    EXPECT_THAT(values(y.grad()(Slice(0, 4))), ElementsAre(0, 0, 0, 2));
  }
}

TEST(Elementwise, ModHasTheSignOfTheDivisor) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    EXPECT_THAT(values(array({7.5f, -7.5f, 7.5f, -7.5f}, c) % array({2.f, 2.f, -2.f, -2.f}, c)),
                ElementsAre(1.5, 0.5, -0.5, -1.5));
    EXPECT_THAT(values(array({7, -7, 7, -7, 5}, c) % array({3, 3, -3, -3, 0}, c)),
                ElementsAre(1, 2, -2, -1, 0));
    const Tensor low = full({1}, std::numeric_limits<int64_t>::min(), {c, i64});
    EXPECT_THAT((low % -1).to_vector<int64_t>(), ElementsAre(0));
    EXPECT_TRUE(std::isnan((ones({1}, c) % 0).item<float>()));
  }
}

TEST(Elementwise, PowersOfIntegersAreExact) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    EXPECT_THAT(
        power(array({3, -2, 2, -1, 0}, c), array({39, 3, -1, -3, 0}, c)).to_vector<int64_t>(),
        ElementsAre(4052555153018976267, -8, 0, -1, 1));
    EXPECT_THAT(values(power(array({4.f, 0.f, 2.f}, c), array({0.5f, 0.f, -1.f}, c))),
                ElementsAre(2, 1, 0.5));
  }
}

TEST(Elementwise, MaximumAndMinimumPropagateNan) {
  for (Context c : contexts()) {
    for (DType d : {f32, f64, f16, bf16}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      const Tensor x = array({kNan, 1.f, kInf}, {c, d}), y = array({1.f, kNan, 2.f}, {c, d});
      for (const Tensor& z : {maximum(x, y), minimum(x, y)}) {
        EXPECT_TRUE(std::isnan(values(z)[0]));
        EXPECT_TRUE(std::isnan(values(z)[1]));
      }
      EXPECT_EQ(values(maximum(x, y))[2], kInf);
      EXPECT_EQ(values(minimum(x, y))[2], 2);
    }
  }
}

TEST(Elementwise, ResultsKeepTheLayoutOfTheirOperands) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(6, c).reshape({2, 3}), t = x.T() * 2;
    EXPECT_THAT(t.strides(), ElementsAre(1, 3));
    EXPECT_THAT(values(t), ElementsAre(0, 6, 2, 8, 4, 10));
    EXPECT_THAT(values(x.T() + ones({3, 2}, c)), ElementsAre(1, 4, 2, 5, 3, 6));
  }
}

// Several blocks, with rows that do not divide them, in every layout.
TEST(Elementwise, WalksAnyStrides) {
  for (Context c : contexts()) {
    for (DType d : {f32, f16, i64, u8}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      const int64_t rows = 37, columns = 101;
      const Tensor x = (arange(rows * columns, c) % 61).astype(d).reshape({rows, columns});
      const Tensor y = x(Slice({}, {}, 2), Slice(0, {}, 3));
      const Tensor z = x(Slice(0, 19), Slice({}, {}, -3));
      ASSERT_EQ(y.shape(), Shape({19, 34}));

      const std::vector<double> sum = values(y + z), all = values(x);
      for (int64_t i = 0; i < 19; ++i)
        for (int64_t j = 0; j < 34; ++j)
          ASSERT_EQ(sum[static_cast<size_t>(i * 34 + j)],
                    all[static_cast<size_t>(2 * i * columns + 3 * j)] +
                        all[static_cast<size_t>(i * columns + 100 - 3 * j)])
              << i << " " << j;
    }
  }
}

TEST(Elementwise, LargeTensorsAreDividedAmongThreads) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const int64_t n = 300007;
    const Tensor x = arange(static_cast<double>(n), {c, f64});
    const std::vector<double> y = values(x * 3 - x), z = values(x.astype(f32) * 2);
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(y[static_cast<size_t>(i)], 2.0 * static_cast<double>(i));
      ASSERT_EQ(z[static_cast<size_t>(i)], 2.0 * static_cast<double>(i));
    }
  }
}

TEST(Elementwise, ZeroSizeAndZeroRank) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    EXPECT_EQ((ones({0, 3}, c) + ones({3}, c)).shape(), Shape({0, 3}));
    EXPECT_EQ((ones({}, c) + 1).shape(), Shape());
    EXPECT_EQ((ones({}, c) + 1).item<float>(), 2);
  }
}

TEST(ElementwiseInPlace, WritesIntoTheSameMemory) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Tensor x = array({1.f, 2.f, 3.f}, c);
    const Tensor same = x;
    x += 1;
    x *= array({2.f, 2.f, 2.f}, c);
    x -= 1;
    x /= 2;
    EXPECT_TRUE(same.is(x));
    EXPECT_THAT(values(same), ElementsAre(1.5, 2.5, 3.5));
    Tensor a = zeros({2, 2}, c);
    a[0] += 5;
    EXPECT_THAT(values(a), ElementsAre(5, 5, 0, 0));
  }
}

TEST(ElementwiseInPlace, ReadsOverlappingOperandsBeforeWriting) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = arange(1000, c);
    x(Slice(1, {})) += x(Slice(0, -1));
    const std::vector<double> v = values(x);
    for (size_t i = 1; i < v.size(); ++i) ASSERT_EQ(v[i], 2.0 * static_cast<double>(i) - 1);
    const Tensor square = arange(9, c).reshape({3, 3});
    Tensor z = square;
    z += square.T();
    EXPECT_THAT(values(square), ElementsAre(0, 4, 8, 4, 8, 12, 8, 12, 16));
  }
}

TEST(ElementwiseInPlace, CastsWithinTheSameKindOnly) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Tensor x = array({1.f, 2.f}, c);
    x += array({1, 2}, {c, i64});
    EXPECT_EQ(x.dtype(), f32);
    EXPECT_THAT(values(x), ElementsAre(2, 4));
    x += ones({2}, {c, f64});
    EXPECT_THAT(values(x), ElementsAre(3, 5));
    Tensor i = array({1, 2}, c);
    const std::string text = message_of<DTypeError>([&] { i /= 2; });
    EXPECT_NE(text.find("f64"), std::string::npos) << text;
    EXPECT_THROW(i += 0.5, DTypeError);
    EXPECT_THROW(i += ones({2}, c), DTypeError);
    EXPECT_THAT(values(i), ElementsAre(1, 2));
    EXPECT_THROW(x += ones({3, 2}, c), ShapeError);
  }
}

TEST(ElementwiseGradient, PowerAtZero) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({0.f, 0.f, 2.f}, c), y = array({0.f, 2.f, 3.f}, c);
    x.attach_grad();
    y.attach_grad();
    Tensor z;
    {
      autograd::Record record;
      z = power(x, y);
    }
    z.backward();
    EXPECT_THAT(values(x.grad()), ElementsAre(0, 0, 12));
    EXPECT_THAT(values(y.grad()), ElementsAre(0, 0, testing::DoubleNear(8 * std::log(2.0), 1e-5)));
  }
}

TEST(ElementwiseGradient, OfMaximumIsForTheLeftIfEqual) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({1.f, 2.f, 3.f}, c), y = array({2.f, 2.f, 2.f}, c);
    x.attach_grad();
    y.attach_grad();
    Tensor z;
    {
      autograd::Record record;
      z = maximum(x, y) + minimum(x, 2.5);
    }
    z.backward();
    EXPECT_THAT(values(x.grad()), ElementsAre(1, 2, 1));
    EXPECT_THAT(values(y.grad()), ElementsAre(1, 0, 0));
  }
}

}  // namespace
}  // namespace locus
