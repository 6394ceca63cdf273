#include <locus/nn/schedule.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include <locus/core/base/at_line.h>
#include <locus/nn/options.h>

namespace locus::optim {
namespace {

using options::expect, options::not_negative, options::share;

// Warm-up, then `after`. The returned function refuses a negative number of updates.
template <class Options>
LRScheduler warmed_up(const char* who, const Options& o, LRScheduler after) {
  expect(who, "base_lr", o.base_lr, not_negative);
  expect(who, "warmup_steps", o.warmup_steps, not_negative);
  expect(who, "warmup_begin_lr", o.warmup_begin_lr,
         o.warmup_begin_lr >= 0 && o.warmup_begin_lr <= o.base_lr, "0 to base_lr ", o.base_lr);
  options::expect_enumerator(who, "warmup_mode", o.warmup_mode, WarmupMode::constant,
                             "WarmupMode::linear or WarmupMode::constant");
  return [who, steps = o.warmup_steps, begin = o.warmup_begin_lr,
          rise = o.warmup_mode == WarmupMode::linear ? o.base_lr - o.warmup_begin_lr : 0,
          after = std::move(after)](int64_t n) {
    expect(who, "num_update", n, n >= 0, "a number >= 0");
    if (n >= steps) return after(n);
    return begin + rise * static_cast<double>(n) / static_cast<double>(steps);
  };
}

// final_lr + (base_lr - final_lr) fall(t)
template <class Options>
LRScheduler falling(const char* who, const Options& o, std::function<double(double)> fall) {
  expect(who, "max_update", o.max_update, o.max_update >= 1 && o.max_update > o.warmup_steps,
         "a number >= 1 and above warmup_steps ", o.warmup_steps);
  expect(who, "final_lr", o.final_lr, not_negative);
  return warmed_up(who, o, [o, fall = std::move(fall)](int64_t n) {
    const auto at = [&](int64_t i) { return static_cast<double>(i - o.warmup_steps); };
    return o.final_lr +
           (o.base_lr - o.final_lr) * fall(at(std::min(n, o.max_update)) / at(o.max_update));
  });
}

}  // namespace

LRScheduler FactorScheduler(const FactorSchedulerOptions& o, Caller from) try {
  constexpr const char* kWho = "FactorScheduler";
  expect(kWho, "step", o.step, options::count);
  expect(kWho, "factor", o.factor, share);
  expect(kWho, "stop_factor_lr", o.stop_factor_lr, not_negative);
  return warmed_up(kWho, o, [o](int64_t n) {
    const int64_t k = n <= 0 ? 0 : (n - 1) / o.step;
    if (k == 0) return o.base_lr;
    return std::max(o.base_lr * std::pow(o.factor, static_cast<double>(k)), o.stop_factor_lr);
  });
} catch (const Error&) {
  rethrow_at(from);
}

LRScheduler MultiFactorScheduler(const MultiFactorSchedulerOptions& o, Caller from) try {
  constexpr const char* kWho = "MultiFactorScheduler";
  expect(kWho, "step", "{}", !o.step.empty(), "at least one number");
  for (size_t i = 0; i < o.step.size(); ++i)
    expect(kWho, "step", o.step[i], o.step[i] >= 1 && (i == 0 || o.step[i] > o.step[i - 1]),
           "increasing numbers >= 1");
  expect(kWho, "factor", o.factor, share);
  return warmed_up(kWho, o, [o](int64_t n) {
    const auto k = std::ranges::lower_bound(o.step, n) - o.step.begin();
    return o.base_lr * std::pow(o.factor, static_cast<double>(k));
  });
} catch (const Error&) {
  rethrow_at(from);
}

LRScheduler PolyScheduler(const PolySchedulerOptions& o, Caller from) try {
  expect("PolyScheduler", "pwr", o.pwr, not_negative);
  return falling("PolyScheduler", o, [pwr = o.pwr](double t) { return std::pow(1 - t, pwr); });
} catch (const Error&) {
  rethrow_at(from);
}

LRScheduler CosineScheduler(const CosineSchedulerOptions& o, Caller from) try {
  return falling("CosineScheduler", o,
                 [](double t) { return (1 + std::cos(std::numbers::pi * t)) / 2; });
} catch (const Error&) {
  rethrow_at(from);
}

LRScheduler ConstantScheduler(const ConstantSchedulerOptions& o, Caller from) try {
  return warmed_up("ConstantScheduler", o, [base = o.base_lr](int64_t) { return base; });
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace locus::optim
