// Softmax, and the losses built on it: one pass over memory each way.
//
// All are stable: the row's maximum is subtracted first. A row holding NaN or +inf is NaN. Floating
// dtypes; integers and booleans are cast to f64. f16 and bf16 compute in f32.
// The gradients read the rounded result, as in PyTorch: where softmax is 1 or 0, its slope is 0.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

struct SoftmaxOptions {
  int axis = -1;           // negative axes count from the end
  double temperature = 1;  // softmax(x / temperature), above 0; x's dtype holds it and 1 / it
};

// exp(x) / sum(exp(x)) along the axis.
Tensor softmax(const Tensor& x, const SoftmaxOptions& = {}, Caller = Caller::here());
// log(softmax(x)), without the rounding of the two steps.
Tensor log_softmax(const Tensor& x, const SoftmaxOptions& = {}, Caller = Caller::here());

// -log_softmax(logits)[label] for each row: logits (..., classes), labels (...), result (...).
// labels: whole numbers of any dtype (f32 in MXNet's style too), in [0, classes); no gradient. A
// label out of range is an IndexError naming the label; on a GPU the next wait throws it, and the
// row's loss is NaN. The mean over the batch is the caller's. Under autograd::Record the gradient
// of a loss that is called backward() on is made with it.
Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, Caller = Caller::here());

}  // namespace locus
