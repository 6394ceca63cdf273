// The loss of a network that computes its own gradients (nn/pipeline.h, nn/planned.h).
#pragma once

#include <functional>

#include <locus/core/tensor.h>

namespace locus::nn {

// Returns one loss per sample, (batch,), for a network's results and labels, like a Loss
// (nn/loss.h).
using LossFunction = std::function<Tensor(const Tensor& out, const Tensor& label)>;

// Internal to nn. Error texts begin with `who`.
// ShapeError unless data has one label per sample. Error if data or label expects a gradient,
// because it gets none.
void check_batch(const char* who, const Tensor& data, const Tensor& label);
// loss_fn(out, label). ShapeError unless it gives one loss per sample.
Tensor losses_of(const char* who, const LossFunction& loss_fn, const Tensor& out,
                 const Tensor& label);

}  // namespace locus::nn
