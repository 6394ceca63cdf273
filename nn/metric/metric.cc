#include <locus/nn/metric.h>

#include <algorithm>
#include <cmath>

#include <locus/core/autograd.h>
#include <locus/core/base/at_line.h>
#include <locus/core/base/recording_hooks.h>
#include <locus/core/error.h>
#include <locus/core/observe/memory_events.h>
#include <locus/ops/copy.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/reduce.h>
#include <locus/ops/view.h>

namespace locus::metric {

std::pair<std::string, double> EvalMetric::get(Caller from) const try {
  NamedValues values = get_name_value(from);
  if (values.size() != 1)
    throw Error("get: a metric of ", values.size(), " values; call get_name_value()");
  return values[0];
} catch (const Error&) {
  rethrow_at(from);
}

std::function<void()> EvalMetric::measured(const Tensors& labels, const Tensors& preds) {
  return [this, labels, preds] { update(labels, preds, Caller()); };
}

void Metric::update(const Tensors& labels, const Tensors& preds, Caller from) try {
  const UserLine user_line(from);
  measured(labels, preds)();
} catch (const Error&) {
  rethrow_at(from);
}

std::function<void()> Metric::measured(const Tensors& labels, const Tensors& preds) {
  capture::check(name_, "the host counts; update it with the results of the call");
  if (labels.size() != preds.size())
    throw ShapeError(name_, ": ", labels.size(), " labels for ", preds.size(),
                     " preds; expected as many");
  const autograd::Pause pause;
  std::vector<Measure> more;
  for (size_t i = 0; i < labels.size(); ++i) {
    try {
      more.push_back(measure(labels[i], preds[i]));
    } catch (const Error&) {
      std::rethrow_exception(reworded([&](const std::string& text) {
        return text.starts_with(name_)
                   ? text
                   : text_of(without_line(text), " (in metric ", name_, ")", line_in(text));
      }));
    }
    const Tensor& known = totals_.empty() ? more[0].sums : totals_[0].sums;
    if (more[i].sums.shape() != known.shape())
      throw ShapeError(name_, ": preds ", describe(preds[i]),
                       " are counted otherwise than those before; call reset() between");
  }
  return [this, more = std::move(more)] {
    const autograd::Pause unrecorded;
    for (const Measure& m : more) {
      const auto total = std::ranges::find_if(
          totals_, [&](const Measure& t) { return t.sums.context() == m.sums.context(); });
      if (total == totals_.end())
        totals_.push_back(m);
      else
        *total = merge(*total, m);
    }
  };
}

NamedValues Metric::get_name_value(Caller from) const try {
  const UserLine user_line(from);
  const autograd::Pause pause;
  std::optional<Measure> all;
  for (const Measure& total : totals_) {
    const Measure here(total.sums.as_in_context(cpu(), from), total.instances);
    all = all ? merge(*all, here) : here;
  }
  const bool any = all && all->instances > 0;
  return {{name_, any ? result(*all) : std::numeric_limits<double>::quiet_NaN()}};
} catch (const Error&) {
  rethrow_at(from);
}

Measure Metric::merge(const Measure& a, const Measure& b) const {
  return {a.sums + b.sums, a.instances + b.instances};
}

double Metric::result(const Measure& all) const { return all.sums.item<double>() / all.instances; }

Measure Loss::measure(const Tensor&, const Tensor& preds) const {
  return {sum(cast(preds, f64)), static_cast<double>(preds.size())};
}

CustomMetric::CustomMetric(Feval feval, std::string name)
    : Metric(std::move(name)), feval_(std::move(feval)) {
  if (!feval_) throw Error("CustomMetric: feval is empty; expected a function of labels and preds");
}

Measure CustomMetric::measure(const Tensor& labels, const Tensor& preds) const {
  const Measure m = feval_(labels, preds);
  if (m.sums.size() != 1)
    throw ShapeError("CustomMetric: feval returned ", describe(m.sums), "; expected one number");
  return {cast(m.sums.reshape({}), f64), m.instances};
}

void CompositeEvalMetric::add(std::shared_ptr<EvalMetric> metric) {
  if (!metric) throw Error("CompositeEvalMetric: add: expected a metric, not null");
  metrics_.push_back(std::move(metric));
}

EvalMetric& CompositeEvalMetric::get_metric(int64_t i) const {
  const auto n = static_cast<int64_t>(metrics_.size());
  if (i < 0 || i >= n)
    throw IndexError("CompositeEvalMetric: metric ", i, "; expected 0 to ", n - 1);
  return *metrics_[static_cast<size_t>(i)];
}

std::function<void()> CompositeEvalMetric::measured(const Tensors& labels, const Tensors& preds) {
  std::vector<std::function<void()>> all;
  for (const auto& metric : metrics_) all.push_back(metric->measured(labels, preds));
  return [all = std::move(all)] {
    for (const auto& count : all) count();
  };
}

void CompositeEvalMetric::reset() {
  for (const auto& metric : metrics_) metric->reset();
}

void CompositeEvalMetric::update(const Tensors& labels, const Tensors& preds, Caller from) try {
  const UserLine user_line(from);
  measured(labels, preds)();
} catch (const Error&) {
  rethrow_at(from);
}

NamedValues CompositeEvalMetric::get_name_value(Caller from) const try {
  NamedValues all;
  for (const auto& metric : metrics_)
    for (auto& value : metric->get_name_value(from)) all.push_back(std::move(value));
  return all;
} catch (const Error&) {
  rethrow_at(from);
}

namespace {
template <class M>
std::shared_ptr<EvalMetric> make() {
  return std::make_shared<M>();
}
}  // namespace

std::shared_ptr<EvalMetric> create(const std::string& name) {
  struct NamedMetric {
    const char *name, *alias;
    std::shared_ptr<EvalMetric> (*make)();
  };
  static constexpr NamedMetric kKnown[] = {
      {"accuracy", "acc", &make<Accuracy>},
      {"f1", "f1", &make<F1>},
      {"mcc", "mcc", &make<MCC>},
      {"pcc", "pcc", &make<PCC>},
      {"perplexity", "perplexity", &make<Perplexity>},
      {"crossentropy", "ce", &make<CrossEntropy>},
      {"negativeloglikelihood", "nll_loss", &make<NegativeLogLikelihood>},
      {"mae", "mae", &make<MAE>},
      {"mse", "mse", &make<MSE>},
      {"rmse", "rmse", &make<RMSE>},
      {"pearsoncorrelation", "pearsonr", &make<PearsonCorrelation>},
      {"loss", "loss", &make<Loss>},
  };
  std::string names;
  for (const NamedMetric& known : kKnown) {
    if (name == known.name || name == known.alias) return known.make();
    names += text_of(names.empty() ? "" : ", ", known.name);
  }
  throw ValueError("metric::create: \"", name, "\"; expected one of ", names,
                   "; TopKAccuracy and CustomMetric are made by their constructors");
}

std::shared_ptr<CompositeEvalMetric> create(std::initializer_list<std::string> names) {
  auto all = std::make_shared<CompositeEvalMetric>();
  for (const std::string& name : names) all->add(create(name));
  return all;
}

}  // namespace locus::metric
