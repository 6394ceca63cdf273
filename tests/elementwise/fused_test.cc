// Fused kernels compute division, special functions and bits as the ops do.
#include <limits>

#include <locus/ops/bitwise.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/fuse.h>
#include <locus/ops/random.h>
#include <locus/ops/special.h>
#include <locus/ops/unary.h>
#include "tests/fuse/same.h"
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

const double kInf = std::numeric_limits<double>::infinity();

Tensors floating(const Tensor& x, const Tensor& y) {
  return {floor_divide(x, y) + x % y * fmod(x, y),
          arctan2(x, y) + copysign(x, y) - heaviside(y, x),
          logaddexp(x, y) * exp2(x),
          nan_to_num(x / y, 1, 2, 3) + degrees(y) - radians(x),
          round(x, 1) - round(y, -1),
          erfc(x) + erfinv(y),
          gamma(x) * digamma(y),
          lgamma(x) - polygamma(2, y),
          sinc(x) + y};
}

TEST(FusedElementwise, HasTheBitsOfTheOps) {
  for (Context c : kernel_contexts())
    for (DType d : {f16, bf16, f32, f64}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      const std::vector<double> ends{0, -0., 1, -1, 2.5, -7, kInf, -kInf, 1e4, 1e-4};
      std::vector<double> a, b;
      for (double x : ends)
        for (double y : ends) {
          a.push_back(x);
          b.push_back(y);
        }
      const Tensor x = array(a, {c, d}), y = array(b, {c, d});
      const Fused f = fuse(floating);
      const Tensors got = f(x, y), want = floating(x, y);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) {
        SCOPED_TRACE(i);
        expect_same(got[i], want[i]);
      }
      EXPECT_EQ(f.stats().kernels, 1u);
    }
}

Tensors whole(const Tensor& x, const Tensor& y) {
  return {floor_divide(x, y) + x % y, fmod(x, y) ^ x,    (x & y) | ~x,
          left_shift(x, y),           right_shift(x, y), round(x, -1)};
}

TEST(FusedElementwise, HasTheBitsOfTheOpsOfIntegers) {
  for (Context c : kernel_contexts())
    for (DType d : {u8, i8, i32, i64}) {
      SCOPED_TRACE(to_string(c) + " " + name(d));
      const double low = d == u8 ? 0 : d == i8 ? -128 : d == i32 ? -0x1p31 : -0x1p63;
      std::vector<double> a, b;
      for (double x : {low, 0., 1., 7., 100., 127.})
        for (double y : {0., 1., 3., 9., 127., d == u8 ? 255. : -1., low}) {
          a.push_back(x);
          b.push_back(y);
        }
      const Tensor x = array(a, {c, f64}).astype(d), y = array(b, {c, f64}).astype(d);
      const Fused f = fuse(whole);
      const Tensors got = f(x, y), want = whole(x, y);
      for (size_t i = 0; i < want.size(); ++i) {
        SCOPED_TRACE(i);
        expect_same(got[i], want[i]);
      }
    }
}

}  // namespace
}  // namespace locus::test
