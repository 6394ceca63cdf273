// Metrics, as MXNet 1.9 counts them. update(labels, preds) counts on the predictions' context and
// does not wait. get() reads the counts; it returns NaN before the first update.
//
//   metric::Accuracy accuracy;
//   for (auto [x, y] : loader) accuracy.update(y, net(x));
//   std::cout << accuracy.get().second;
//
// Counts and sums are f64 (MXNet uses the arrays' precision). Each context counts separately, and
// get() joins the counts. A mean over updates weighs all updates equally, whatever their size, as
// in MXNet. If labels and predictions do not fit, update() throws ShapeError and counts nothing.
// Autograd records no update. In a compiled function these metrics throw CaptureError.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <locus/core/tensor.h>
#include <locus/nn/options.h>

namespace locus::metric {

using NamedValues = std::vector<std::pair<std::string, double>>;

class EvalMetric {
 public:
  virtual ~EvalMetric() = default;
  void update(const Tensor& labels, const Tensor& preds, Caller from = Caller::here()) {
    update(Tensors{labels}, Tensors{preds}, from);
  }
  // One pair per context: labels[i] and preds[i].
  virtual void update(const Tensors& labels, const Tensors& preds, Caller = Caller::here()) = 0;
  // Checks and measures. The returned function counts the result; by default it calls update().
  virtual std::function<void()> measured(const Tensors& labels, const Tensors& preds);
  virtual void reset() = 0;
  // Waits for the counts. Error if the metric has several values.
  std::pair<std::string, double> get(Caller = Caller::here()) const;
  virtual NamedValues get_name_value(Caller = Caller::here()) const = 0;

 protected:
  EvalMetric() = default;
  EvalMetric(const EvalMetric&) = default;
  EvalMetric(EvalMetric&&) noexcept = default;
  EvalMetric& operator=(const EvalMetric&) = default;
  EvalMetric& operator=(EvalMetric&&) noexcept = default;
};

// What one update adds: sums on the predictions' context, and the number of instances.
struct Measure {
  Measure(Tensor s, double n = 1) : sums(std::move(s)), instances(n) {}
  Tensor sums;  // f64, with one shape for all updates
  double instances;
};

// A metric with one value. To write a metric, derive from Metric or use CustomMetric.
class Metric : public EvalMetric {
 public:
  using EvalMetric::update;
  void update(const Tensors& labels, const Tensors& preds, Caller = Caller::here()) override;
  std::function<void()> measured(const Tensors& labels, const Tensors& preds) override;
  void reset() override { totals_.clear(); }
  NamedValues get_name_value(Caller = Caller::here()) const override;
  const std::string& name() const { return name_; }

 protected:
  explicit Metric(std::string name) : name_(std::move(name)) {}
  // Must not wait.
  virtual Measure measure(const Tensor& labels, const Tensor& preds) const = 0;
  // Joins two measures: adds them, unless the metric says otherwise.
  virtual Measure merge(const Measure& a, const Measure& b) const;
  // The value of all measures, on cpu(0): the mean, unless the metric says otherwise.
  virtual double result(const Measure& all) const;

 private:
  std::string name_;
  std::vector<Measure> totals_;  // one per context
};

struct AccuracyOptions {
  int axis = 1;  // the class axis of preds
};
// The share of right predictions. preds are class numbers in the labels' shape, or class scores
// with an additional class axis: (N, classes) for labels (N,) or (N, 1).
class Accuracy : public Metric {
 public:
  explicit Accuracy(const AccuracyOptions& options = {}) : Metric("accuracy"), options_(options) {}

 private:
  Measure measure(const Tensor& labels, const Tensor& preds) const override;
  AccuracyOptions options_;
};

// The share of labels among the k highest scores of preds (N, classes). Of equal scores the first
// is the highest (MXNet: any). A label with score NaN is wrong for k up to classes. IndexError for
// a label outside [0, classes) (MXNet: wrong), as in all metrics that look up a label's score.
class TopKAccuracy : public Metric {
 public:
  explicit TopKAccuracy(int64_t top_k);  // ValueError below 1

 private:
  Measure measure(const Tensor& labels, const Tensor& preds) const override;
  int64_t top_k_;
};

// macro: the mean of the updates' values, one for each context of an update (MXNet joins contexts).
// micro: one value of all counts.
enum class Average : uint8_t { macro, micro };
struct AverageOptions {
  Average average = Average::macro;
};
// ValueError for any other average.
inline Average checked(const std::string& who, const AverageOptions& o) {
  options::expect_enumerator(who, "average", o.average, Average::micro,
                             "Average::macro or Average::micro");
  return o.average;
}

// A metric of two classes: preds (N, 2) holds scores; label 1 is positive. If an update has more
// than two different labels, get() throws ValueError.
class BinaryMetric : public Metric {
 protected:
  BinaryMetric(std::string name, const AverageOptions& options)
      : Metric(std::move(name)), average_(checked(this->name(), options)) {}
  // The value of f64 counts (2, 2), by prediction and label.
  virtual Tensor score(const Tensor& counts) const = 0;

 private:
  Measure measure(const Tensor& labels, const Tensor& preds) const override;
  double result(const Measure& all) const override;
  Average average_;
};

// 2 precision recall / (precision + recall); 0 without true positives.
class F1 : public BinaryMetric {
 public:
  explicit F1(const AverageOptions& options = {}) : BinaryMetric("f1", options) {}

