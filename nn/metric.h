// Metrics, as MXNet 1.9 counts them: update(labels, preds) counts where the predictions live and
// does not wait; get() reads the counts, and is NaN before the first update.
//
//   metric::Accuracy accuracy;
//   for (auto [x, y] : loader) accuracy.update(y, net(x));
//   std::cout << accuracy.get().second;
//
// Counts and sums are f64 (MXNet's means of an update have the precision of its arrays). Several
// contexts count apart and are joined by get(). A metric that is a mean over updates counts each
// alike, whatever its size, as in MXNet. Labels and predictions that do not fit throw ShapeError
// and are not counted. No update is in a graph; in a compiled function the metrics of this header
// throw CaptureError.
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
  // One of each per context.
  virtual void update(const Tensors& labels, const Tensors& preds, Caller = Caller::here()) = 0;
  // Checks and measures; what it returns counts that. Of a metric that has only update(): that.
  virtual std::function<void()> measured(const Tensors& labels, const Tensors& preds);
  virtual void reset() = 0;
  // Waits. A metric of several values has no get(): Error.
  std::pair<std::string, double> get(Caller = Caller::here()) const;
  virtual NamedValues get_name_value(Caller = Caller::here()) const = 0;

 protected:
  EvalMetric() = default;
  EvalMetric(const EvalMetric&) = default;
  EvalMetric(EvalMetric&&) noexcept = default;
  EvalMetric& operator=(const EvalMetric&) = default;
  EvalMetric& operator=(EvalMetric&&) noexcept = default;
};

// What one update adds: numbers on the predictions' context, and how many instances they are of.
struct Measure {
  Measure(Tensor s, double n = 1) : sums(std::move(s)), instances(n) {}
  Tensor sums;  // f64, of one shape for all updates
  double instances;
};

// A metric of one value. To make your own derive from it, or take CustomMetric.
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
  // Of two measures one: their sums, unless the metric says otherwise.
  virtual Measure merge(const Measure& a, const Measure& b) const;
  // From all there is, on cpu(0): the mean, unless the metric says otherwise.
  virtual double result(const Measure& all) const;

 private:
  std::string name_;
  std::vector<Measure> totals_;  // one a context
};

struct AccuracyOptions {
  int axis = 1;  // the classes' axis of preds
};
// The share of right predictions. preds are class scores, in the labels' shape but for the classes'
// axis, such as (N, classes) for labels (N,) or (N, 1); or class numbers in the labels' shape.
class Accuracy : public Metric {
 public:
  explicit Accuracy(const AccuracyOptions& options = {}) : Metric("accuracy"), options_(options) {}

 private:
  Measure measure(const Tensor& labels, const Tensor& preds) const override;
  AccuracyOptions options_;
};

// The share of labels among the k highest scores of preds (N, classes). Of equal scores the first
// is the highest (MXNet: any); a NaN is no label's score. A label outside [0, classes) is an
// IndexError (MXNet: wrong), here as in all metrics that look up a label's score.
class TopKAccuracy : public Metric {
 public:
  explicit TopKAccuracy(int64_t top_k);  // ValueError below 1

 private:
  Measure measure(const Tensor& labels, const Tensor& preds) const override;
  int64_t top_k_;
};

// Over the updates' own values (an update of several contexts has one of each, where MXNet joins
// them), or one value of all that was counted.
enum class Average : uint8_t { macro, micro };
struct AverageOptions {
  Average average = Average::macro;
};
// ValueError for an average that is neither of the two.
inline Average checked(const std::string& who, const AverageOptions& o) {
  options::expect_enumerator(who, "average", o.average, Average::micro,
                             "Average::macro or Average::micro");
  return o.average;
}

// Of two classes: preds (N, 2) scores, label 1 the positive. More than two labels in an update are
// a ValueError, which get() throws.
class BinaryMetric : public Metric {
 protected:
  BinaryMetric(std::string name, const AverageOptions& options)
      : Metric(std::move(name)), average_(checked(this->name(), options)) {}
  // From f64 (2, 2): counts by prediction and label.
  virtual Tensor score(const Tensor& counts) const = 0;

 private:
  Measure measure(const Tensor& labels, const Tensor& preds) const override;
  double result(const Measure& all) const override;
  Average average_;
};

// 2 precision recall / (precision + recall), and 0 where there is no true positive.
class F1 : public BinaryMetric {
 public:
  explicit F1(const AverageOptions& options = {}) : BinaryMetric("f1", options) {}

 private:
  Tensor score(const Tensor& counts) const override;
};

// Matthews' correlation coefficient; a sum of 0 in its denominator counts as 1.
class MCC : public BinaryMetric {
 public:
  explicit MCC(const AverageOptions& options = {}) : BinaryMetric("mcc", options) {}

 private:
  Tensor score(const Tensor& counts) const override;
};

struct PCCOptions {
  int64_t classes = 0;  // 0: as many as preds has scores
};
// MCC of any number of classes, over all that was counted (Gorodkin, 2004): preds (N, classes)
// scores or, with `classes` named, class numbers in the labels' shape. NaN where all labels or all
// predictions are of one class. Numbers outside [0, classes) are an IndexError, which get() throws.
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
  int axis = -1;                             // the classes' axis of preds
};
// exp of the mean of -log(max(1e-10, the label's probability)). Labels outside [0, classes) that
// are not ignored are an IndexError (MXNet: the nearest class).
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
// The same under MXNet's other name.
class NegativeLogLikelihood : public CrossEntropy {
 public:
  explicit NegativeLogLikelihood(const CrossEntropyOptions& options = {})
      : CrossEntropy("nll-loss", options) {}
};

// Means over updates of mean |label - pred|, mean (label - pred)^2 and its root. labels take preds'
// shape (MXNet broadcasts).
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

// Pearson's correlation of labels and preds, all elements of both: the mean over the updates' own,
// or that of all that was counted. NaN where either is constant.
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

// The mean of preds, which are losses; labels are not looked at and may be Tensor().
class Loss : public Metric {
 public:
  Loss() : Metric("loss") {}

 private:
  Measure measure(const Tensor& labels, const Tensor& preds) const override;
};

// The mean of what a function gives: a number on preds' context, of one instance or of as many as
// it says: return value, or return {sum, instances}.
class CustomMetric : public Metric {
 public:
  using Feval = std::function<Measure(const Tensor& labels, const Tensor& preds)>;
  explicit CustomMetric(Feval feval, std::string name = "custom");

 private:
  Measure measure(const Tensor& labels, const Tensor& preds) const override;
  Feval feval_;
};

// Several metrics of the same labels and predictions. Where one throws, none counts them.
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

// By MXNet's names: accuracy or acc, f1, mcc, pcc, perplexity, crossentropy or ce,
// negativeloglikelihood or nll_loss, mae, mse, rmse, pearsoncorrelation or pearsonr, loss. Others
// are a ValueError, those that cannot do without an option too.
std::shared_ptr<EvalMetric> create(const std::string& name);
std::shared_ptr<CompositeEvalMetric> create(std::initializer_list<std::string> names);

}  // namespace locus::metric
