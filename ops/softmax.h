// Softmax and the losses built on it, one pass over memory each way.
//
//   const Tensor loss = mean(softmax_cross_entropy(logits, labels));
//
// All functions subtract the row's maximum first, so they do not overflow. A row with NaN or +inf
// is NaN. dtypes are floating; integers and booleans are cast to f64. f16 and bf16 compute in f32.
//
// Gradients read the rounded result, as in PyTorch. If softmax is 1 or 0, its slope is 0.
#pragma once

#include <locus/core/tensor.h>
#include <locus/ops/register.h>

namespace locus {

struct SoftmaxOptions {
  int axis = -1;           // negative axes count from the end
  double temperature = 1;  // softmax(x / temperature); > 0; x's dtype holds it and its inverse
};

// exp(x) / sum(exp(x)) along the axis.
Tensor softmax(const Tensor& x, const SoftmaxOptions& = {}, Caller = Caller::here());
// log(softmax(x)), without the rounding of the two steps.
Tensor log_softmax(const Tensor& x, const SoftmaxOptions& = {}, Caller = Caller::here());

// -log_softmax(logits)[label] for each row: logits (..., classes), labels (...), result (...). The
// caller takes the mean over the batch.
//
// labels are whole numbers in [0, classes), of any dtype (also f32, as in MXNet), without gradient.
// A label out of range is an IndexError that names the label; on a GPU the next wait throws it, and
// the row's loss is NaN. Under autograd::Record, with up to 2^20 logits, one launch also computes
// gradients.
Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, Caller = Caller::here());

}  // namespace locus
