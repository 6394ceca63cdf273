#include <locus/nn/loss_scaler.h>

#include <algorithm>
#include <cmath>

#include <locus/core/autograd.h>
#include <locus/core/base/at_line.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/cluster.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/nn/options.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>

namespace locus::amp {
namespace {

constexpr const char* kWho = "LossScaler";
using options::expect;

}  // namespace

LossScaler::LossScaler(const LossScalerOptions& o) : options_(o), scale_(o.init_scale) {
  expect(kWho, "min_scale", o.min_scale, options::positive);
  expect(kWho, "max_scale", o.max_scale, o.max_scale >= o.min_scale && std::isfinite(o.max_scale),
         "a finite number >= min_scale ", o.min_scale);
  expect(kWho, "init_scale", o.init_scale,
         o.init_scale >= o.min_scale && o.init_scale <= o.max_scale,
         "a number between min_scale and max_scale");
  expect(kWho, "scale_factor", o.scale_factor, o.scale_factor > 1 && std::isfinite(o.scale_factor),
         "a finite number > 1");
  expect(kWho, "scale_window", o.scale_window, options::count);
}

void LossScaler::check_state(const LossScalerState& s) const {
  const auto& [low, high] = std::pair(options_.min_scale, options_.max_scale);
  expect(kWho, "loss_scale", s.loss_scale, s.loss_scale >= low && s.loss_scale <= high,
         "a number between min_scale ", low, " and max_scale ", high);
  expect(kWho, "unskipped", s.unskipped, s.unskipped >= 0 && s.unskipped < options_.scale_window,
         "0 or more, and fewer than scale_window ", options_.scale_window);
  expect(kWho, "skipped", s.skipped, options::not_negative);
}

LossScalerState LossScaler::state() const {
  if (!stepped_.empty())
    throw Error(kWho,
                ": its state was asked for between step() and update(); call update() first, which "
                "ends the pass");
  return {scale_, unskipped_, skipped_};
}

void LossScaler::set_state(const LossScalerState& s) {
  check_state(s);
  begin_pass(s.loss_scale, s.unskipped);
  skipped_ = s.skipped;
}

void LossScaler::begin_pass(double scale, int64_t unskipped) {
  if (scale != scale_) {
    const autograd::Pause pause;
    const MutexLock lock(mutex_);
    std::vector<std::pair<Tensor, Tensor>> copies;  // first, may throw OutOfMemory
    for (const auto& [c, tensor] : scales_) copies.emplace_back(full({}, scale, {c, f64}), tensor);
    for (const auto& [now, before] : copies) now.copyto(before);
    scale_ = scale;
  }
  stepped_.clear();
  overflowed_ = false;
  overflows_.expect(false);
  unskipped_ = unskipped;
}

Tensor LossScaler::scale(const Tensor& loss, Caller from) try {
  const UserLine user_line(from);
  overflows_.expect(scale_ > options_.min_scale);
  const Context c = loss.context();
  Tensor factor;
  {
    const MutexLock lock(mutex_);
    if (!scales_.contains(c)) {
      const capture::RecordingPause aside;
      const autograd::Pause pause;
      scales_.emplace(c, full({}, scale_, {c, f64}));
    }
    factor = scales_.at(c);
  }
  const DType d = loss.dtype() == f64 ? f64 : f32;
  return (loss.dtype() == d ? loss : loss.astype(d)) * factor.astype(d);
} catch (const Error&) {
  rethrow_at(from);
}

bool LossScaler::step(nn::Trainer& trainer, int64_t batch_size, bool ignore_stale_grad,
                      Caller from) try {
  const UserLine user_line(from);
  cluster::share_failure(
      [&] {
        expect(kWho, "batch_size", batch_size, options::count);
        if (std::ranges::find(stepped_, trainer.id()) != stepped_.end())
          throw Error(
              kWho,
              ": step() was called twice with one trainer in a pass; call update() after the "
              "last step() of each pass");
      },
      from);
  trainer.allreduce_grads(from);
  const bool finite = trainer.update_if_finite(batch_size, scale_, ignore_stale_grad, from);
  stepped_.push_back(trainer.id());
  if (!finite) {
    ++skipped_;
    overflowed_ = true;
  }
  return finite;
} catch (const Error&) {
  rethrow_at(from);
}

void LossScaler::update() {
  capture::check(
      "LossScaler::update",
      "the host decides on the next scale; compile what comes before LossScaler::step()");
  overflows_.expect(false);
  if (stepped_.empty()) return;
  const bool doubles = !overflowed_ && unskipped_ + 1 == options_.scale_window;
  const double next = overflowed_ ? std::max(scale_ / options_.scale_factor, options_.min_scale)
                      : doubles   ? std::min(scale_ * options_.scale_factor, options_.max_scale)
                                  : scale_;
  begin_pass(next, overflowed_ || doubles ? 0 : unskipped_ + 1);
}

void LossScaler::update(double loss_scale) {
  check_state({.loss_scale = loss_scale});
  capture::check(
      "LossScaler::update",
      "the host decides on the next scale; compile what comes before LossScaler::step()");
  begin_pass(loss_scale, loss_scale == scale_ ? unskipped_ : 0);
}

}  // namespace locus::amp
