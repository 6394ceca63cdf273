#include <locus/nn/loss.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include <locus/core/base/at_line.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/nn/layers/loss_parts.h>
#include <locus/nn/options.h>
#include <locus/ops/activation.h>
#include <locus/ops/call_check.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/index.h>
#include <locus/ops/join.h>
#include <locus/ops/reduce.h>
#include <locus/ops/softmax.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

namespace locus::nn {
namespace {

Shape without(const Shape& shape, int axis) {
  return Shape(without_axis(make_meta(f32, shape), axis));
}

// Weighs losses over one axis of `shape`. The result has this axis, of length 1 without weights
// for it.
Tensor weigh_over(const char* who, const Tensor& loss, int axis, const Shape& shape, double weight,
                  const Tensor& sample_weight) {
  if (!sample_weight.defined() || sample_weight.ndim() < shape.rank())
    return expand_dims(weigh(who, loss, weight, sample_weight, without(shape, axis)), axis);
  return weigh(who, expand_dims(loss, axis), weight, sample_weight, shape);
}

// Reduces over all axes but batch_axis.
Tensor reduced(const char* who, const Tensor& loss, int batch_axis,
               Tensor (*reduce)(const Tensor&, const ReduceOptions&, Caller) = mean) {
  if (loss.ndim() == 0) return loss;
  const int rank = loss.ndim(), axis = batch_axis < 0 ? batch_axis + rank : batch_axis;
  if (axis < 0 || axis >= rank)
    throw ShapeError(who, ": batch_axis ", batch_axis, " for losses of shape ", loss.shape(),
                     "; expected an axis in [", -rank, ", ", rank, ")");
  if (rank == 1) return loss;
  return reduce(locus::flatten(axis == 0 ? loss : swapaxes(loss, 0, axis)), {.axis = 1},
                Caller::here());
}

// Weighs, reduces and rounds an elementwise loss.
Tensor finish(const char* who, const Tensor& loss, const auto& options, const Tensor& pred,
              const Tensor& label, const Tensor& sample_weight, const auto&... others) {
  const Tensor weighed = weigh(who, loss, options.weight, sample_weight, loss.shape());
  return rounded(reduced(who, weighed, options.batch_axis),
                 {&pred, &label, &sample_weight, &others...});
}

Tensor like(const Tensor& label, const Tensor& pred, const char* who, const char* what = "label") {
  if (label.size() != pred.size())
    throw ShapeError(who, ": ", what, " ", describe(label), " for pred ", describe(pred),
                     "; expected as many elements");
  const Tensor shaped = label.shape() == pred.shape() ? label : label.reshape(pred.shape());
  return is_floating(label.dtype()) ? wide(shaped) : cast(shaped, wide(pred.dtype()));
}

// a * b, but 0 if a is 0 and b infinite.
Tensor times(const Tensor& a, const Tensor& b) {
  return a * where(logical_and(a == 0, isinf(b)), 0, b);
}

Tensor binary_cross_entropy(const Tensor& x, const Tensor& z, const Tensor& positive) {
  return times(1 - z, softplus(x)) + times(positive, softplus(-x));
}

Tensor margin_loss(const Tensor& scores, const Tensor& label, double margin, const char* who) {
  return relu(margin - wide(scores) * like(label, scores, who));
}

Tensor of_label(const char* who, const Tensor& label, int64_t classes, const auto& f) {
  return checked(
      {who, "label", label, classes}, [&] { return label; }, f);
}

}  // namespace

Tensor L2Loss::operator()(const Tensor& scores, const Tensor& label, const Tensor& sample_weight,
                          Caller from) const try {
  const UserLine user_line(from);
  const Tensor pred = wide(scores);
  return finish(kName, square(pred - like(label, scores, kName)),
                LossOptions{options_.weight / 2, options_.batch_axis}, scores, label,
                sample_weight);
} catch (const Error&) {
  rethrow_at(from);
}

Tensor L1Loss::operator()(const Tensor& scores, const Tensor& label, const Tensor& sample_weight,
                          Caller from) const try {
  const UserLine user_line(from);
  const Tensor pred = wide(scores);
  return finish(kName, abs(pred - like(label, scores, kName)), options_, scores, label,
                sample_weight);
} catch (const Error&) {
  rethrow_at(from);
}

HuberLoss::HuberLoss(const HuberOptions& options) : Loss(options) {
  options::expect(kName, "rho", options.rho, options::positive);
}

Tensor HuberLoss::operator()(const Tensor& scores, const Tensor& label, const Tensor& sample_weight,
                             Caller from) const try {
  const UserLine user_line(from);
  const Tensor pred = wide(scores);
  return finish(kName, smooth_l1(pred - like(label, scores, kName), 1 / std::sqrt(options_.rho)),
                options_, scores, label, sample_weight);
} catch (const Error&) {
  rethrow_at(from);
}

Tensor SoftmaxCrossEntropyLoss::operator()(const Tensor& scores, const Tensor& label,
                                           const Tensor& sample_weight, Caller from) const try {
  const UserLine user_line(from);
  const int rank = scores.ndim();
  // 16-bit losses round once, after the weight.
  const bool plain = options_.sparse_label && !options_.from_logits && !sample_weight.defined() &&
                     (options_.weight == 1 || size_of(scores.dtype()) != 2);
  if (plain && rank == 2 && (options_.axis == -1 || options_.axis == 1) && label.ndim() == 1 &&
      options_.batch_axis == 0) [[likely]]
    return of_label(kName, label, scores.shape()[1], [&] {
      return weigh(kName, softmax_cross_entropy(scores, label), options_.weight, {}, {});
    });
  const Tensor pred = wide(scores);
  const int axis = locus::detail::axis_of(scores, options_.axis, kName);
  // Classes last, all other axes one batch.
  Tensor last = pred;
  for (int i = axis; i + 1 < rank; ++i) last = swapaxes(last, i, i + 1);
  const Shape outer = without(pred.shape(), axis);
  Tensor each;
  if (!options_.sparse_label) {
    const Tensor log_p = options_.from_logits ? pred : log_softmax(pred, {.axis = axis});
    each = -sum(times(like(label, scores, kName), log_p), {.axis = axis});
  } else {
    if (label.size() != outer.size())
      throw ShapeError(kName, ": label ", describe(label), " for pred ", describe(scores),
                       " with classes on axis ", axis, "; expected label shape ", outer);
    const Tensor rows = last.reshape({outer.size(), pred.shape()[axis]});
    const Tensor ids = label.reshape({outer.size()});
    if (options_.from_logits) {  // pick would truncate labels and count negative ones from the end
      const Tensor label_of = where(logical_and(ids >= 0, floor(ids) == ids), ids, NAN);
      each = of_label(kName, label, rows.shape()[1], [&] { return -pick(rows, label_of); });
    } else {
      each =
          of_label(kName, label, rows.shape()[1], [&] { return softmax_cross_entropy(rows, ids); });
    }
    each = each.reshape(outer);
  }
  const Tensor weighed =
      weigh_over(kName, each, axis, pred.shape(), options_.weight, sample_weight);
  const Tensor& probabilities = options_.sparse_label ? scores : label;
  return rounded(reduced(kName, weighed, options_.batch_axis),
                 {&scores, &probabilities, &sample_weight});
} catch (const Error&) {
  rethrow_at(from);
}

Tensor SigmoidBinaryCrossEntropyLoss::operator()(const Tensor& scores, const Tensor& label,
                                                 const Tensor& sample_weight,
                                                 const Tensor& pos_weight, Caller from) const try {
  const UserLine user_line(from);
  const Tensor pred = wide(scores);
  const Tensor z = like(label, scores, kName);
  Tensor positive = z;
  if (pos_weight.defined()) {
    if (!broadcasts_to(pos_weight.shape(), pred.shape()))
      throw ShapeError(kName, ": pos_weight ", describe(pos_weight),
                       ": expected a shape that broadcasts to ", pred.shape());
    positive = z * pos_weight;
  }
  if (!options_.from_sigmoid)
    return finish(kName, binary_cross_entropy(pred, z, positive), options_, scores, label,
                  sample_weight, pos_weight);
  const double eps = 1e-12;
  return finish(kName, -(log(pred + eps) * positive + log(1 - pred + eps) * (1 - z)), options_,
                scores, label, sample_weight, pos_weight);
} catch (const Error&) {
  rethrow_at(from);
}

LogisticLoss::LogisticLoss(const LogisticOptions& options) : Loss(options) {
  locus::options::expect_enumerator(kName, "label_format", options.label_format,
                                    LabelFormat::binary,
                                    "LabelFormat::signed_ or LabelFormat::binary");
}

Tensor LogisticLoss::operator()(const Tensor& scores, const Tensor& label,
                                const Tensor& sample_weight, Caller from) const try {
  const UserLine user_line(from);
  const Tensor pred = wide(scores);
  Tensor z = like(label, scores, kName);
  if (options_.label_format == LabelFormat::signed_) z = (z + 1) / 2;
  return finish(kName, binary_cross_entropy(pred, z, z), options_, scores, label, sample_weight);
} catch (const Error&) {
  rethrow_at(from);
}

Tensor KLDivLoss::operator()(const Tensor& scores, const Tensor& label, const Tensor& sample_weight,
                             Caller from) const try {
  const UserLine user_line(from);
  const Tensor pred = wide(scores);
  const Tensor log_p = options_.from_logits ? pred : log_softmax(pred, {.axis = options_.axis});
  const Tensor z = like(label, scores, kName);
  const Tensor loss = xlogy(z, z) - times(z, log_p);
  const Tensor weighed = weigh(kName, loss, options_.weight, sample_weight, pred.shape());
  return rounded(reduced(kName, weighed, options_.batch_axis, sum),
                 {&scores, &label, &sample_weight});
} catch (const Error&) {
  rethrow_at(from);
}

Tensor HingeLoss::operator()(const Tensor& scores, const Tensor& label, const Tensor& sample_weight,
                             Caller from) const try {
  const UserLine user_line(from);
  return finish(kName, margin_loss(scores, label, options_.margin, kName), options_, scores, label,
                sample_weight);
} catch (const Error&) {
  rethrow_at(from);
}

Tensor SquaredHingeLoss::operator()(const Tensor& scores, const Tensor& label,
                                    const Tensor& sample_weight, Caller from) const try {
  const UserLine user_line(from);
  return finish(kName, square(margin_loss(scores, label, options_.margin, kName)), options_, scores,
                label, sample_weight);
} catch (const Error&) {
  rethrow_at(from);
}

Tensor TripletLoss::operator()(const Tensor& scores, const Tensor& positive, const Tensor& negative,
                               Caller from) const try {
  const UserLine user_line(from);
  const Tensor pred = wide(scores);
  const Tensor near = square(like(positive, scores, kName, "positive") - pred);
  const Tensor far = square(like(negative, scores, kName, "negative") - pred);
  const Tensor apart = relu(reduced(kName, near - far, options_.batch_axis, sum) + options_.margin);
  return rounded(weigh(kName, apart, options_.weight, {}, {}), {&scores, &positive, &negative});
} catch (const Error&) {
  rethrow_at(from);
}

Tensor PoissonNLLLoss::operator()(const Tensor& scores, const Tensor& label,
                                  const Tensor& sample_weight, Caller from) const try {
  const UserLine user_line(from);
  const Tensor pred = wide(scores);
  const Tensor z = like(label, scores, kName);
  Tensor loss =
      options_.from_logits ? exp(pred) - times(z, pred) : pred - z * log(pred + options_.epsilon);
  if (options_.compute_full) {
    const Tensor n = where(z > 1, z, 1);
    loss = loss + where(z > 1, n * log(n) - n + log(n * (2 * std::numbers::pi)) / 2, 0);
  }
  return rounded(mean(weigh(kName, loss, options_.weight, sample_weight, pred.shape())),
                 {&scores, &label, &sample_weight});
} catch (const Error&) {
  rethrow_at(from);
}

Tensor CosineEmbeddingLoss::operator()(const Tensor& input1, const Tensor& input2,
                                       const Tensor& label, const Tensor& sample_weight,
                                       Caller from) const try {
  const UserLine user_line(from);
  const int last = locus::detail::axis_of(input2, -1, kName);
  // Scales the largest element to 1 first: the norm of x may not fit its dtype. The factor does
  // not affect the result or its gradients.
  const auto unit = [](const Tensor& x) {
    const auto nonzero = [](const Tensor& size) { return where(size == 0, 1, size); };
    const Tensor top = norm(x.detach(), {.ord = INFINITY, .axis = -1, .keepdims = true});
    const Tensor near = x / nonzero(top);
    return near / nonzero(norm(near, {.axis = -1, .keepdims = true}));
  };
  const Tensor cosine =
      sum(unit(like(input1, input2, kName, "input1")) * unit(wide(input2)), {.axis = -1});
  const Tensor y = like(label, cosine, kName);
  const Tensor apart = where(y == -1, relu(cosine - options_.margin), 0);
  const Shape row = expand_dims(cosine, last).shape();
  const Tensor weighed = weigh_over(kName, where(y == 1, 1 - cosine, apart), last, row,
                                    options_.weight, sample_weight);
  return rounded(squeeze(weighed, last), {&input1, &input2, &sample_weight});
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace locus::nn
