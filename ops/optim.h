// Optimizer updates of many tensors in place, named as in MXNet. One launch updates up to 64
// tensors.
//
//   adam_update(weights, grads, {means, vars}, {.lr = 1e-3});
//
// All tensors of a call have one context and one dtype: f32, f64, f16 or bf16. Each state list is
// as long as weights and grads. Position i has one shape in all lists. Weights and states are
// contiguous. f16 and bf16 compute in f32 and round once.
//
// If the lists differ in length, a weight or state has gaps, or a weight is in a graph that is
// recorded, the update throws Error. Other errors: ShapeError, DTypeError, ContextMismatch.
//
// Formulas are those of MXNet 1.x unless stated otherwise. In the formulas, r = rescale_grad * grad
// and clip() limits to clip_gradient.
#pragma once

#include <concepts>
#include <vector>

#include <locus/core/capture.h>
#include <locus/core/tensor.h>
#include <locus/ops/optim_numbers.h>
#include <locus/ops/register.h>

namespace locus {

template <class Numbers>
struct UpdateOp {
  const char* name;
  const char* state_names[4] = {};  // in order, then null

  // Updates weights and states. states[k][i] is state k of weight i. `numbers` may be a function;
  // see Details.
  void operator()(const Tensors& weights, const Tensors& grads, const std::vector<Tensors>& states,
                  const Numbers& numbers) const {
    run(weights, grads, states, Live<Numbers>{numbers});
  }
  void operator()(const Tensors& weights, const Tensors& grads, const std::vector<Tensors>& states,
                  std::invocable auto numbers) const {
    const Context c = weights.empty() ? Context() : weights[0].context();
    run(weights, grads, states, live<Numbers>(c, std::move(numbers)));
  }

