// The functions that bodies of kernels call, against <cmath>.
#include <limits>

#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/kernels.h>

#include "tests/support/contexts.h"
#include "tests/user_kernels/every_name.h"

namespace locus {
namespace {

using test::EveryName;
using test::kernel_contexts;
using test::values;
using testing::ElementsAre;

TEST(KernelNames, TakeOperandsOfAllTypes) {
  const EveryName all;
  // Of 900 functions in one kernel. On GPUs optimizing them takes minutes.
  const ElementwiseKernel k(EveryName::kInputs, EveryName::kOutputs, all.body(), "every_name",
                            {.options = {"--ptxas-options=-O0"}});
  const auto n = static_cast<int64_t>(all.results().size());
  for (Context c : kernel_contexts()) {
    const Tensor half = full({1}, 0.25, {c, f16}), value = zeros({n}, {c, f64});
    const Tensor bytes = zeros({n}, {c, i32});
    k.into({0.5, 0.75, 3, -2, true}, {half, value, bytes}, {.size = 1});
    const std::vector<double> got = values(value), sizes = values(bytes);
    for (size_t at = 0; at < all.results().size(); ++at) {
      const EveryName::Result& r = all.results()[at];
      EXPECT_EQ(sizes[at], r.bytes) << c << ' ' << r.call;
      EXPECT_TRUE(got[at] == r.value || (std::isnan(got[at]) && std::isnan(r.value)) ||
                  std::abs(got[at] - r.value) <= r.tolerance * std::abs(r.value))
          << c << ' ' << r.call << " is " << got[at] << "; expected " << r.value;
    }
  }
}

TEST(KernelNames, MaximaAndMinimaIgnoreNaN) {
  const ElementwiseKernel k("T x, T y", "T a, T b, U c, U d",
                            "a = max(x, y); b = fmin(y, x); c = fmax(U(x), y); d = min(x, U(y));",
                            "of_nan");
  const double kNaN = std::numeric_limits<double>::quiet_NaN();
  for (Context c : kernel_contexts()) {
    const Tensor x = array({1.0f, 0.0f, 0.0f}, c), y = array({0.0f, 2.0f, 0.0f}, c);
    const Tensor nan = full({3}, kNaN, c), wide = zeros({3}, {c, f64});
    const Tensors out = {zeros({3}, c), zeros({3}, c), wide, wide.clone()};
    k.into({nan, y}, {out[0], out[1], out[2], out[3]});
    for (const Tensor& t : out) EXPECT_THAT(values(t), ElementsAre(0, 2, 0));
    k.into({x, nan}, {out[0], out[1], out[2], out[3]});
    for (const Tensor& t : out) EXPECT_THAT(values(t), ElementsAre(1, 0, 0));
  }
}

template <class T>
class KernelAtomics : public testing::Test {};
using Numbers = testing::Types<float, double, int32_t, int64_t, uint8_t, int8_t, bool>;
TYPED_TEST_SUITE(KernelAtomics, Numbers);

// Values after x op v, in T.
template <class T>
double in(auto v) {
  return static_cast<double>(static_cast<T>(v));
}

TYPED_TEST(KernelAtomics, OfEveryType) {
  using T = TypeParam;
  const ElementwiseKernel k("T v", "raw T x, raw T old", test::kAtomics, "atomics");
  const ElementwiseKernel bits("T v", "raw T x, raw T old", test::kBitAtomics, "bit_atomics");
  const T v = static_cast<T>(3), x = static_cast<T>(5);
  for (Context c : kernel_contexts()) {
    const Tensor t = full({7}, 5, {c, dtype_of<T>()}), old = zeros({7}, {c, dtype_of<T>()});
    k.into({3}, {t, old}, {.size = 1});
    EXPECT_THAT(values(t), ElementsAre(in<T>(x + v), in<T>(x - v), in<T>(x), in<T>(v), in<T>(v),
                                       in<T>(v), in<T>(x)));
    EXPECT_EQ(values(old), std::vector<double>(7, in<T>(x)));
    if constexpr (std::is_integral_v<T>) {
      const Tensor y = full({3}, 5, {c, dtype_of<T>()}), before = zeros({3}, {c, dtype_of<T>()});
      bits.into({3}, {y, before}, {.size = 1});
      EXPECT_THAT(values(y), ElementsAre(in<T>(x & v), in<T>(x | v), in<T>(x ^ v)));
      EXPECT_EQ(values(before), std::vector<double>(3, in<T>(x)));
    } else {
      const Tensor nan = full({7}, std::numeric_limits<T>::quiet_NaN(), {c, dtype_of<T>()});
      k.into({3}, {nan, old}, {.size = 1});
      EXPECT_THAT(values(nan(Slice(2, 4))), ElementsAre(3, 3));
      const Tensor five = full({7}, 5, {c, dtype_of<T>()});
      k.into({std::numeric_limits<double>::quiet_NaN()}, {five, old}, {.size = 1});
      EXPECT_THAT(values(five(Slice(2, 4))), ElementsAre(5, 5));
    }
  }
}

// Small elements share a word.
TYPED_TEST(KernelAtomics, OfManyThreadsAtNeighbouringElements) {
  using T = TypeParam;
  if constexpr (!std::is_same_v<T, bool>) {
    const ElementwiseKernel k(
        "", "raw T x",
        "const int at = i % 8;\n"
        "atomicAdd(&x[at], T(1)); atomicSub(&x[8 + at], T(1));\n"
        "atomicMax(&x[16 + at], T(i % 50)); atomicMin(&x[24 + at], T(i % 50));",
        "many_threads");
    for (Context c : kernel_contexts()) {
      const Tensor x = full({32}, 40, {c, dtype_of<T>()});
      k.into({}, {x}, {.size = 40000});
      for (int at = 0; at < 8; ++at) {
        EXPECT_EQ(values(x)[at], in<T>(5040));
        EXPECT_EQ(values(x)[8 + at], in<T>(-4960));
        EXPECT_EQ(values(x)[16 + at], 48 + at % 2);
        EXPECT_EQ(values(x)[24 + at], at % 2);
      }
    }
  }
}

}  // namespace
}  // namespace locus
