#include <locus/nn/schedule.h>

#include <cmath>

#include <locus/core/error.h>
#include "tests/support/contexts.h"

namespace locus::optim {
namespace {

using testing::HasSubstr;

// Values of MXNet 1.9.1's schedulers.
void expect_values(const LRScheduler& s, const std::vector<std::pair<int64_t, double>>& expected) {
  for (const auto& [n, rate] : expected)
    EXPECT_NEAR(s(n), rate, 1e-15 * std::max(1., rate)) << "at " << n;
}

TEST(Schedule, FactorFallsAfterEachWholeStepAndStops) {
  expect_values(
      FactorScheduler({.step = 10, .factor = .5, .stop_factor_lr = .1, .base_lr = 1}),
      {{0, 1}, {1, 1}, {10, 1}, {11, .5}, {20, .5}, {21, .25}, {31, .125}, {41, .1}, {900, .1}});
}

TEST(Schedule, MultiFactorFallsAfterEachOfItsSteps) {
  expect_values(MultiFactorScheduler({.step = {5, 8}, .factor = .1, .base_lr = 1}),
                {{0, 1}, {5, 1}, {6, .1}, {8, .1}, {9, .01}, {900, .01}});
}

TEST(Schedule, PolyFallsToFinal) {
  expect_values(PolyScheduler({.max_update = 100, .base_lr = 1, .pwr = 2, .final_lr = .1}),
                {{0, 1}, {50, .1 + .9 * .25}, {100, .1}, {900, .1}});
}

TEST(Schedule, CosineFallsFromBaseToFinal) {
  const LRScheduler s = CosineScheduler({.max_update = 100, .base_lr = .4});
  expect_values(s, {{0, .4}, {50, .2}, {25, .2 * (1 + std::sqrt(.5))}, {100, 0}, {1000, 0}});
  expect_values(CosineScheduler({.max_update = 100, .base_lr = .4, .final_lr = .1}),
                {{0, .4}, {50, .25}, {101, .1}});
}

TEST(Schedule, WarmUpRisesOrStays) {
  const LRScheduler linear = CosineScheduler(
      {.max_update = 110, .base_lr = .4, .warmup_steps = 10, .warmup_begin_lr = .2});
  expect_values(linear, {{0, .2}, {5, .3}, {10, .4}, {60, .2}, {110, 0}});
  const LRScheduler constant = ConstantScheduler({.base_lr = .4,
                                                  .warmup_steps = 10,
                                                  .warmup_begin_lr = .2,
                                                  .warmup_mode = WarmupMode::constant});
  expect_values(constant, {{0, .2}, {9, .2}, {10, .4}, {1000, .4}});
}

TEST(Schedule, RefusesOptionsOutOfRangeByName) {
  const auto named = [](const char* option, auto make) {
    EXPECT_THAT(test::message_of<ValueError>(make), HasSubstr(option));
  };
  named("step 0", [] { FactorScheduler({.step = 0}); });
  named("factor 1.5", [] { FactorScheduler({.step = 2, .factor = 1.5}); });
  named("step", [] { MultiFactorScheduler({}); });
  named("step 3", [] { MultiFactorScheduler({.step = {3, 3}}); });
  named("max_update 0", [] { CosineScheduler({.max_update = 0}); });
  named("max_update 5", [] { PolyScheduler({.max_update = 5, .warmup_steps = 5}); });
  named("pwr", [] { PolyScheduler({.max_update = 5, .pwr = -1}); });
  named("warmup_steps -1", [] { ConstantScheduler({.warmup_steps = -1}); });
  named("warmup_begin_lr 1", [] { ConstantScheduler({.base_lr = .1, .warmup_begin_lr = 1}); });
  named("base_lr", [] { ConstantScheduler({.base_lr = NAN}); });
  named("base_lr -1", [] { ConstantScheduler({.base_lr = -1, .warmup_begin_lr = -2}); });
  named("factor -0.5", [] { FactorScheduler({.step = 1, .factor = -.5}); });
  named("factor nan", [] { MultiFactorScheduler({.step = {2}, .factor = NAN}); });
  named("warmup_mode 2", [] { ConstantScheduler({.warmup_mode = static_cast<WarmupMode>(2)}); });
  named("final_lr", [] { CosineScheduler({.max_update = 5, .final_lr = -1}); });
  named("stop_factor_lr", [] { FactorScheduler({.stop_factor_lr = NAN}); });
  named("warmup_begin_lr -1", [] { ConstantScheduler({.warmup_begin_lr = -1}); });
}

TEST(Schedules, RefuseANegativeNumberOfUpdates) {
  for (const int64_t warmup : {0, 3})
    for (const LRScheduler& schedule : {FactorScheduler({.step = 2, .warmup_steps = warmup}),
                                        MultiFactorScheduler({.step = {2}, .warmup_steps = warmup}),
                                        PolyScheduler({.max_update = 5, .warmup_steps = warmup}),
                                        CosineScheduler({.max_update = 5, .warmup_steps = warmup}),
                                        ConstantScheduler({.warmup_steps = warmup})}) {
      EXPECT_NO_THROW(schedule(0));
      EXPECT_THAT(test::message_of<ValueError>([&] { schedule(-1); }),
                  HasSubstr("Scheduler: num_update -1; expected a number >= 0"));
    }
}

}  // namespace
}  // namespace locus::optim
