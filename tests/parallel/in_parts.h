// Shared by the tests of nn::Pipeline and nn::Planned.
#pragma once

#include <optional>
#include <vector>

#include <locus/core/generator.h>
#include <locus/nn/containers.h>
#include <locus/nn/train_step.h>
#include <locus/ops/random.h>
#include "tests/train/training.h"

namespace locus::test {

// The losses of `steps` steps on the same 14 random samples: of `parts`, eager or compiled, if
// there are any, else of the whole network on `first`.
template <class Parts>
std::vector<std::vector<double>> losses_of(nn::Sequential& net, std::optional<Parts>& parts,
                                           nn::Trainer& trainer, DType d, Context first,
                                           bool compiled, int steps) {
  const nn::SoftmaxCrossEntropyLoss loss;
  const auto body = [&](const Tensor& x, const Tensor& y) {
    const Tensor l = parts->forward_backward(x, y, loss);
    trainer.step(x.shape()[0]);
    return l;
  };
  nn::TrainStep step(body, trainer);
  const Tensor x = random::uniform(-1, 1, {14, 12}, {first, d}),
               y = random::randint(0, 5, {14}, {first, i32});
  std::vector<std::vector<double>> losses;
  for (int i = 0; i < steps; ++i)
    losses.push_back(values(!parts     ? eager_step(net, loss, trainer, x, y)
                            : compiled ? step(x, y)
                                       : body(x, y)));
  return losses;
}

}  // namespace locus::test