 private:
  Tensor score(const Tensor& counts) const override;
};

// Matthews' correlation coefficient. A sum of 0 in the denominator counts as 1.
class MCC : public BinaryMetric {
 public:
  explicit MCC(const AverageOptions& options = {}) : BinaryMetric("mcc", options) {}

 private:
  Tensor score(const Tensor& counts) const override;
};

struct PCCOptions {
  int64_t classes = 0;  // 0: the number of scores in preds
};
// MCC of any number of classes, over all counts (Gorodkin, 2004). preds are scores (N, classes) or,
// with the `classes` option, class numbers in the labels' shape. NaN if all labels or all
// predictions have one class. For numbers outside [0, classes), get() throws IndexError.
class PCC : public Metric {
 public:
  explicit PCC(const PCCOptions& options = {}) : Metric("pcc"), options_(options) {}

 private:
  Measure measure(const Tensor& labels, const Tensor& preds) const override;
  double result(const Measure& all) const override;
  PCCOptions options_;
};

struct PerplexityOptions {
  std::optional<int64_t> ignore_label = {};  // such labels do not count
  int axis = -1;                             // the class axis of preds
};
// exp of the mean of -log(max(1e-10, the label's probability)). IndexError for labels outside [0,
// classes) that are not ignored (MXNet: the nearest class).
class Perplexity : public Metric {
 public:
  explicit Perplexity(const PerplexityOptions& options = {})
      : Metric("perplexity"), options_(options) {}

 private:
  Measure measure(const Tensor& labels, const Tensor& preds) const override;
  double result(const Measure& all) const override;
  PerplexityOptions options_;
};

struct CrossEntropyOptions {
  double eps = 1e-12;  // >= 0, else ValueError
};
// The mean of -log(the label's probability + eps): preds (N, classes), N labels.
class CrossEntropy : public Metric {
 public:
  explicit CrossEntropy(const CrossEntropyOptions& options = {})
      : CrossEntropy("cross-entropy", options) {}

 protected:
  CrossEntropy(const std::string& name, const CrossEntropyOptions& options);

 private:
  Measure measure(const Tensor& labels, const Tensor& preds) const override;
  CrossEntropyOptions options_;
};
// CrossEntropy under MXNet's other name.
class NegativeLogLikelihood : public CrossEntropy {
 public:
  explicit NegativeLogLikelihood(const CrossEntropyOptions& options = {})
      : CrossEntropy("nll-loss", options) {}
};

// MAE, MSE and RMSE are means over updates: of mean |label - pred|, mean (label - pred)^2 and its
// root. labels are reshaped to preds' shape (MXNet broadcasts).
class MAE : public Metric {
 public:
  MAE() : Metric("mae") {}

 private:
  Measure measure(const Tensor& labels, const Tensor& preds) const override;
};
class MSE : public Metric {
 public:
  MSE() : Metric("mse") {}

 private:
  Measure measure(const Tensor& labels, const Tensor& preds) const override;
};
class RMSE : public Metric {
 public:
  RMSE() : Metric("rmse") {}

 private:
  Measure measure(const Tensor& labels, const Tensor& preds) const override;
};

// Pearson's correlation of all elements of labels and preds: the mean of the updates' values
// (macro) or one value of all counts (micro). NaN if labels or preds are constant.
class PearsonCorrelation : public Metric {
 public:
  explicit PearsonCorrelation(const AverageOptions& options = {})
      : Metric("pearsonr"), average_(checked(name(), options)) {}

 private:
  Measure measure(const Tensor& labels, const Tensor& preds) const override;
  Measure merge(const Measure& a, const Measure& b) const override;
  double result(const Measure& all) const override;
  Average average_;
};

// The mean of preds, which are losses. labels are ignored and may be Tensor().
class Loss : public Metric {
 public:
  Loss() : Metric("loss") {}

 private:
  Measure measure(const Tensor& labels, const Tensor& preds) const override;
};

// The mean of a function's values. The function returns one number on preds' context, for one
// instance (return value) or for several (return {sum, instances}).
class CustomMetric : public Metric {
 public:
  using Feval = std::function<Measure(const Tensor& labels, const Tensor& preds)>;
  explicit CustomMetric(Feval feval, std::string name = "custom");

 private:
  Measure measure(const Tensor& labels, const Tensor& preds) const override;
  Feval feval_;
};

// Several metrics of the same labels and predictions. If one throws while measuring, none counts.
class CompositeEvalMetric : public EvalMetric {
 public:
  using EvalMetric::update;
  void add(std::shared_ptr<EvalMetric> metric);
  EvalMetric& get_metric(int64_t i) const;  // IndexError
  void update(const Tensors& labels, const Tensors& preds, Caller = Caller::here()) override;
  std::function<void()> measured(const Tensors& labels, const Tensors& preds) override;
  void reset() override;
  NamedValues get_name_value(Caller = Caller::here()) const override;

 private:
  std::vector<std::shared_ptr<EvalMetric>> metrics_;
};

// Makes metrics by MXNet's names: accuracy or acc, f1, mcc, pcc, perplexity, crossentropy or ce,
// negativeloglikelihood or nll_loss, mae, mse, rmse, pearsoncorrelation or pearsonr, loss.
// ValueError for other names, such as metrics that need an argument.
std::shared_ptr<EvalMetric> create(const std::string& name);
std::shared_ptr<CompositeEvalMetric> create(std::initializer_list<std::string> names);

}  // namespace locus::metric
