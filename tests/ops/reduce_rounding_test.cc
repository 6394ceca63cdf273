// Gradients of reductions do not depend on the rounding of the result or of a mean.
#include <cmath>
#include <functional>

#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus::test {
namespace {

double rounding(DType d) {
  return d == bf16 ? 0x1p-8 : d == f16 ? 0x1p-11 : d == f32 ? 0x1p-24 : 0x1p-53;
}

// The gradient in x's dtype equals the gradient in f64 at the same x, up to a few roundings of the
// largest.
void expect_like_f64(const Tensor& x, const std::function<Tensor(const Tensor&)>& f,
                     double roundings) {
  const auto g = [&](const Tensor& at) {
    return values(gradients([&](const Tensors& in) { return Tensors{f(in[0])}; }, {at}).at(0));
  };
  const std::vector<double> found = g(x), right = g(x.astype(f64));
  double most = 0;
  for (double v : right) most = std::max(most, std::abs(v));
  for (size_t i = 0; i < right.size(); ++i)
    EXPECT_NEAR(found[i], right[i], roundings * rounding(x.dtype()) * most) << i;
}

Tensor around(double center, double width, Context c, DType d) {
  return (arange(37, {cpu(), f64}) % 7 / 7 * width + center).astype(d).as_in_context(c);
}

TEST(ReduceRounding, TheSlopeOfASpreadDoesNotSeeTheMean) {
  for (Context c : contexts())
    for (const DType d : {f32, f16, bf16})
      for (const double center : {0., 3., 250., 1e4}) {
        SCOPED_TRACE(testing::Message() << to_string(c) << " " << name(d) << " " << center);
        const double width = d == f32 ? 1 : std::max(1., center / 4);
        const Tensor x = around(center, width, c, d);
        expect_like_f64(
            x, [](const Tensor& t) { return var(t, {.ddof = 1}); }, 8);
        expect_like_f64(
            x, [](const Tensor& t) { return locus::std(t); }, 8);
      }
}

TEST(ReduceRounding, TheSlopeOfLogSumExpIsASoftmax) {
  for (Context c : contexts())
    for (const DType d : {f32, f16, bf16})
      for (const double center : {0., -300., 300., 3e4}) {
        SCOPED_TRACE(testing::Message() << to_string(c) << " " << name(d) << " " << center);
        expect_like_f64(
            around(center, 5, c, d), [](const Tensor& t) { return logsumexp(t); }, 8);
      }
}

TEST(ReduceRounding, TheSlopeOfANormDoesNotRaiseItsRounding) {
  for (Context c : contexts())
    for (const DType d : {f32, f16, bf16})
      for (const double ord : {-3000., -100., -1., .5, 3., 100., 3000.}) {
        SCOPED_TRACE(testing::Message() << to_string(c) << " " << name(d) << " " << ord);
        const Tensor x = around(2, .3, c, d) * (ord > 0 ? -1 : 1);
        expect_like_f64(
            x, [ord](const Tensor& t) { return norm(t, {.ord = ord}); }, 8 + std::abs(ord) / 20);
      }
}

}  // namespace
}  // namespace locus::test
