#include <locus/nn/optimizer.h>

#include <cmath>
#include <numbers>

#include <locus/core/error.h>
#include <locus/ops/create.h>
#include <locus/ops/optim.h>

namespace locus::optim {

SGD::SGD(const SGDOptions& options) : Optimizer(options.learning_rate), options_(options) {
  if (options.clip_gradient && !(*options.clip_gradient >= 0))
    throw ValueError("SGD: clip_gradient " + std::to_string(*options.clip_gradient) +
                     "; expected a limit >= 0");
}

Tensors SGD::create_state(const Tensor& weight) const {
  if (options_.momentum == 0) return {};
  return {zeros_like(weight)};
}

void SGD::update(ParameterGroup& group, double rescale) {
  static const Tensors none;
  // A graph asks anew at each replay.
  const auto numbers = [this, rescale, lr_mult = group.lr_mult, wd_mult = group.wd_mult] {
    return SGDUpdate{.lr = learning_rate() * lr_mult,
                     .momentum = options_.momentum,
                     .wd = options_.wd * wd_mult,
                     .rescale_grad = rescale,
                     .clip_gradient = options_.clip_gradient.value_or(-1)};
  };
  sgd_update(group.weights, group.gradients, group.state.empty() ? none : group.state[0], numbers);
}

Schedule constant(double base) {
  return [base](int64_t) { return base; };
}

Schedule cosine(double base, int64_t total_steps) {
  if (total_steps <= 0)
    throw ValueError("cosine: total_steps " + std::to_string(total_steps) + "; expected > 0");
  return [base, total_steps](int64_t step) {
    if (step >= total_steps) return 0.0;
    const double t = static_cast<double>(step) / static_cast<double>(total_steps);
    return base * 0.5 * (1 + std::cos(std::numbers::pi * t));
  };
}

}  // namespace locus::optim
