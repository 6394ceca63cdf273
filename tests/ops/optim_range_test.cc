// Updates with intermediate values outside their dtype's range.
#include <cmath>

#include <locus/ops/create.h>
#include <locus/ops/optim.h>
#include "tests/support/contexts.h"
#include "tests/tape/gradcheck.h"

namespace locus::test {
namespace {

using Values = std::vector<double>;

// The square of a small gradient is 0 in f32, the square of a large one infinite.
TEST(FtrlUpdate, DividesByTheRootOfSquaresThatVanishOrOverflow) {
  for (Context c : contexts())
    for (double size : {1e-30, 1e30}) {
      SCOPED_TRACE(text_of(c, " ", size));
      const Tensor w = zeros({2}, c), z = zeros({2}, c), n = zeros({2}, c);
      const FtrlUpdate numbers{.lr = .5, .lamda1 = 0, .beta = 0};
      ftrl_update({w}, {from_values({size, -2 * size}, {2}, c, f32)}, {{z}, {n}}, numbers);
      expect_near(values(z), Values{size, -2 * size}, 1e-6, "z");
      expect_near(values(w), Values{-.5, .5}, 1e-6, "weight");
    }
}

// n + g^2 is near n, so the difference of the roots would be rounding alone.
TEST(FtrlUpdate, KeepsASmallGrowthOfARootBesideALargeWeight) {
  for (Context c : contexts()) {
    const Tensor w = full({1}, 1e9, c), z = zeros({1}, c), n = full({1}, 4, c);
    ftrl_update({w}, {full({1}, 1e-4, c)}, {{z}, {n}}, {.lr = .5});
    expect_near(values(z), Values{1e-4 - 1e-8 / 4 * 1e9 / .5}, 1e-5, "z");
  }
}

// f32 holds the updates but not their ratios of norms.
TEST(OptimizerUpdates, LambAndLarsHaveRatiosOutsideOfTheRangeOfF32) {
  for (Context c : contexts())
    for (const auto& [weight, grad] : {std::pair(1e30, 1e-30), std::pair(1e-20, 1e20)}) {
      SCOPED_TRACE(text_of(c, " ", weight, " ", grad));
      const double tolerance = 2e-6 * std::min(1., weight);
      const auto constant = [c = c](double v) { return full({2, 2}, v, c); };
      const Tensor w = constant(weight), mom = zeros({2, 2}, c);
      lars_update({w}, {constant(grad)}, {{mom}}, {.lr = .5, .eta = .25});
      expect_near(values(mom), Values(4, -.25 * weight), tolerance, "mom");
      expect_near(values(w), Values(4, .875 * weight), tolerance, "weight");
      const Tensor v = constant(weight), mean = constant(grad), var = zeros({2, 2}, c);
      lamb_update({v}, {zeros({2, 2}, c)}, {{mean}, {var}}, {.lr = .5, .epsilon = 1});
      expect_near(values(v), Values(4, .5 * weight), tolerance, "weight of lamb_update");
    }
}

// The new mean and variance are rounded to the states' dtype once, after the weight was computed.
TEST(OptimizerUpdates, LambComputesWeightsBeforeItsStatesAreRounded) {
  for (Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Tensor w = ones({2}, {c, f16}), mean = zeros({2}, {c, f16}), var = zeros({2}, {c, f16});
    const Tensor g = from_values({0x1p-10, 1}, {2}, c, f16);  // the first one's square is 0 in f16
    lamb_update({w}, {g}, {{mean}, {var}}, {.lr = .5, .epsilon = 1e-9});
    expect_near(values(w), Values(2, .5), 1e-3, "weight");
  }
}

}  // namespace
}  // namespace locus::test
