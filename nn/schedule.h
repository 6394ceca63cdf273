// Schedules: learning rates by the number of updates, for Trainer::set_schedule(). The first update
// calls schedule(1). Any function may be a schedule. The functions here return MXNet's schedulers,
// which depend on num_update only. Without set_schedule(): trainer.set_learning_rate(schedule(n)).
//
//   trainer.set_schedule(optim::CosineScheduler({.max_update = 10000, .base_lr = 0.1,
//                                                .warmup_steps = 500}));
//
// Warm-up: while num_update < warmup_steps, the rate rises from warmup_begin_lr to base_lr
// (linear), or is warmup_begin_lr (constant). An option out of its range is a ValueError that names
// it. Rates are finite and >= 0.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <locus/core/caller.h>

namespace locus::optim {

using LRScheduler = std::function<double(int64_t num_update)>;

enum class WarmupMode : uint8_t { linear, constant };

// base_lr factor^k, k = floor((num_update - 1) / step). If k > 0, at least stop_factor_lr.
struct FactorSchedulerOptions {
  int64_t step = 1;   // >= 1
  double factor = 1;  // 0 to 1
  double stop_factor_lr = 1e-8, base_lr = 0.01;
  int64_t warmup_steps = 0;
  double warmup_begin_lr = 0;
  WarmupMode warmup_mode = WarmupMode::linear;
};
LRScheduler FactorScheduler(const FactorSchedulerOptions&, Caller = Caller::here());

// base_lr factor^k, if k entries of `step` are below num_update.
struct MultiFactorSchedulerOptions {
  std::vector<int64_t> step = {};  // increasing, >= 1
  double factor = 1;               // 0 to 1
  double base_lr = 0.01;
  int64_t warmup_steps = 0;
  double warmup_begin_lr = 0;
  WarmupMode warmup_mode = WarmupMode::linear;
};
LRScheduler MultiFactorScheduler(const MultiFactorSchedulerOptions&, Caller = Caller::here());

// final_lr + (base_lr - final_lr) (1 - t)^pwr. t rises from 0 at warmup_steps to 1 at max_update,
// and stays 1.
struct PolySchedulerOptions {
  int64_t max_update = 1;  // > warmup_steps
  double base_lr = 0.01, pwr = 2, final_lr = 0;
  int64_t warmup_steps = 0;
  double warmup_begin_lr = 0;
  WarmupMode warmup_mode = WarmupMode::linear;
};
LRScheduler PolyScheduler(const PolySchedulerOptions&, Caller = Caller::here());

// final_lr + (base_lr - final_lr) (1 + cos(pi t)) / 2, with the same t.
struct CosineSchedulerOptions {
  int64_t max_update = 1;  // > warmup_steps
  double base_lr = 0.01, final_lr = 0;
  int64_t warmup_steps = 0;
  double warmup_begin_lr = 0;
  WarmupMode warmup_mode = WarmupMode::linear;
};
LRScheduler CosineScheduler(const CosineSchedulerOptions&, Caller = Caller::here());

// base_lr, after warm-up.
struct ConstantSchedulerOptions {
  double base_lr = 0.01;
  int64_t warmup_steps = 0;
  double warmup_begin_lr = 0;
  WarmupMode warmup_mode = WarmupMode::linear;
};
LRScheduler ConstantScheduler(const ConstantSchedulerOptions&, Caller = Caller::here());

}  // namespace locus::optim
