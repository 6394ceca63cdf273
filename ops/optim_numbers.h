// What the optimizer updates are told: plain numbers, as MXNet names them.
#pragma once

namespace locus {

// Of one SGD step.
struct SGDUpdate {
  double lr = 0.01;
  double momentum = 0;
  double wd = 0;              // weight decay
  double rescale_grad = 1;    // 1 / batch size in Trainer::step
  double clip_gradient = -1;  // clips rescale_grad * grad to [-c, c]; negative: not
};

}  // namespace locus
