// Optimizer updates of many tensors, by MXNet's names: adam_update and the like. One launch for up
// to 64 tensors.
//
//   adam_update(weights, grads, {means, vars}, {.lr = 1e-3});
//
// writes weights and states in place. All are of one dtype (f32, f64, f16, bf16) and one context;
// weights, grads and each of the states are as many, of one shape at each position; weights and
// states contiguous. f16 and bf16 compute in f32 and round once. Mixed precision: with one state
// more than the update has, the last are f32 master copies of f16 or bf16 weights and all states
// are f32; masters are updated and weights rounded from them, but where a weight is no longer its
// master rounded, as after set_data(), the weight counts. Instead of the numbers a function that
// gives them may stand: a recording (core/capture.h) calls it before each replay, so what it refers
// to must live as long.
//
// Throws Error when the lists differ in length or a tensor has gaps, or while recording when a
// weight is in the graph; ShapeError, DTypeError, ContextMismatch.
//
// Formulas are those of MXNet 1.x, which differs from optimizer to optimizer in where weight decay
// and epsilon enter, unless said otherwise. r = rescale_grad * grad; clip() limits to
// clip_gradient.
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

  // states[k][i]: state k of weight i.
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

// w = (1 - lr wd) w - lr clip(r)
inline constexpr UpdateOp<SGDUpdate> sgd_update{"sgd_update"};
// mom = momentum mom - lr (clip(r) + wd w);  w += mom
inline constexpr UpdateOp<SGDUpdate> sgd_mom_update{"sgd_mom_update", {"mom"}};
// Nesterov's: d = lr (clip(r) + wd w);  mom = momentum mom - d;  w += momentum mom - d
// (MXNet 1.9's kernel, in place, decays mom by the weight that it has just written.)
inline constexpr UpdateOp<SGDUpdate> nag_mom_update{"nag_mom_update", {"mom"}};
// g = clip(r + wd w);  mean = beta1 mean + (1 - beta1) g;  var = beta2 var + (1 - beta2) g^2;
// w -= lr mean / (sqrt(var) + epsilon). The corrections of the start are in lr.
inline constexpr UpdateOp<AdamUpdate> adam_update{"adam_update", {"mean", "var"}};
// Adam's mean and var of g = clip(r);  w -= eta (lr mean / (sqrt(var) + epsilon) + wd w): eta is
// the rate, lr the corrections of the start (MXNet 2.x and 1.x's contrib.adamw_update).
inline constexpr UpdateOp<AdamWUpdate> adamw_update{"adamw_update", {"mean", "var"}};
// g = clip(r + wd w);  n = gamma1 n + (1 - gamma1) g^2;
// w = clip_weights(w - lr g / sqrt(n + epsilon))
inline constexpr UpdateOp<RMSPropUpdate> rmsprop_update{"rmsprop_update", {"n"}};
// Centered: n as above;  g_mean = gamma1 g_mean + (1 - gamma1) g;
// delta = gamma2 delta - lr g / sqrt(n - g_mean^2 + epsilon);  w = clip_weights(w + delta)
inline constexpr UpdateOp<RMSPropUpdate> rmspropalex_update{"rmspropalex_update",
                                                            {"n", "g_mean", "delta"}};
// g = clip(r);  history += g^2;  w -= lr (g / sqrt(history + epsilon) + wd w)
inline constexpr UpdateOp<AdaGradUpdate> adagrad_update{"adagrad_update", {"history"}};
// g = clip(r);  acc_g = rho acc_g + (1 - rho) g^2;
// delta = sqrt(acc_delta + epsilon) / sqrt(acc_g + epsilon) g;
// acc_delta = rho acc_delta + (1 - rho) delta^2;  w -= lr (delta + wd w): 1.x, which has no lr, for
// lr = 1.
inline constexpr UpdateOp<AdaDeltaUpdate> adadelta_update{"adadelta_update",
                                                          {"acc_g", "acc_delta"}};
// g = clip(r + wd w);  mean = beta1 mean + (1 - beta1) g;  most = max(beta2 most, |g|);
// w -= lr mean / (most + epsilon). The correction of the start is in lr. epsilon as in 2.x: without
// it a weight whose gradients were all 0 becomes NaN.
inline constexpr UpdateOp<AdamUpdate> adamax_update{"adamax_update", {"mean", "most"}};
// Adam's g, mean and var;  w -= lr m / (sqrt(var / correction2) + epsilon) with
// m = (1 - momentum) g / (1 - schedule) + next_momentum mean / (1 - schedule next_momentum)
inline constexpr UpdateOp<NadamUpdate> nadam_update{"nadam_update", {"mean", "var"}};
// g = clip(r);  z += g - (sqrt(n + g^2) - sqrt(n)) w / lr;  n += g^2;
// w = (sign(z) lamda1 - z) / ((beta + sqrt(n)) / lr + wd), and 0 where |z| <= lamda1
inline constexpr UpdateOp<FtrlUpdate> ftrl_update{"ftrl_update", {"z", "n"}};
// w = (1 - lr wd) w - lr sign(grad)
inline constexpr UpdateOp<SignumUpdate> signsgd_update{"signsgd_update"};
// mom = momentum mom - (1 - momentum) (clip(r) + wd w);  w = (1 - lr wd_lh) w + lr sign(mom)
inline constexpr UpdateOp<SignumUpdate> signum_update{"signum_update", {"mom"}};
// Chen et al. 2023 (MXNet has none): g = clip(r);
// w -= lr (sign(beta1 mom + (1 - beta1) g) + wd w);  mom = beta2 mom + (1 - beta2) g
inline constexpr UpdateOp<LionUpdate> lion_update{"lion_update", {"mom"}};
// g = clip(r);  mean, var as Adam's;
// d = mean / correction1 / (sqrt(var / correction2) + epsilon) + wd w;
// w -= lr ratio d with ratio = |w| / |d|, norms of whole tensors, |w| between the bounds; 1 where a
// norm is 0. MXNet's lamb_update_phase1 and 2; two launches.
inline constexpr UpdateOp<LambUpdate> lamb_update{"lamb_update", {"mean", "var"}};
// mom = momentum mom - ratio (clip(r) + wd w);  w += lr mom with
// ratio = eta |w| / (|r| + wd |w| + epsilon), norms of whole tensors; 1 where a norm is 0, and for
// tensors of fewer than two axes (1.x: whose names end with gamma, beta or bias). 1.x with
// momentum_correction, where mom is lr times this. Two launches.
inline constexpr UpdateOp<LarsUpdate> lars_update{"lars_update", {"mom"}};

// Of many arrays of one dtype (floating) and one context in one launch, for the norm of gradients
// and what is done about it (nn/clip.h, nn/loss_scaler.h). Sums are f64, in an order that depends
// on the shapes alone. ValueError for no arrays.
Tensor multi_sum_sq(const Tensors& arrays);      // (n,) f64: the sum of squares of each
Tensor multi_all_finite(const Tensors& arrays);  // (1,) f64: 1, or 0 where one is NaN or infinite
// In place, contiguous arrays: times min(1, max_norm / (norm + 1e-8)), where norm, one f64 on the
// same context, is finite; and limited to [-limit, limit].
void multi_clip_norm(const Tensors& arrays, const Tensor& norm, double max_norm);
void multi_clip(const Tensors& arrays, double limit);

}  // namespace locus
