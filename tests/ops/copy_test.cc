#include <locus/ops/copy.h>

#include <cmath>
#include <limits>

#include <locus/core/autograd.h>
#include <locus/core/op.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/kernel/copy.h>
#include <locus/ops/view.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::ElementsAre;

TEST(Copy, IsAlwaysNewMemory) {
  for (Context c : contexts()) {
    const Tensor x = arange(6, c);
    EXPECT_FALSE(copy(x).shares_memory_with(x));
    EXPECT_FALSE(x.clone().shares_memory_with(x));
    EXPECT_EQ(x.clone().context(), c);
    EXPECT_EQ(values(x.clone()), values(x));
    EXPECT_FALSE(x.astype(f32).shares_memory_with(x));
    EXPECT_TRUE(contiguous(x).is(x));
    EXPECT_EQ(values(copy(x)), values(x));
  }
}

TEST(Copy, KeepsTheOrderOfStridesAndContiguousDoesNot) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor x = array({{1, 2, 3}, {4, 5, 6}}, c).T();
    EXPECT_EQ(copy(x).strides(), x.strides());
    EXPECT_TRUE(contiguous(x).contiguous());
    EXPECT_THAT(values(copy(x)), ElementsAre(1, 4, 2, 5, 3, 6));
    EXPECT_THAT(values(contiguous(x)), ElementsAre(1, 4, 2, 5, 3, 6));
  }
}

// Every dtype through tiles, odd edges, several axes and misaligned beginnings.
TEST(Copy, MovesAnyStrides) {
  for (Context c : contexts()) {
    for (DType d : {f32, f64, f16, i8}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      std::vector<int64_t> host(3 * 37 * 70);
      for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<int64_t>(i % 101);
      const Tensor x = array(host, {3, 37, 70}, {c, d});
      const auto at = [&](int64_t i, int64_t j, int64_t k) {
        return static_cast<double>(host[static_cast<size_t>((i * 37 + j) * 70 + k)]);
      };
      std::vector<double> wanted;
      for (int64_t k = 0; k < 70; ++k)
        for (int64_t i = 0; i < 3; ++i)
          for (int64_t j = 0; j < 37; ++j) wanted.push_back(at(i, j, k));
      EXPECT_EQ(values(contiguous(transpose(x, {2, 0, 1}))), wanted);

      wanted.clear();
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t j = 36; j >= 0; j -= 5)
          for (int64_t k = 1; k < 69; ++k) wanted.push_back(at(i, j, k));
      EXPECT_EQ(values(contiguous(x(Slice(), Slice({}, {}, -5), Slice(1, 69)))), wanted);

      wanted.clear();
      for (int64_t k = 3; k < 70; k += 2)
        for (int64_t j = 1; j < 37; ++j) wanted.push_back(at(1, j, k));
      EXPECT_EQ(values(contiguous(x(1, Slice(1, {}), Slice(3, {}, 2)).T())), wanted);
    }
  }
}

TEST(Copy, WritesIntoStridedTargets) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    Tensor x = zeros({3, 4}, c);
    x(Slice(), 2) = array({1.f, 2.f, 3.f}, c);
    x(1, Slice({}, {}, -1)) = array({5, 6, 7, 8}, c);
    EXPECT_THAT(values(x), ElementsAre(0, 0, 1, 0, 8, 7, 6, 5, 0, 0, 3, 0));
  }
}

