// Limits on gradients, in place, between Trainer::allreduce_grads() and update(), or before step().
// Nothing waits: they work inside a compiled step (nn/train_step.h), too.
//
//   loss.backward();
//   clip_global_norm(nn::gradients(net), 1.0);
//   trainer.step(batch);
#pragma once

#include <locus/nn/block.h>

namespace locus {

// Scales arrays, of any contexts and floating dtypes, by max_norm / (norm + 1e-8) where that is
// less than 1 (Gluon's formula): norm is the root of the sum of the squares of all their elements,
// in f64. Returns it, one f64 on the first one's context: norm.item<double>() waits, as Gluon
// always does unless check_isfinite is False. Where it is NaN or infinite nothing is scaled.
// The gradients of a batch's sum of losses are divided by its size only in step(): multiply
// max_norm by it. ValueError for no arrays or a negative max_norm; Error for one with gaps.
Tensor clip_global_norm(const Tensors& arrays, double max_norm);

// Limits each element to [-limit, limit]; NaN stays.
void clip_value(const Tensors& arrays, double limit);

// Whether all elements are finite: 1 or 0, one f64 on the first one's context. ValueError for no
// arrays.
Tensor all_finite(const Tensors& arrays);

namespace nn {

// Of all parameters, but those with grad_req null: on c, else the only replica's or that of
// current_context(). Replicas have equal gradients after allreduce_grads(): clip each context's.
Tensors gradients(const Block& net, std::optional<Context> c = {});
Tensors gradients(const Parameters& parameters, std::optional<Context> c = {});

}  // namespace nn
}  // namespace locus
