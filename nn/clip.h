// Limits on gradients, in place. Call them between Trainer::allreduce_grads() and update(), or
// before step(). They do not wait and may be compiled (nn/train_step.h).
//
//   loss.backward();
//   clip_global_norm(nn::gradients(net), 1.0);
//   trainer.step(1);
//
// trainer.clip_global_norm(1.0, batch_size) (nn/trainer.h) limits the gradients that
// step(batch_size) uses: summed over replicas, divided by batch size and loss scale.
#pragma once

#include <locus/nn/block.h>

namespace locus {

// Scales arrays, of any contexts and floating dtypes, by max_norm / (norm + 1e-8) if this factor is
// less than 1 (Gluon's formula). norm is the root of the sum of all elements' squares, in f64. A
// NaN or infinite norm scales nothing. Returns the norm, one f64 on the first array's context:
// norm.item<double>() waits. step() divides gradients by the batch size later: multiply max_norm by
// the batch size.
//
// Errors of the functions that scale or limit, before anything is written:
//   - ValueError for no arrays, a negative or NaN limit, and arrays that share memory
//   - ShapeError for an array that is not contiguous; DTypeError for an array that is not floating
//   - Error for an undefined array, and in a Record scope for an array in the graph
Tensor clip_global_norm(const Tensors& arrays, double max_norm, Caller = Caller::here());
// The two halves of clip_global_norm(). `norm` is one f64 on any context, else ShapeError.
// global_norm() throws the errors of all_finite().
Tensor global_norm(const Tensors& arrays, Caller = Caller::here());
void clip_to_norm(const Tensors& arrays, const Tensor& norm, double max_norm,
                  Caller = Caller::here());

// Limits each element to [-limit, limit]. NaN stays NaN.
void clip_value(const Tensors& arrays, double limit, Caller = Caller::here());

// Returns 1 if all elements are finite, else 0: one f64 on the first array's context. ValueError
// for no arrays, DTypeError for an array that is not floating.
Tensor all_finite(const Tensors& arrays, Caller = Caller::here());

namespace nn {

// The gradients of all parameters except those with grad_req null, each once: on context c, or of
// the only replica. Error without c if a parameter has several replicas. After allreduce_grads(),
// replicas have equal gradients.
Tensors gradients(const Block& net, std::optional<Context> c = {}, Caller = Caller::here());
Tensors gradients(const Parameters& parameters, std::optional<Context> c = {},
                  Caller = Caller::here());

}  // namespace nn
}  // namespace locus
