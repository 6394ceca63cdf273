#include <locus/nn/loss.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numbers>
#include <optional>

#include <locus/core/amp.h>
#include <locus/core/call/named_calls.h>
#include <locus/core/error.h>
#include <locus/nn/options.h>
#include <locus/ops/activation.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/join.h>
#include <locus/ops/reduce.h>
#include <locus/ops/softmax.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

namespace locus::nn {
namespace {

// Losses of f16 and bf16 are computed in f32, and rounded once.
DType wide(DType d) { return size_of(d) == 2 ? f32 : d; }
Tensor wide(const Tensor& x) { return size_of(x.dtype()) == 2 ? cast(x, f32) : x; }

// Rounds to the dtype that the floating operands promote to. Within an amp::Scope f32 stays f32.
Tensor rounded(const Tensor& loss, std::initializer_list<const Tensor*> operands) {
  if (loss.dtype() != f32) return loss;
  std::optional<DType> d;
  for (const Tensor* t : operands)
    if (t->defined() && is_floating(t->dtype())) d = d ? promote(*d, t->dtype()) : t->dtype();
  return d && amp::widened(*d) != f32 && *d != f64 ? cast(loss, *d) : loss;
}

// Weights may have at most `limit`'s shape.
Tensor weigh(const char* who, Tensor loss, double weight, const Tensor& sample_weight,
             const Shape& limit) {
  if (sample_weight.defined()) {
    if (!broadcasts_to(sample_weight.shape(), limit))
      throw ShapeError(who, ": sample_weight ", describe(sample_weight),
                       ": expected a shape that broadcasts to ", limit);
    loss = loss * sample_weight;
  }
  return weight == 1 ? loss : loss * weight;
}

Shape without(const Shape& shape, int axis) {
  return Shape(without_axis(make_meta(f32, shape), axis));
}

// Losses of inputs of `shape`, over one axis of it: with that axis where the weights have it.
Tensor weigh_over(const char* who, const Tensor& loss, int axis, const Shape& shape, double weight,
                  const Tensor& sample_weight) {
  if (!sample_weight.defined() || sample_weight.ndim() < shape.rank())
    return expand_dims(weigh(who, loss, weight, sample_weight, without(shape, axis)), axis);
  return weigh(who, expand_dims(loss, axis), weight, sample_weight, shape);
}

// Over all axes but one.
Tensor reduced(const char* who, const Tensor& loss, int batch_axis,
               Tensor (*reduce)(const Tensor&, const ReduceOptions&) = mean) {
  if (loss.ndim() == 0) return loss;
  const int rank = loss.ndim(), axis = batch_axis < 0 ? batch_axis + rank : batch_axis;
  if (axis < 0 || axis >= rank)
    throw ShapeError(who, ": batch_axis ", batch_axis, " for losses of shape ", loss.shape(),
                     "; expected an axis in [", -rank, ", ", rank, ")");
  if (rank == 1) return loss;
  return reduce(locus::flatten(axis == 0 ? loss : swapaxes(loss, 0, axis)), {.axis = 1});
}

// Of a loss that was computed element by element.
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

// What a makes 0 is 0 for infinite b, too.
Tensor times(const Tensor& a, const Tensor& b) {
  return a * where(logical_and(a == 0, isinf(b)), 0, b);
}

Tensor binary_cross_entropy(const Tensor& x, const Tensor& z, const Tensor& positive) {
  return times(1 - z, softplus(x)) + times(positive, softplus(-x));
}

Tensor margin_loss(const Tensor& scores, const Tensor& label, double margin, const char* who) {
  return relu(margin - wide(scores) * like(label, scores, who));
}

// Whole numbers in [0, end) that a loss takes.
struct WholeNumbers {
  const char* who;
  const char* what;
  const Tensor& values;
  int64_t end;
};

// f(), or an IndexError that names the loss and its numbers instead of the op that met them. `used`
// gives those that count. On a GPU the op reports a wrong one later, and the error names the loss.
Tensor checked(const WholeNumbers& w, const auto& used, const auto& f) {
  const NamedCalls named(w.who, w.what);
  if (!is_host(w.values.context())) return f();
  try {
    return f();
  } catch (const IndexError&) {
    std::string got;
    for (const double v : cast(used(), f64).template to_vector<double>())
      if (got.empty() && !(v >= 0 && v < static_cast<double>(w.end) && v == std::floor(v)))
        got = text_of(", got ", v);
    throw IndexError(w.who, ": ", w.what, " ", describe(w.values),
                     ": expected whole numbers in [0, ", w.end, ")", got);
  }
}
Tensor of_label(const char* who, const Tensor& label, int64_t classes, const auto& f) {
  return checked(
      {who, "label", label, classes}, [&] { return label; }, f);
}

// How many labels there are before the first negative one.
Tensor counted(const Tensor& labels) {
  const Tensor padding = labels < 0;
  return where(any(padding, {.axis = 1}), argmax(padding, {.axis = 1}), labels.shape()[1]);
}

}  // namespace

Tensor L2Loss::operator()(const Tensor& scores, const Tensor& label,
                          const Tensor& sample_weight) const {
  const Tensor pred = wide(scores);
  return finish(kName, square(pred - like(label, scores, kName)),
                LossOptions{options_.weight / 2, options_.batch_axis}, scores, label,
                sample_weight);
}

Tensor L1Loss::operator()(const Tensor& scores, const Tensor& label,
                          const Tensor& sample_weight) const {
  const Tensor pred = wide(scores);
  return finish(kName, abs(pred - like(label, scores, kName)), options_, scores, label,
                sample_weight);
}

HuberLoss::HuberLoss(const HuberOptions& options) : Loss(options) {
  options::expect(kName, "rho", options.rho, options::positive);
}

Tensor HuberLoss::operator()(const Tensor& scores, const Tensor& label,
                             const Tensor& sample_weight) const {
  const Tensor pred = wide(scores);
  return finish(kName, smooth_l1(pred - like(label, scores, kName), 1 / std::sqrt(options_.rho)),
                options_, scores, label, sample_weight);
}

Tensor SoftmaxCrossEntropyLoss::operator()(const Tensor& scores, const Tensor& label,
                                           const Tensor& sample_weight) const {
  const int rank = scores.ndim();
  // 16 bits round once: after the weight.
  const bool plain = options_.sparse_label && !options_.from_logits && !sample_weight.defined() &&
                     (options_.weight == 1 || size_of(scores.dtype()) != 2);
  if (plain && rank == 2 && (options_.axis == -1 || options_.axis == 1) && label.ndim() == 1 &&
      options_.batch_axis == 0) [[likely]]
    return of_label(kName, label, scores.shape()[1], [&] {
      return weigh(kName, softmax_cross_entropy(scores, label), options_.weight, {}, {});
    });
  const Tensor pred = wide(scores);
  const int axis = normalize_axis(options_.axis, rank, kName);
  // The classes last, everything else one batch.
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
    if (options_.from_logits) {  // pick would cut labels and count negative ones from the end
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
}

Tensor SigmoidBinaryCrossEntropyLoss::operator()(const Tensor& scores, const Tensor& label,
                                                 const Tensor& sample_weight,
                                                 const Tensor& pos_weight) const {
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
}

LogisticLoss::LogisticLoss(const LogisticOptions& options) : Loss(options) {
  locus::options::expect_enumerator(kName, "label_format", options.label_format,
                                    LabelFormat::binary,
                                    "LabelFormat::signed_ or LabelFormat::binary");
}

Tensor LogisticLoss::operator()(const Tensor& scores, const Tensor& label,
                                const Tensor& sample_weight) const {
  const Tensor pred = wide(scores);
  Tensor z = like(label, scores, kName);
  if (options_.label_format == LabelFormat::signed_) z = (z + 1) / 2;
  return finish(kName, binary_cross_entropy(pred, z, z), options_, scores, label, sample_weight);
}

Tensor KLDivLoss::operator()(const Tensor& scores, const Tensor& label,
                             const Tensor& sample_weight) const {
  const Tensor pred = wide(scores);
  const Tensor log_p = options_.from_logits ? pred : log_softmax(pred, {.axis = options_.axis});
  const Tensor z = like(label, scores, kName);
  const Tensor loss = xlogy(z, z) - times(z, log_p);
  const Tensor weighed = weigh(kName, loss, options_.weight, sample_weight, pred.shape());
  return rounded(reduced(kName, weighed, options_.batch_axis, sum),
                 {&scores, &label, &sample_weight});
}

Tensor HingeLoss::operator()(const Tensor& scores, const Tensor& label,
                             const Tensor& sample_weight) const {
  return finish(kName, margin_loss(scores, label, options_.margin, kName), options_, scores, label,
                sample_weight);
}

Tensor SquaredHingeLoss::operator()(const Tensor& scores, const Tensor& label,
                                    const Tensor& sample_weight) const {
  return finish(kName, square(margin_loss(scores, label, options_.margin, kName)), options_, scores,
                label, sample_weight);
}

Tensor TripletLoss::operator()(const Tensor& scores, const Tensor& positive,
                               const Tensor& negative) const {
  const Tensor pred = wide(scores);
  const Tensor near = square(like(positive, scores, kName, "positive") - pred);
  const Tensor far = square(like(negative, scores, kName, "negative") - pred);
  const Tensor apart = relu(reduced(kName, near - far, options_.batch_axis, sum) + options_.margin);
  return rounded(weigh(kName, apart, options_.weight, {}, {}), {&scores, &positive, &negative});
}

Tensor PoissonNLLLoss::operator()(const Tensor& scores, const Tensor& label,
                                  const Tensor& sample_weight) const {
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
}

Tensor CosineEmbeddingLoss::operator()(const Tensor& input1, const Tensor& input2,
                                       const Tensor& label, const Tensor& sample_weight) const {
  const int last = normalize_axis(-1, input2.ndim(), kName);
  // The greatest element becomes 1 first: the norm of x itself may not fit its dtype. A unit vector
  // does not depend on that factor, nor do its gradients.
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
}

CTCLoss::CTCLoss(const CTCOptions& options) : Loss(options) {
  using locus::options::expect_enumerator;
  expect_enumerator(kName, "layout", options.layout, CTCLayout::TNC,
                    "CTCLayout::NTC or CTCLayout::TNC");
  expect_enumerator(kName, "label_layout", options.label_layout, CTCLabelLayout::TN,
                    "CTCLabelLayout::NT or CTCLabelLayout::TN");
}

// States are the labels with a blank before, between and behind them; alpha is the logarithm of the
// probability of all readings that are in a state after a step.
Tensor CTCLoss::operator()(const Tensor& scores, const Tensor& label, const Tensor& pred_lengths,
                           const Tensor& label_lengths, const Tensor& sample_weight) const {
  const Tensor pred = wide(scores);
  const Tensor y = options_.layout == CTCLayout::NTC ? swapaxes(pred, 0, 1) : pred;
  const Tensor given = options_.label_layout == CTCLabelLayout::NT ? label : label.T();
  if (y.ndim() != 3 || given.ndim() != 2 || given.shape()[0] != y.shape()[1] || y.shape()[0] == 0)
    throw ShapeError(kName, ": pred ", describe(scores), ", label ", describe(label),
                     "; expected pred (N, T, classes) and label (N, L), or as the layouts say");
  const int64_t steps = y.shape()[0], n = y.shape()[1], classes = y.shape()[2],
                length = given.shape()[1];
  const Context c = y.context();
  for (const Tensor& lengths : {pred_lengths, label_lengths})
    if (lengths.defined() && lengths.shape() != Shape{n})
      throw ShapeError(kName, ": lengths ", describe(lengths), "; expected ", Shape{n});
  Tensor count = zeros({n}, {c, i64});
  if (label_lengths.defined())
    count = where(label_lengths >= 0, label_lengths, NAN);
  else if (length > 0)
    count = counted(given);
  const auto blanks = [&](int64_t columns) { return full({n, columns}, classes - 1, {c, f64}); };
  const Tensor used = arange(static_cast<double>(length), {c, i64}) < expand_dims(count, 1);
  const Tensor wrong = logical_or(given < 0, given >= classes - 1);
  const Tensor ids =
      where(logical_and(used, wrong), NAN, where(used, given, classes - 1)).astype(f64);
  const Tensor pairs = stack({blanks(length), ids}, {.axis = 2}).reshape({n, 2 * length});
  const Tensor states = concat({pairs, blanks(1)});
  const Tensor before = concat({blanks(2), states})(Slice(), Slice(0, 2 * length + 1));
  // A blank between two labels may be left out where they differ.
  const DType dtype = y.dtype() == f64 ? f64 : f32;
  const Tensor skip =
      where(logical_or(states == classes - 1, states == before), -INFINITY, 0).astype(dtype);

  const Tensor log_p = log_softmax(y.astype(dtype));
  const Tensor rows = arange(static_cast<double>(steps * n), {c, f64}).reshape({steps, n, 1}) *
                      static_cast<double>(classes);
  const Tensor emitted = checked(
      {kName, "label", label, classes - 1}, [&] { return where(used, given, 0); },
      [&] { return take(log_p.reshape({log_p.size()}), rows + states); });
  const auto constant = [&](int64_t columns, double value) {
    return full({n, columns}, value, {c, dtype});
  };
  const Tensor none = constant(2, -INFINITY);
  // Two states in front that nothing reaches; the first step leaves the second.
  Tensor alpha =
      concat({constant(1, -INFINITY), constant(1, 0), constant(2 * length + 1, -INFINITY)});
  for (int64_t t = 0; t < steps; ++t) {
    const auto from = [&](int64_t i) { return alpha(Slice(), Slice(i, i + 2 * length + 1)); };
    const Tensor next =
        logsumexp(stack({from(2), from(1), from(0) + skip}), {.axis = 0}) + emitted[t];
    const Tensor padded = concat({none, next});
    alpha =
        pred_lengths.defined() ? where(expand_dims(pred_lengths > t, 1), padded, alpha) : padded;
  }
  const auto read = [&] {  // up to the last label, or the blank behind it
    const Tensor last = pick(alpha, count * 2 + 2), other = pick(alpha, count * 2 + 1);
    return -logsumexp(stack({last, other}), {.axis = 0});
  };
  Tensor loss = label_lengths.defined() ? checked(
                                              {kName, "label_lengths", label_lengths, length + 1},
                                              [&] { return label_lengths; }, read)
                                        : read();
  if (pred_lengths.defined())
    loss = where(logical_and(pred_lengths >= 1, pred_lengths <= steps), loss, NAN);
  return rounded(weigh(kName, loss, options_.weight, sample_weight, {n}),
                 {&scores, &sample_weight});
}

}  // namespace locus::nn
