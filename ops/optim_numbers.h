// The numbers of optimizer updates, named as in MXNet. Every update has lr, wd (weight decay),
// rescale_grad (1 / batch size in Trainer::step) and clip_gradient. clip_gradient limits elements
// of rescale_grad * grad to [-c, c]; negative: no limit.
#pragma once

namespace locus {

struct SGDUpdate {
  double lr = 0.01, momentum = 0, wd = 0, rescale_grad = 1, clip_gradient = -1;
};

struct AdamUpdate {
  double lr = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, wd = 0;
  double rescale_grad = 1, clip_gradient = -1;
};

struct AdamWUpdate {
  double lr = 1, eta = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, wd = 0;
  double rescale_grad = 1, clip_gradient = -1;
};

struct RMSPropUpdate {
  double lr = 0.001, gamma1 = 0.9, gamma2 = 0.9, epsilon = 1e-8, wd = 0;
  double rescale_grad = 1, clip_gradient = -1;
  double clip_weights = -1;  // limits new weights to [-c, c]; negative: no limit
};

struct AdaGradUpdate {
  double lr = 0.01, epsilon = 1e-7, wd = 0, rescale_grad = 1, clip_gradient = -1;
};

struct AdaDeltaUpdate {
  double lr = 1, rho = 0.9, epsilon = 1e-5, wd = 0, rescale_grad = 1, clip_gradient = -1;
};

// momentum: this step's beta1; next_momentum: the next step's; schedule: the product so far.
struct NadamUpdate {
  double lr = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, wd = 0;
  double rescale_grad = 1, clip_gradient = -1;
  double momentum = 0.9, next_momentum = 0.9, schedule = 0, correction2 = 1;
};

struct FtrlUpdate {
  double lr = 0.1, lamda1 = 0.01, beta = 1, wd = 0, rescale_grad = 1, clip_gradient = -1;
};

struct SignumUpdate {
  double lr = 0.01, momentum = 0.9, wd = 0, rescale_grad = 1, clip_gradient = -1;
  double wd_lh = 0;  // decoupled weight decay (Loshchilov and Hutter)
};

struct LionUpdate {
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.99, wd = 0, rescale_grad = 1, clip_gradient = -1;
};

// correction1 and 2: 1 - beta^t, or 1 without bias correction.
struct LambUpdate {
  double lr = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, wd = 0;
  double rescale_grad = 1, clip_gradient = -1;
  double correction1 = 1, correction2 = 1;
  double lower_bound = -1, upper_bound = -1;  // limits of the weight's norm; negative: none
};

struct LarsUpdate {
  double lr = 0.01, momentum = 0, eta = 0.001, epsilon = 0, wd = 0;
  double rescale_grad = 1, clip_gradient = -1;
};

}  // namespace locus