TEST(Copy, CastsSaturateAndNaNIsZero) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    for (DType from : {f32, f64}) {
      const Tensor x = array(
          std::vector<double>{-inf, -1e30, -3.9, -0.5, 0.5, 3.9, 300, 1e30, inf, nan}, {c, from});
      EXPECT_THAT(x.astype(i32).to_vector<int32_t>(),
                  ElementsAre(INT32_MIN, INT32_MIN, -3, 0, 0, 3, 300, INT32_MAX, INT32_MAX, 0));
      EXPECT_THAT(x.astype(i64).to_vector<int64_t>(),
                  ElementsAre(INT64_MIN, INT64_MIN, -3, 0, 0, 3, 300, INT64_MAX, INT64_MAX, 0));
      EXPECT_THAT(values(x.astype(u8)), ElementsAre(0, 0, 0, 0, 0, 3, 255, 255, 255, 0));
      EXPECT_THAT(values(x.astype(i8)), ElementsAre(-128, -128, -3, 0, 0, 3, 127, 127, 127, 0));
      EXPECT_THAT(values(x.astype(bool_)), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 1));
    }
    EXPECT_THAT(values(array({0.f, -0.f, 1e-40f}, c).astype(bool_)), ElementsAre(0, 0, 1));
    EXPECT_THAT(values(array({300, -1, 256}, c).astype(u8)), ElementsAre(44, 255, 0));
  }
}

TEST(Copy, RoundsOnceToSixteenBits) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    // 1 + 2^-11 + 2^-40 is above the middle of two halves; f32 would drop the last term.
    const double above = 1 + std::ldexp(1, -11) + std::ldexp(1, -40);
    EXPECT_THAT(
        values(
            array(std::vector<double>{above, 1 + std::ldexp(1, -11), 70000, 1e-8}, c).astype(f16)),
        ElementsAre(1 + std::ldexp(1, -10), 1, std::numeric_limits<double>::infinity(), 0));
    const double middle = 1 + std::ldexp(1, -8) + std::ldexp(1, -40);
    EXPECT_THAT(values(array(std::vector<double>{middle, -middle}, c).astype(bf16)),
                ElementsAre(1 + std::ldexp(1, -7), -1 - std::ldexp(1, -7)));
    // 1 more than the middle of two bf16: f64 would drop it.
    const int64_t tie = (int64_t{1} << 62) + (int64_t{1} << 54);
    EXPECT_THAT(
        values(
            array(std::vector<int64_t>{tie, tie + 1, -tie, -tie - 1, INT64_MIN}, c).astype(bf16)),
        ElementsAre(std::ldexp(1, 62), std::ldexp(129, 55), std::ldexp(-1, 62),
                    std::ldexp(-129, 55), std::ldexp(-1, 63)));
  }
}

TEST(Copy, EveryPairOfDTypesAgreesWithTheFormula) {
  const DType all[] = {f32, f64, f16, bf16, i32, i64, u8, i8, bool_};
  for (Context c : contexts()) {
    for (DType from : all) {
      const Tensor host =
          array(std::vector<double>{-3.75, -1, 0, 1, 2.5, 100, 127, 3, 77}, cpu()).astype(from);
      const Tensor x = host.copyto(c);
      for (DType to : all) {
        SCOPED_TRACE(to_string(c) + " " + name(from) + " to " + name(to));
        const std::vector<double> wanted = values(host.astype(to));
        EXPECT_EQ(values(x.astype(to)), wanted);
        EXPECT_EQ(values(x(Slice({}, {}, -1)).astype(to)),
                  std::vector<double>(wanted.rbegin(), wanted.rend()));
      }
    }
  }
}

TEST(Copy, TheGradientIsCastBack) {
  for (Context c : contexts()) {
    const Tensor x = array({1.f, 2.f, 3.f}, c);
    x.attach_grad();
    Tensor y;
    {
      autograd::Record record;
      y = x.astype(f64);
    }
    y.backward();
    EXPECT_EQ(x.grad().dtype(), f32);
    EXPECT_THAT(values(x.grad()), ElementsAre(1, 1, 1));
  }
}

TEST(Copy, ACloneIsRecorded) {
  for (Context c : contexts()) {
    const Tensor x = array({1.f, 2.f, 3.f}, c);
    x.attach_grad();
    Tensor y;
    {
      autograd::Record record;
      y = x.clone() * 2;
    }
    y.backward();
    EXPECT_THAT(values(x.grad()), ElementsAre(2, 2, 2));
  }
}

}  // namespace
}  // namespace locus::test
