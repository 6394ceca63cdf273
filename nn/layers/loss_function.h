// The loss of a network that computes its own gradients (nn/pipeline.h, nn/planned.h).
#pragma once

#include <functional>

#include <locus/core/tensor.h>

namespace locus::nn {

// One loss a sample, (batch,), of a network's results and their labels: a Loss (nn/loss.h), say.
using LossFunction = std::function<Tensor(const Tensor& out, const Tensor& label)>;

// Internal to nn; `who` begins the texts of errors.
// ShapeError unless there is one label for each sample of data, Error for one that waits for a
// gradient: it gets none.
void check_batch(const char* who, const Tensor& data, const Tensor& label);
// loss_fn(out, label). ShapeError unless that is one loss a sample.
Tensor losses_of(const char* who, const LossFunction& loss_fn, const Tensor& out,
                 const Tensor& label);

}  // namespace locus::nn
