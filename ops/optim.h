// Optimizer updates of many tensors in one launch.
#pragma once

#include <concepts>

#include <locus/core/capture.h>
#include <locus/core/tensor.h>
#include <locus/ops/optim_numbers.h>
#include <locus/ops/register.h>

namespace locus {

namespace detail {
void sgd_update(const Tensors& weights, const Tensors& grads, const Tensors& momenta,
                const Live<SGDUpdate>& update);
}

// One step of MXNet's SGD (1.x), in place, on tensors of one dtype (f32, f64, f16, bf16) and one
// context, with g = clip(rescale_grad * grad):
//   without momenta  w = (1 - lr wd) w - lr g                  (the op sgd_update)
//   with momenta     m = momentum m - lr (g + wd w);  w += m   (the op sgd_mom_update)
// weights, grads and momenta (or none) have one shape at each position; weights and momenta must be
// contiguous. One launch for up to 64 tensors. f16 and bf16 compute in f32 and round once.
// Throws Error when the lists differ in length, or while recording when a weight is in the graph.
void sgd_update(const Tensors& weights, const Tensors& grads, const Tensors& momenta,
                const SGDUpdate& update);
// By the numbers that numbers() gives: a captured graph (core/capture.h) calls it before each
// replay, so what it refers to must live as long.
void sgd_update(const Tensors& weights, const Tensors& grads, const Tensors& momenta,
                std::invocable auto numbers) {
  const Context c = weights.empty() ? Context() : weights[0].context();
  detail::sgd_update(weights, grads, momenta, live<SGDUpdate>(c, std::move(numbers)));
}

}  // namespace locus
