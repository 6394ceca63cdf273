// Limits on gradients, in place, between Trainer::allreduce_grads() and update(), or before step().
// Nothing waits: they work inside a compiled step (nn/train_step.h), too.
//
//   loss.backward();
//   clip_global_norm(nn::gradients(net), 1.0);
//   trainer.step(1);
//
// trainer.clip_global_norm(1.0, batch) (nn/trainer.h) does it for what step(batch) goes by:
// summed over replicas, divided by the batch's size and the loss's scale.
#pragma once

#include <locus/nn/block.h>

namespace locus {

// Scales arrays, of any contexts and floating dtypes, by max_norm / (norm + 1e-8) where that is
// less than 1 (Gluon's formula): norm is the root of the sum of the squares of all their elements,
// in f64. Returns it, one f64 on the first one's context: norm.item<double>() waits, as Gluon
// always does unless check_isfinite is False. Where it is NaN or infinite nothing is scaled.
// The gradients of a batch's sum of losses are divided by its size only in step(): multiply
// max_norm by it.
//
// Errors of these functions, before anything is written:
//   - ValueError for no arrays, a negative limit and arrays that share memory;
//   - ShapeError for an array that is not contiguous, DTypeError for one that is not floating;
//   - Error for an undefined array, and in a Record scope for one that is in the graph.
Tensor clip_global_norm(const Tensors& arrays, double max_norm, Caller = Caller::here());
// Its two halves: the norm, and scaling by a norm that is known, one f64 on any context.
Tensor global_norm(const Tensors& arrays, Caller = Caller::here());
void clip_to_norm(const Tensors& arrays, const Tensor& norm, double max_norm,
                  Caller = Caller::here());

// Limits each element to [-limit, limit]; NaN stays.
void clip_value(const Tensors& arrays, double limit, Caller = Caller::here());

// Whether all elements are finite: 1 or 0, one f64 on the first one's context. Writes nothing.
// ValueError for no arrays, DTypeError for one that is not floating.
Tensor all_finite(const Tensors& arrays, Caller = Caller::here());

namespace nn {

// Of all parameters, but those with grad_req null: on c, else the only replica's; Error where there
// are several. Replicas have equal gradients after allreduce_grads().
Tensors gradients(const Block& net, std::optional<Context> c = {}, Caller = Caller::here());
Tensors gradients(const Parameters& parameters, std::optional<Context> c = {},
                  Caller = Caller::here());

}  // namespace nn
}  // namespace locus
