#include <locus/nn/loss.h>

#include <cmath>

#include <locus/core/error.h>
#include <locus/ops/compare.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/reduce.h>
#include <locus/ops/softmax.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

namespace locus::nn {
namespace {

// Scales, and takes the mean over all axes but the first. Weights may have at most `limit`'s shape.
Tensor finish(Tensor loss, double weight, const Tensor& sample_weight, const Shape& limit) {
  if (sample_weight.defined()) {
    if (!broadcasts_to(sample_weight.shape(), limit))
      throw ShapeError("sample_weight ", describe(sample_weight),
                       ": expected a shape that broadcasts to ", limit);
    loss = loss * sample_weight;
  }
  if (weight != 1) loss = loss * weight;
  if (loss.ndim() <= 1) return loss;
  return mean(locus::flatten(loss), {.axis = 1});
}

Tensor like(const Tensor& label, const Tensor& pred, const char* who) {
  if (label.shape() == pred.shape()) return label;
  if (label.size() != pred.size())
    throw ShapeError(who, ": label ", describe(label), " for pred ", describe(pred),
                     "; expected as many elements");
  return label.reshape(pred.shape());
}

}  // namespace

Tensor SoftmaxCrossEntropyLoss::operator()(const Tensor& pred, const Tensor& label,
                                           const Tensor& sample_weight) const {
  const int rank = pred.ndim();
  const bool weighted = sample_weight.defined();
  const bool plain = options_.sparse_label && !options_.from_logits && !weighted;
  if (plain && rank == 2 && (options_.axis == -1 || options_.axis == 1) && label.ndim() == 1)
      [[likely]]
    return finish(softmax_cross_entropy(pred, label), options_.weight, {}, {});
  const int axis = normalize_axis(options_.axis, rank, "SoftmaxCrossEntropyLoss");
  // The classes last, everything else one batch.
  Tensor last = pred;
  for (int i = axis; i + 1 < rank; ++i) last = swapaxes(last, i, i + 1);
  const Shape shape = last.shape();
  const Shape outer(shape.begin(), rank - 1);
  Tensor each;
  if (!options_.sparse_label) {
    const Tensor log_p = options_.from_logits ? pred : log_softmax(pred, {.axis = axis});
    each = -sum(log_p * like(label, pred, "SoftmaxCrossEntropyLoss"), {.axis = axis});
  } else {
    if (label.size() != outer.size())
      throw ShapeError("SoftmaxCrossEntropyLoss: label ", describe(label), " for pred ",
                       describe(pred), " with classes on axis ", axis, "; expected label shape ",
                       outer);
    const Tensor rows = last.reshape({outer.size(), shape[-1]});
    const Tensor ids = label.reshape({outer.size()});
    if (options_.from_logits) {  // pick would cut labels and count negative ones from the end
      const Tensor label_of = where(logical_and(ids >= 0, floor(ids) == ids), ids, NAN);
      each = -pick(rows, label_of);
    } else {
      each = softmax_cross_entropy(rows, ids);
    }
    each = each.reshape(outer);
  }
  if (!weighted || sample_weight.ndim() < rank)
    return finish(each, options_.weight, sample_weight, outer);
  return finish(expand_dims(each, axis), options_.weight, sample_weight, pred.shape());
}

Tensor L2Loss::operator()(const Tensor& pred, const Tensor& label,
                          const Tensor& sample_weight) const {
  return finish(square(pred - like(label, pred, "L2Loss")), weight_ / 2, sample_weight,
                pred.shape());
}

Tensor L1Loss::operator()(const Tensor& pred, const Tensor& label,
                          const Tensor& sample_weight) const {
  return finish(abs(pred - like(label, pred, "L1Loss")), weight_, sample_weight, pred.shape());
}

Tensor SigmoidBinaryCrossEntropyLoss::operator()(const Tensor& pred, const Tensor& label,
                                                 const Tensor& sample_weight) const {
  const Tensor z = like(label, pred, "SigmoidBinaryCrossEntropyLoss");
  if (options_.from_sigmoid) {
    const double eps = pred.dtype() == f16 ? 6e-8 : 1e-12;
    return finish(-(log(pred + eps) * z + log(1 - pred + eps) * (1 - z)), options_.weight,
                  sample_weight, pred.shape());
  }
  const auto times = [](const Tensor& a, const Tensor& b) { return where(a == 0, 0, a * b); };
  return finish(times(1 - z, softplus(pred)) + times(z, softplus(-pred)), options_.weight,
                sample_weight, pred.shape());
}

}  // namespace locus::nn
