// Metrics of class labels.
#include <cmath>

#include <locus/core/error.h>
#include <locus/nn/metric.h>
#include <locus/nn/options.h>
#include <locus/ops/compare.h>
#include <locus/ops/copy.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/index.h>
#include <locus/ops/join.h>
#include <locus/ops/matmul.h>
#include <locus/ops/reduce.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

namespace locus::metric {
namespace {

[[noreturn]] void misfit(const std::string& who, const Tensor& labels, const Tensor& preds,
                         const std::string& expected) {
  throw ShapeError(who, ": labels ", describe(labels), " for preds ", describe(preds),
                   "; expected ", expected,
                   labels.ndim() > preds.ndim()
                       ? "; the labels have more axes: the order is update(labels, preds)"
                       : "");
}

// The axis of classes, from 0.
int classes_axis(const std::string& who, const Tensor& labels, const Tensor& preds, int axis,
                 const char* expected) {
  if (axis < -preds.ndim() || axis >= preds.ndim())
    misfit(who, labels, preds, text_of("axis ", axis, " of classes in preds, and ", expected));
  return axis < 0 ? axis + preds.ndim() : axis;
}

Tensor whole(const Tensor& numbers) {
  return is_floating(numbers.dtype()) ? trunc(numbers) : numbers;  // NaN is no class
}

double count(const Tensor& labels) { return static_cast<double>(labels.size()); }

// Scores of the labels' classes along `axis`, in the shape of the other axes.
Tensor score_of(const std::string& who, const Tensor& labels, const Tensor& preds, int axis) {
  constexpr const char* kExpected = "a label for each position beside the classes' axis";
  axis = classes_axis(who, labels, preds, axis, kExpected);
  const Shape outer(without_axis(make_meta(preds.dtype(), preds.shape()), axis));
  if (labels.size() != outer.size()) misfit(who, labels, preds, kExpected);
  const Tensor ids = labels.reshape(outer);
  return pick(preds, where(ids >= 0, ids, NAN), {.axis = axis});  // -1 is not the last
}

// The predicted class of each row, of preds (N, classes).
Tensor predicted(const std::string& who, const Tensor& labels, const Tensor& preds) {
  if (preds.ndim() != 2 || labels.size() != preds.shape()[0])
    misfit(who, labels, preds, "preds (N, classes) and N labels");
  return argmax(preds, {.axis = 1});
}

// (k, k) counts by prediction and label. Classes outside [0, k) are not counted.
Tensor confusion(const Tensor& predicted, const Tensor& labels, int64_t k) {
  const auto rows = [k](const Tensor& ids) {
    return one_hot(ids.reshape({ids.size()}), k, {.dtype = f64});
  };
  return matmul(rows(predicted), rows(labels), MatmulAttrs{.transpose_a = true});
}

}  // namespace

Measure Accuracy::measure(const Tensor& labels, const Tensor& preds) const {
  const Shape shape = labels.shape();
  Tensor classes = preds;
  if (preds.shape() != shape) {
    constexpr const char* kExpected = "preds of the labels' shape, or with the classes' axis too";
    const int axis = classes_axis(name(), labels, preds, options_.axis, kExpected);
    classes = argmax(preds, {.axis = axis, .keepdims = labels.ndim() == preds.ndim()});
    if (classes.shape() != shape) misfit(name(), labels, preds, kExpected);
  }
  return {cast(sum(whole(classes) == whole(labels)), f64), count(labels)};
}

TopKAccuracy::TopKAccuracy(int64_t top_k)
    : Metric(text_of("top_k_accuracy_", top_k)), top_k_(top_k) {
  if (top_k < 1) throw ValueError("TopKAccuracy: top_k ", top_k, "; expected 1 or more");
}

Measure TopKAccuracy::measure(const Tensor& labels, const Tensor& preds) const {
  if (preds.ndim() != 2) misfit(name(), labels, preds, "preds (N, classes)");
  const Tensor own = expand_dims(score_of(name(), labels, preds, 1), 1);
  const Tensor before = arange(0, static_cast<double>(preds.shape()[1]), 1,
                               {preds.context(), i64}) < labels.reshape({labels.size(), 1});
  const Tensor tied = logical_and(preds == own, before);
  // NaN is above all numbers, as in NumPy.
  const Tensor above = sum(logical_or(logical_not(preds <= own), tied), {.axis = 1});
  return {cast(sum(above < top_k_), f64), count(labels)};
}

Measure BinaryMetric::measure(const Tensor& labels, const Tensor& preds) const {
  if (preds.ndim() != 2 || preds.shape()[1] != 2)
    misfit(name(), labels, preds, "preds (N, 2) and N labels: this metric is of two classes");
  const Tensor positive = predicted(name(), labels, preds) == 1;
  const Tensor ids = whole(labels).reshape({labels.size()});
  const Tensor counts = confusion(cast(positive, i32), cast(ids == 1, i32), 2);
  const Tensor value = average_ == Average::macro ? score(counts) : counts;
  const Tensor third =
      ids.size() == 0 ? ids : logical_and(ids != locus::min(ids), ids != locus::max(ids));
  return {concat({value.reshape({value.size()}), cast(sum(third), f64).reshape({1})}, {.axis = 0}),
          average_ == Average::macro ? 1 : count(labels)};
}

double BinaryMetric::result(const Measure& all) const {
  const std::vector<double> sums = all.sums.to_vector<double>();
  if (sums.back() > 0)
    throw ValueError(name(), ": ", sums.back(),
                     " labels of a third class; expected two, of which 1 is the positive one");
  return average_ == Average::macro ? sums[0] / all.instances
                                    : score(all.sums(Slice(0, 4)).reshape({2, 2})).item<double>();
}

Tensor F1::score(const Tensor& counts) const {
  const Tensor both = 2 * counts(1, 1);
  return both / maximum(both + counts(1, 0) + counts(0, 1), 1);
}

Tensor MCC::score(const Tensor& counts) const {
  const Tensor terms = concat({sum(counts, {.axis = 0}), sum(counts, {.axis = 1})}, {.axis = 0});
  return (counts(1, 1) * counts(0, 0) - counts(1, 0) * counts(0, 1)) /
         sqrt(prod(where(terms == 0, 1, terms)));
}

Measure PCC::measure(const Tensor& labels, const Tensor& preds) const {
  const bool numbers = preds.shape() == labels.shape();
  if (numbers && options_.classes <= 0)
    throw ValueError("pcc: preds ", describe(preds),
                     " are class numbers; expected {.classes = ...}, how many there are");
  const Tensor classes = numbers ? whole(preds) : predicted(name(), labels, preds);
  const int64_t k = options_.classes > 0 ? options_.classes : preds.shape()[1];
  return {confusion(classes, whole(labels), k), count(labels)};
}

double PCC::result(const Measure& all) const {
  const double n = all.instances, counted = sum(all.sums).item<double>();
  if (counted != n)
    throw IndexError("pcc: ", n - counted, " labels or predictions are outside [0, ",
                     all.sums.shape()[0], ")");
  const Tensor x = sum(all.sums, {.axis = 1}), y = sum(all.sums, {.axis = 0});
  const double xx = sum(x * (n - x)).item<double>(), yy = sum(y * (n - y)).item<double>();
  const Tensor diagonal = all.sums * eye(x.size(), 0, 0, {cpu(), f64});
  if (xx == 0 || yy == 0) return NAN;
  return (n * sum(diagonal).item<double>() - sum(x * y).item<double>()) / std::sqrt(xx * yy);
}

Measure Perplexity::measure(const Tensor& labels, const Tensor& preds) const {
  const auto loss_of = [&](const Tensor& ids) {
    return -log(maximum(cast(score_of(name(), ids, preds, options_.axis), f64), 1e-10));
  };
  if (!options_.ignore_label) return {sum(loss_of(labels)), count(labels)};
  const Tensor ignored = labels == *options_.ignore_label;
  const Tensor loss = loss_of(where(ignored, 0, labels));
  return {stack({sum(where(ignored.reshape(loss.shape()), 0, loss)), cast(sum(ignored), f64)}),
          count(labels)};
}

double Perplexity::result(const Measure& all) const {
  const std::vector<double> sums = all.sums.to_vector<double>();
  return std::exp(sums[0] / (all.instances - (sums.size() > 1 ? sums[1] : 0)));
}

CrossEntropy::CrossEntropy(const std::string& name, const CrossEntropyOptions& options)
    : Metric(name), options_(options) {
  options::expect(name, "eps", options.eps, options::not_negative);
}

Measure CrossEntropy::measure(const Tensor& labels, const Tensor& preds) const {
  if (preds.ndim() != 2) misfit(name(), labels, preds, "preds (N, classes)");
  const Tensor p = cast(score_of(name(), labels, preds, 1), f64);
  return {-sum(log(p + options_.eps)), count(labels)};
}

}  // namespace locus::metric
