// Learning rates by the number of updates: for Trainer::set_schedule(), where the first update asks
// for schedule(1), or for trainer.set_learning_rate(schedule(n)). Any function will do; these are
// MXNet's schedulers, as functions of num_update alone. All are base_lr at first, after warm-up.
//
//   trainer.set_schedule(optim::CosineScheduler({.max_update = 10000, .base_lr = 0.1,
//                                                .warmup_steps = 500}));
//
// Warm-up: while num_update < warmup_steps the rate rises from warmup_begin_lr to base_lr (linear),
// or is warmup_begin_lr (constant). An option out of its range is a ValueError that names it;
// rates are finite and >= 0.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace locus::optim {

using Schedule = std::function<double(int64_t num_update)>;

enum class WarmupMode : uint8_t { linear, constant };

// base_lr factor^k, but at least stop_factor_lr, after k = (num_update - 1) / step whole times.
struct FactorSchedulerOptions {
  int64_t step = 1;   // >= 1
  double factor = 1;  // 0 to 1
  double stop_factor_lr = 1e-8, base_lr = 0.01;
  int64_t warmup_steps = 0;
  double warmup_begin_lr = 0;
  WarmupMode warmup_mode = WarmupMode::linear;
};
Schedule FactorScheduler(const FactorSchedulerOptions&);

// base_lr factor^k, where k of `step` are below num_update.
struct MultiFactorSchedulerOptions {
  std::vector<int64_t> step = {};  // increasing, >= 1
  double factor = 1;               // 0 to 1
  double base_lr = 0.01;
  int64_t warmup_steps = 0;
  double warmup_begin_lr = 0;
  WarmupMode warmup_mode = WarmupMode::linear;
};
Schedule MultiFactorScheduler(const MultiFactorSchedulerOptions&);

// final_lr + (base_lr - final_lr) (1 - t)^pwr, where t goes from 0 after warm-up to 1 at max_update
// and stays there.
struct PolySchedulerOptions {
  int64_t max_update = 1;  // > warmup_steps
  double base_lr = 0.01, pwr = 2, final_lr = 0;
  int64_t warmup_steps = 0;
  double warmup_begin_lr = 0;
  WarmupMode warmup_mode = WarmupMode::linear;
};
Schedule PolyScheduler(const PolySchedulerOptions&);

// final_lr + (base_lr - final_lr) (1 + cos(pi t)) / 2, with the same t.
struct CosineSchedulerOptions {
  int64_t max_update = 1;  // > warmup_steps
  double base_lr = 0.01, final_lr = 0;
  int64_t warmup_steps = 0;
  double warmup_begin_lr = 0;
  WarmupMode warmup_mode = WarmupMode::linear;
};
Schedule CosineScheduler(const CosineSchedulerOptions&);

// Always base_lr, but for warm-up.
struct ConstantSchedulerOptions {
  double base_lr = 0.01;
  int64_t warmup_steps = 0;
  double warmup_begin_lr = 0;
  WarmupMode warmup_mode = WarmupMode::linear;
};
Schedule ConstantScheduler(const ConstantSchedulerOptions&);

}  // namespace locus::optim
