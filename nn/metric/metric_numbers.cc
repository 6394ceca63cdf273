// Metrics of labels that are numbers.
#include <cmath>

#include <locus/core/error.h>
#include <locus/nn/metric.h>
#include <locus/ops/copy.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/join.h>
#include <locus/ops/matmul.h>
#include <locus/ops/reduce.h>
#include <locus/ops/unary.h>
#include <locus/ops/view.h>

namespace locus::metric {
namespace {

// Labels in one row and predictions in the other, f64.
Tensor rows(const std::string& who, const Tensor& labels, const Tensor& preds) {
  if (labels.size() != preds.size())
    throw ShapeError(who, ": labels ", describe(labels), " for preds ", describe(preds),
                     "; expected as many elements");
  const auto row = [](const Tensor& x) { return cast(x.reshape({x.size()}), f64); };
  return stack({row(labels), row(preds)});
}

Tensor errors(const std::string& who, const Tensor& labels, const Tensor& preds) {
  const Tensor both = rows(who, labels, preds);
  return both[0] - both[1];
}

// The means, and the (2, 2) sums of products of deviations.
Tensor moments(const Tensor& rows) {
  const Tensor means = mean(rows, {.axis = 1, .keepdims = true});
  const Tensor off = rows - means;
  return concat({means, matmul(off, off, MatmulAttrs{.transpose_b = true})});
}

// From moments. Divides twice, so that no product overflows.
Tensor correlation(const Tensor& m) { return clip(m(0, 2) / sqrt(m(0, 1)) / sqrt(m(1, 2)), -1, 1); }

}  // namespace

Measure MAE::measure(const Tensor& labels, const Tensor& preds) const {
  return mean(abs(errors(name(), labels, preds)));
}

Measure MSE::measure(const Tensor& labels, const Tensor& preds) const {
  return mean(square(errors(name(), labels, preds)));
}

Measure RMSE::measure(const Tensor& labels, const Tensor& preds) const {
  return sqrt(mean(square(errors(name(), labels, preds))));
}

Measure PearsonCorrelation::measure(const Tensor& labels, const Tensor& preds) const {
  const Tensor m = moments(rows(name(), labels, preds));
  if (average_ == Average::macro) return correlation(m);
  return {m, static_cast<double>(labels.size())};
}

// Chan, Golub and LeVeque, 1983.
Measure PearsonCorrelation::merge(const Measure& a, const Measure& b) const {
  if (average_ == Average::macro) return Metric::merge(a, b);
  const double n = a.instances + b.instances;
  const Tensor apart = slice_axis(b.sums - a.sums, 1, Slice(0, 1));
  const Tensor products = slice_axis(a.sums + b.sums, 1, Slice(1, 3));
  return {concat({slice_axis(a.sums, 1, Slice(0, 1)) + apart * (b.instances / n),
                  products + apart * apart.T() * (a.instances * b.instances / n)}),
          n};
}

double PearsonCorrelation::result(const Measure& all) const {
  return average_ == Average::macro ? Metric::result(all) : correlation(all.sums).item<double>();
}

}  // namespace locus::metric
