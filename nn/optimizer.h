// Optimizers: how gradients change weights. nn::Trainer calls them; they hold the numbers (learning
// rate, momentum), the Trainer holds the tensors.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <locus/core/tensor.h>

namespace locus::optim {

// Weights of one context and dtype that share the multipliers, updated together: one launch.
struct ParameterGroup {
  Tensors weights, gradients;
  std::vector<Tensors> state;  // [kind][weight], e.g. state[0][i] is weight i's momentum
  double lr_mult = 1, wd_mult = 1;
};

// An update that is captured (core/capture.h) takes the learning rate of each replay; its other
// numbers are those of the capture. The graph keeps what it reads: the optimizer may go before it.
class Optimizer {
 public:
  explicit Optimizer(double learning_rate) : rate_(std::make_shared<double>(learning_rate)) {}
  Optimizer(const Optimizer& other) : Optimizer(other.learning_rate()) {}
  Optimizer& operator=(const Optimizer& other) {
    *rate_ = *other.rate_;
    return *this;
  }
  virtual ~Optimizer() = default;

  double learning_rate() const { return *rate_; }
  void set_learning_rate(double v) { *rate_ = v; }

  // The state tensors of one weight, on its context.
  virtual Tensors create_state(const Tensor& weight) const = 0;
  // Updates weights and state in place. Gradients are multiplied by `rescale` first.
  virtual void update(ParameterGroup& group, double rescale) = 0;

 protected:
  // For graphs that outlive the optimizer.
  std::shared_ptr<const double> shared_rate() const { return rate_; }

 private:
  std::shared_ptr<double> rate_;
};

struct SGDOptions {
  double learning_rate = 0.01, momentum = 0, wd = 0;
  std::optional<double> clip_gradient = {};  // limits each rescaled element to [-c, c]
};

// g = clip(rescale * gradient) + wd * w;  m = momentum * m - lr * g;  w += m  (MXNet 1.x's order of
// the learning rate; weight decay applies to biases too).
class SGD : public Optimizer {
 public:
  explicit SGD(const SGDOptions& options = {});
  const SGDOptions& options() const { return options_; }

  Tensors create_state(const Tensor& weight) const override;
  void update(ParameterGroup& group, double rescale) override;

 private:
  SGDOptions options_;
};

// Learning rates by step, counted from 0, for trainer.set_learning_rate(schedule(step)).
using Schedule = std::function<double(int64_t step)>;
Schedule constant(double base);
// From base down to 0 along half a cosine; 0 from total_steps on.
Schedule cosine(double base, int64_t total_steps);

}  // namespace locus::optim
