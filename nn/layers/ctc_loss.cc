// Connectionist temporal classification.
#include <locus/core/base/at_line.h>
#include <locus/core/observe/memory_events.h>
#include <locus/nn/layers/loss_parts.h>
#include <locus/nn/loss.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/index.h>
#include <locus/ops/join.h>
#include <locus/ops/reduce.h>
#include <locus/ops/softmax.h>
#include <locus/ops/view.h>

namespace locus::nn {
namespace {

// The number of labels before the first negative one.
Tensor counted(const Tensor& labels) {
  const Tensor padding = labels < 0;
  return where(any(padding, {.axis = 1}), argmax(padding, {.axis = 1}), labels.shape()[1]);
}

}  // namespace

CTCLoss::CTCLoss(const CTCOptions& options) : Loss(options) {
  using locus::options::expect_enumerator;
  expect_enumerator(kName, "layout", options.layout, CTCLayout::TNC,
                    "CTCLayout::NTC or CTCLayout::TNC");
  expect_enumerator(kName, "label_layout", options.label_layout, CTCLabelLayout::TN,
                    "CTCLabelLayout::NT or CTCLabelLayout::TN");
}

// States are the labels, with blanks before, between and after them. alpha is the log-probability
// of all paths that are in a state after a step.
Tensor CTCLoss::operator()(const Tensor& scores, const Tensor& label, const Tensor& pred_lengths,
                           const Tensor& label_lengths, const Tensor& sample_weight,
                           Caller from) const try {
  const UserLine user_line(from);
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
  // A path may skip the blank between two different labels.
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
  // Two extra states in front. Paths start in the second.
  Tensor alpha =
      concat({constant(1, -INFINITY), constant(1, 0), constant(2 * length + 1, -INFINITY)});
  for (int64_t t = 0; t < steps; ++t) {
    const auto shifted = [&](int64_t i) { return alpha(Slice(), Slice(i, i + 2 * length + 1)); };
    const Tensor next =
        logsumexp(stack({shifted(2), shifted(1), shifted(0) + skip}), {.axis = 0}) + emitted[t];
    const Tensor padded = concat({none, next});
    alpha =
        pred_lengths.defined() ? where(expand_dims(pred_lengths > t, 1), padded, alpha) : padded;
  }
  const auto read = [&] {  // paths end in the last label or the blank after it
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
} catch (const Error&) {
  rethrow_at(from);
}

}  // namespace locus::nn