 private:
  void run(const Tensors& weights, const Tensors& grads, const std::vector<Tensors>& states,
           const Live<Numbers>& numbers) const;
};

//   w = (1 - lr wd) w - lr clip(r)
inline constexpr UpdateOp<SGDUpdate> sgd_update{"sgd_update"};
//   mom = momentum mom - lr (clip(r) + wd w);  w += mom
inline constexpr UpdateOp<SGDUpdate> sgd_mom_update{"sgd_mom_update", {"mom"}};
// Nesterov's momentum:
//   d = lr (clip(r) + wd w);  mom = momentum mom - d;  w += momentum mom - d
// MXNet 1.9's kernel, in place, decays mom by the weight that it has just written.
inline constexpr UpdateOp<SGDUpdate> nag_mom_update{"nag_mom_update", {"mom"}};
//   g = clip(r + wd w);  mean = beta1 mean + (1 - beta1) g;  var = beta2 var + (1 - beta2) g^2;
//   w -= lr mean / (sqrt(var) + epsilon)
// lr includes the bias correction.
inline constexpr UpdateOp<AdamUpdate> adam_update{"adam_update", {"mean", "var"}};
//   g = clip(r);  mean and var as in adam_update;
//   w -= eta (lr mean / (sqrt(var) + epsilon) + wd w)
// eta is the learning rate and lr the bias correction, as in MXNet 2.x and in 1.x's
// contrib.adamw_update.
inline constexpr UpdateOp<AdamWUpdate> adamw_update{"adamw_update", {"mean", "var"}};
//   g = clip(r + wd w);  n = gamma1 n + (1 - gamma1) g^2;
//   w = clip_weights(w - lr g / sqrt(n + epsilon))
inline constexpr UpdateOp<RMSPropUpdate> rmsprop_update{"rmsprop_update", {"n"}};
// Centered RMSProp, with g and n of rmsprop_update:
//   g_mean = gamma1 g_mean + (1 - gamma1) g;
//   delta = gamma2 delta - lr g / sqrt(n - g_mean^2 + epsilon);  w = clip_weights(w + delta)
inline constexpr UpdateOp<RMSPropUpdate> rmspropalex_update{"rmspropalex_update",
                                                            {"n", "g_mean", "delta"}};
//   g = clip(r);  history += g^2;  w -= lr (g / sqrt(history + epsilon) + wd w)
inline constexpr UpdateOp<AdaGradUpdate> adagrad_update{"adagrad_update", {"history"}};
//   g = clip(r);  acc_g = rho acc_g + (1 - rho) g^2;
//   delta = sqrt(acc_delta + epsilon) / sqrt(acc_g + epsilon) g;
//   acc_delta = rho acc_delta + (1 - rho) delta^2;  w -= lr (delta + wd w)
// MXNet 1.x has no lr; its update is the one with lr = 1.
inline constexpr UpdateOp<AdaDeltaUpdate> adadelta_update{"adadelta_update",
                                                          {"acc_g", "acc_delta"}};
//   g = clip(r + wd w);  mean = beta1 mean + (1 - beta1) g;  most = max(beta2 most, |g|);
//   w -= lr mean / (most + epsilon)
// lr includes the bias correction. epsilon is MXNet 2.x's: without epsilon, a weight whose
// gradients were all 0 becomes NaN.
inline constexpr UpdateOp<AdamUpdate> adamax_update{"adamax_update", {"mean", "most"}};
// With g, mean and var of adam_update:
//   m = (1 - momentum) g / (1 - schedule) + next_momentum mean / (1 - schedule next_momentum);
//   w -= lr m / (sqrt(var / correction2) + epsilon)
inline constexpr UpdateOp<NadamUpdate> nadam_update{"nadam_update", {"mean", "var"}};
//   g = clip(r);  z += g - (sqrt(n + g^2) - sqrt(n)) w / lr;  n += g^2;
//   w = (sign(z) lamda1 - z) / ((beta + sqrt(n)) / lr + wd)
// If |z| <= lamda1, w becomes 0. If lr = 0, nothing changes.
inline constexpr UpdateOp<FtrlUpdate> ftrl_update{"ftrl_update", {"z", "n"}};
//   w = (1 - lr wd) w - lr sign(grad)
inline constexpr UpdateOp<SignumUpdate> signsgd_update{"signsgd_update"};
//   mom = momentum mom - (1 - momentum) (clip(r) + wd w);  w = (1 - lr wd_lh) w + lr sign(mom)
inline constexpr UpdateOp<SignumUpdate> signum_update{"signum_update", {"mom"}};
// Chen et al. 2023; MXNet has no Lion.
//   g = clip(r);  w -= lr (sign(beta1 mom + (1 - beta1) g) + wd w);
//   mom = beta2 mom + (1 - beta2) g
inline constexpr UpdateOp<LionUpdate> lion_update{"lion_update", {"mom"}};
//   g = clip(r);  mean and var as in adam_update;
//   d = mean / correction1 / (sqrt(var / correction2) + epsilon) + wd w;
//   w -= lr ratio d  with  ratio = |w| / |d|
// |w| and |d| are norms of whole tensors. |w| is limited to the bounds. If a norm is 0, ratio is 1.
// One call does MXNet's lamb_update_phase1 and phase2, in two launches.
inline constexpr UpdateOp<LambUpdate> lamb_update{"lamb_update", {"mean", "var"}};
//   mom = momentum mom - ratio (clip(r) + wd w);  w += lr mom
//   with  ratio = eta |w| / (|r| + wd |w| + epsilon)
// |w| and |r| are norms of whole tensors. If a norm is 0 or the tensor has fewer than two axes,
// ratio is 1. MXNet 1.x selects those tensors by names that end with gamma, beta or bias. The
// formula is MXNet 1.x's with momentum_correction; its mom is lr times this mom. Two launches.
inline constexpr UpdateOp<LarsUpdate> lars_update{"lars_update", {"mom"}};

// Reduces many arrays of one floating dtype and one context at once, for gradient clipping
// (nn/clip.h) and loss scaling (nn/loss_scaler.h). Sums are f64; their order depends on the shapes
// alone. If there are no arrays, both throw ValueError.
Tensor multi_sum_sq(const Tensors& arrays);      // (n,) f64: the sum of squares of each array
Tensor multi_all_finite(const Tensors& arrays);  // (1,) f64: 1, or 0 if any is NaN or infinite
// Changes contiguous arrays in place. multi_clip_norm multiplies by min(1, max_norm / (norm +
// 1e-8)). `norm` is one f64 on the arrays' context; if `norm` is not finite, the arrays stay.
// multi_clip limits elements to [-limit, limit]. A max_norm or limit that is negative or NaN is a
// ValueError.
void multi_clip_norm(const Tensors& arrays, const Tensor& norm, double max_norm);
void multi_clip(const Tensors& arrays, double limit);

// --- Details ---
//
// - Mixed precision: if an f16 or bf16 update gets one more state list than it has states, the last
//   list holds f32 master copies of the weights, and all states are f32. The update changes the
//   masters and rounds the weights from them.
// - If a weight differs from its rounded master, as after set_data(), the update starts from the
//   weight.
// - `numbers` may be a function that returns the numbers. A recording (core/capture.h) calls the
//   function before each replay. What the function refers to must live as long as the recording.
// - ValueError for an lr, wd or rescale_grad that is not finite, unless a replay reads it.
// - Optimizers differ in where weight decay and epsilon enter, as in MXNet 1.x.

}  // namespace locus
