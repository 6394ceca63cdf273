#include <locus/nn/loss.h>

#include <locus/core/error.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/reduce.h>
#include <locus/ops/softmax.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

namespace locus::nn {
namespace {

// Scales, and takes the mean over all axes but the first.
Tensor finish(Tensor loss, double weight, const Tensor& sample_weight) {
  if (sample_weight.defined()) loss = loss * sample_weight;
  if (weight != 1) loss = loss * weight;
  if (loss.ndim() <= 1) return loss;
  return mean(locus::flatten(loss), {.axis = 1});
}

Tensor like(const Tensor& label, const Tensor& pred, const char* who) {
  if (label.shape() == pred.shape()) return label;
  if (label.size() != pred.size())
    throw ShapeError(std::string(who) + ": label " + describe(label) + " for pred " +
                     describe(pred) + "; expected as many elements");
  return label.reshape(pred.shape());
}

}  // namespace

Tensor SoftmaxCrossEntropyLoss::operator()(const Tensor& pred, const Tensor& label,
                                           const Tensor& sample_weight) const {
  const int rank = pred.ndim();
  const bool plain = options_.sparse_label && !options_.from_logits;
  if (plain && rank == 2 && (options_.axis == -1 || options_.axis == 1) && label.ndim() == 1)
      [[likely]]
    return finish(softmax_cross_entropy(pred, label), options_.weight, sample_weight);
  const int axis = normalize_axis(options_.axis, rank, "SoftmaxCrossEntropyLoss");
  if (!options_.sparse_label) {
    const Tensor log_p = options_.from_logits ? pred : log_softmax(pred, {.axis = axis});
    const Tensor z = like(label, pred, "SoftmaxCrossEntropyLoss");
    return finish(-sum(log_p * z, {.axis = axis}), options_.weight, sample_weight);
  }
  // The classes last, everything else one batch.
  Tensor last = pred;
  for (int i = axis; i + 1 < rank; ++i) last = swapaxes(last, i, i + 1);
  const Shape shape = last.shape();
  const Shape outer(std::span<const int64_t>(shape.begin(), static_cast<size_t>(rank - 1)));
  if (label.size() != outer.size())
    throw ShapeError("SoftmaxCrossEntropyLoss: label " + describe(label) + " for pred " +
                     describe(pred) + " with classes on axis " + std::to_string(axis) +
                     "; expected label shape " + to_string(outer));
  const Tensor rows = last.reshape({outer.size(), shape[-1]});
  const Tensor ids = label.reshape({outer.size()});
  const Tensor each = options_.from_logits ? -pick(rows, ids) : softmax_cross_entropy(rows, ids);
  return finish(each.reshape(outer), options_.weight, sample_weight);
}

Tensor L2Loss::operator()(const Tensor& pred, const Tensor& label,
                          const Tensor& sample_weight) const {
  return finish(square(pred - like(label, pred, "L2Loss")), weight_ / 2, sample_weight);
}

Tensor L1Loss::operator()(const Tensor& pred, const Tensor& label,
                          const Tensor& sample_weight) const {
  return finish(abs(pred - like(label, pred, "L1Loss")), weight_, sample_weight);
}

Tensor SigmoidBinaryCrossEntropyLoss::operator()(const Tensor& pred, const Tensor& label,
                                                 const Tensor& sample_weight) const {
  const Tensor z = like(label, pred, "SigmoidBinaryCrossEntropyLoss");
  if (options_.from_sigmoid) {
    constexpr double eps = 1e-12;
    return finish(-(log(pred + eps) * z + log(1 - pred + eps) * (1 - z)), options_.weight,
                  sample_weight);
  }
  return finish(relu(pred) - pred * z + softplus(-abs(pred)), options_.weight, sample_weight);
}

}  // namespace locus::nn
