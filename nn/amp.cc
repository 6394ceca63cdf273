#include <locus/nn/amp.h>

#include <algorithm>
#include <cmath>

#include <locus/core/autograd.h>
#include <locus/core/capture_check.h>
#include <locus/core/error.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>

namespace locus::amp {
namespace {

void expect(bool fits, const char* option, auto value, const auto& expected) {
  if (!fits) throw ValueError("LossScaler: ", option, " ", value, "; expected ", expected);
}
bool positive(double v) { return v > 0 && std::isfinite(v); }

}  // namespace

LossScaler::LossScaler(const LossScalerOptions& o) : options_(o), scale_(o.init_scale) {
  expect(positive(o.min_scale), "min_scale", o.min_scale, "a finite number > 0");
  expect(o.max_scale >= o.min_scale && std::isfinite(o.max_scale), "max_scale", o.max_scale,
         "a finite number >= min_scale");
  expect(o.init_scale >= o.min_scale && o.init_scale <= o.max_scale, "init_scale", o.init_scale,
         "a number between min_scale and max_scale");
  expect(o.scale_factor > 1 && std::isfinite(o.scale_factor), "scale_factor", o.scale_factor,
         "a finite number > 1");
  expect(o.scale_window >= 1, "scale_window", o.scale_window, "a number >= 1");
}

void LossScaler::check_state(const LossScalerState& s) const {
  const auto& [low, high] = std::pair(options_.min_scale, options_.max_scale);
  expect(s.loss_scale >= low && s.loss_scale <= high, "loss_scale", s.loss_scale,
         text_of("a number between min_scale ", low, " and max_scale ", high));
  expect(s.unskipped >= 0 && s.unskipped < options_.scale_window, "unskipped", s.unskipped,
         text_of("0 or more, and fewer than scale_window ", options_.scale_window));
  expect(s.skipped >= 0, "skipped", s.skipped, "a number >= 0");
}

void LossScaler::set_state(const LossScalerState& s) {
  check_state(s);
  set_loss_scale(s.loss_scale);
  unskipped_ = s.unskipped;
  skipped_ = s.skipped;
}

void LossScaler::set_loss_scale(double v) {
  check_state({.loss_scale = v});
  const autograd::Pause pause;
  scale_ = v;
  for (const auto& [c, tensor] : scales_) full({}, v, {c, f64}).copyto(tensor);
}

Tensor LossScaler::scale(const Tensor& loss) {
  Tensor& scale = scales_[loss.context()];
  if (!scale.defined()) {
    const capture::Aside aside;
    const autograd::Pause pause;
    scale = full({}, scale_, {loss.context(), f64});
  }
  const DType d = loss.dtype() == f64 ? f64 : f32;
  return (loss.dtype() == d ? loss : loss.astype(d)) * scale.astype(d);
}

bool LossScaler::step(nn::Trainer& trainer, int64_t batch_size, bool ignore_stale_grad,
                      Caller from) {
  trainer.allreduce_grads(from);
  const bool finite = trainer.update_if_finite(batch_size, scale_, ignore_stale_grad, from);
  adjust(finite);
  return finite;
}

void LossScaler::adjust(bool finite) {
  if (!finite) {
    ++skipped_;
    unskipped_ = 0;
    set_loss_scale(std::max(scale_ / options_.scale_factor, options_.min_scale));
  } else if (++unskipped_ == options_.scale_window) {
    unskipped_ = 0;
    set_loss_scale(std::min(scale_ * options_.scale_factor, options_.max_scale));
  }
}

}  // namespace locus::amp
