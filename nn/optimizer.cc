#include <locus/nn/optimizer.h>

#include <cmath>
#include <numbers>

#include <locus/core/error.h>
#include <locus/ops/create.h>
#include <locus/ops/optim.h>

namespace locus::optim {

SGD::SGD(const SGDOptions& options) : Optimizer(options.learning_rate), options_(options) {
  if (options.clip_gradient && !(*options.clip_gradient >= 0))
    throw ValueError("SGD: clip_gradient ", *options.clip_gradient, "; expected a limit >= 0");
}

Tensors SGD::create_state(const Tensor& weight) const {
  if (options_.momentum == 0) return {};
  return {zeros_like(weight)};
}

void SGD::update(ParameterGroup& group, double rescale) {
  static const Tensors none;
  const SGDUpdate fixed{.momentum = options_.momentum,
                        .wd = options_.wd * group.wd_mult,
                        .rescale_grad = rescale,
                        .clip_gradient = options_.clip_gradient.value_or(-1)};
  // A graph asks anew at each replay.
  const auto numbers = [fixed, rate = shared_rate(), factor = group.lr_mult] {
    SGDUpdate update = fixed;
    update.lr = *rate * factor;
    return update;
  };
  sgd_update(group.weights, group.gradients, group.state.empty() ? none : group.state[0], numbers);
}

Schedule constant(double base) {
  return [base](int64_t) { return base; };
}

Schedule cosine(double base, int64_t total_steps) {
  if (total_steps <= 0) throw ValueError("cosine: total_steps ", total_steps, "; expected > 0");
  return [base, total_steps](int64_t step) {
    if (step >= total_steps) return 0.0;
    const double t = static_cast<double>(step) / static_cast<double>(total_steps);
    return base * 0.5 * (1 + std::cos(std::numbers::pi * t));
  };
}

}  // namespace locus::optim
