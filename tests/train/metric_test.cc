#include "tests/support/contexts.h"

#include <cmath>
#include <memory>

#include <locus/core/autograd.h>
#include <locus/core/kernel.h>
#include <locus/core/transfer_log.h>
#include <locus/nn/metric.h>
#include <locus/ops/compare.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/reduce.h>

namespace locus {
namespace {

TEST(Accuracy, CountsOverBatchesAndContexts) {
  metric::Accuracy accuracy;
  EXPECT_EQ(accuracy.get().first, "accuracy");
  EXPECT_TRUE(std::isnan(accuracy.get().second));
  double right = 0, all = 0;
  for (Context c : test::distinct_contexts()) {
    const Tensor scores = array({{0.1f, 0.9f}, {0.8f, 0.2f}, {0.3f, 0.7f}}, c);
    accuracy.update(array({1, 1, 1}, c), scores);
    accuracy.update(array({1}, {c, i32}), array({1}, {c, i32}));  // class numbers
    right += 3;
    all += 4;
    EXPECT_DOUBLE_EQ(accuracy.get().second, right / all);
  }
  accuracy.reset();
  EXPECT_TRUE(std::isnan(accuracy.get().second));
}

TEST(Accuracy, TakesOneOfEachPerContext) {
  metric::Accuracy accuracy;
  const Tensor scores = array({{0.1f, 0.9f}});
  accuracy.update(Tensors{array({1}), array({0}, cpu(1))},
                  Tensors{scores, scores.as_in_context(cpu(1))});
  EXPECT_DOUBLE_EQ(accuracy.get().second, 0.5);
  EXPECT_THROW(accuracy.update(Tensors{array({1})}, Tensors{}), ShapeError);
}

TEST(Accuracy, SaysThatLabelsAreFirst) {
  metric::Accuracy accuracy;
  metric::TopKAccuracy top(2);
  const Tensor scores = array({{0.1f, 0.9f}, {0.8f, 0.2f}}), labels = array({1, 0});
  for (metric::Metric* m : std::initializer_list<metric::Metric*>{&accuracy, &top})
    EXPECT_THAT(test::message_of<ShapeError>([&] { m->update(scores, labels); }),
                testing::HasSubstr("the order is update(labels, preds)"));
}

TEST(Accuracy, RefusesWhatDoesNotFit) {
  metric::Accuracy accuracy;
  EXPECT_THROW(accuracy.update(array({1, 0}), ones({3, 2})), ShapeError);
  EXPECT_THROW(accuracy.update(array({1, 0}), ones({2})(newaxis, newaxis)), ShapeError);
  EXPECT_THAT(test::message_of<ContextMismatch>([&] {
                accuracy.update(array({1, 0}), ones({2, 2}, cpu(1)));
              }),
              testing::HasSubstr("(in metric accuracy)"));
  EXPECT_TRUE(std::isnan(accuracy.get().second)) << "a refused batch was counted";
}

TEST(Accuracy, NaNIsNoClass) {
  metric::Accuracy accuracy;
  accuracy.update(array({NAN, 0.f}), array({{2.f, 1.f}, {2.f, 1.f}}));
  accuracy.update(array({NAN, 0.f}), array({0.f, NAN}));
  EXPECT_DOUBLE_EQ(accuracy.get().second, .25);
}

TEST(CompositeEvalMetric, CountsInAllOrNone) {
  metric::CompositeEvalMetric both;
  both.add(metric::create("acc"));
  both.add(metric::create("ce"));
  both.update(array({1}), array({{.1f, .9f}}));
  EXPECT_THROW(both.update(array({0, 1}), array({0, 1})), ShapeError);  // invalid for cross-entropy
  EXPECT_EQ(both.get_metric(0).get().second, 1);
  both.update(array({0}), array({{.1f, .9f}}));
  EXPECT_EQ(both.get_metric(0).get().second, .5);
}

TEST(Accuracy, RecordsNothing) {
  metric::Accuracy accuracy;
  const Tensor scores = array({{0.1f, 0.9f}});
  scores.attach_grad();
  autograd::Record record;
  accuracy.update(array({1}), scores);
  accuracy.update(array({1}), scores);
  EXPECT_DOUBLE_EQ(accuracy.get().second, 1);
}

double value(const metric::EvalMetric& m) { return m.get().second; }
Tensor of(std::initializer_list<double> v, Context c) { return array(v, {c, f32}); }

TEST(Accuracy, TakesAnyAxisAndLabelsThatKeepIt) {
  const Tensor scores = array({{{.1f, .9f}, {.8f, .2f}}, {{.4f, .6f}, {.3f, .7f}}});  // (2, 2, 2)
  metric::Accuracy first;
  first.update(array({{1, 0}, {0, 0}}), scores);
  EXPECT_DOUBLE_EQ(value(first), .75);
  metric::Accuracy last({.axis = -1});
  last.update(array({{1, 0}, {1, 1}}), scores);
  EXPECT_DOUBLE_EQ(value(last), 1);
  metric::Accuracy column;
  column.update(array({{1}, {1}}), array({{.1f, .9f}, {.8f, .2f}}));
  EXPECT_DOUBLE_EQ(value(column), .5);
  metric::Accuracy cut;
  cut.update(array({1.f, 0.f}), array({1.9f, .9f}));
  EXPECT_DOUBLE_EQ(value(cut), 1) << "class numbers are cut to whole ones";
}

TEST(Metrics, SayThatLabelsAreFirst) {
  const Tensor labels = array({0, 1, 1}), scores = ones({3, 2});
  for (const char* name : {"accuracy", "f1", "mcc", "perplexity", "crossentropy"}) {
    const auto metric = metric::create(name);
    const std::string text = test::message_of<ShapeError>([&] { metric->update(scores, labels); });
    EXPECT_THAT(text, testing::HasSubstr("labels cpu(0) (3,2) f32 for preds cpu(0) (3"));
    EXPECT_THAT(text, testing::HasSubstr("the order is update(labels, preds)"));
    metric->update(labels, scores);
  }
}

TEST(TopKAccuracy, LooksAmongTheHighest) {
  for (Context c : test::contexts()) {
    metric::TopKAccuracy top(2);
    EXPECT_EQ(top.name(), "top_k_accuracy_2");
    top.update(array({0, 1, 2}, c), array({{.1f, .2f, .7f}, {.1f, .2f, .7f}, {.1f, .2f, .7f}}, c));
    EXPECT_DOUBLE_EQ(value(top), 2. / 3);
    top.reset();
    top.update(array({0, 1, 2}, c), array({{5.f, 5.f, 5.f}, {5.f, 5.f, 5.f}, {5.f, 5.f, 5.f}}, c));
    EXPECT_DOUBLE_EQ(value(top), 2. / 3) << "of equal ones the first are highest";
    top.reset();
    top.update(array({0, 1}, c), array({{NAN, 1.f, 2.f}, {NAN, 1.f, 2.f}}, c));
    EXPECT_DOUBLE_EQ(value(top), 0);
  }
  metric::TopKAccuracy all(9);
  all.update(array({0, 1}), ones({2, 3}));
  EXPECT_DOUBLE_EQ(value(all), 1);
  EXPECT_THROW(all.update(array({3}), ones({1, 3})), IndexError);
  EXPECT_THROW(all.update(array({-1}), ones({1, 3})), IndexError);
  EXPECT_THROW(all.update(array({0, 1}), ones({2})), ShapeError);
  EXPECT_THROW(metric::TopKAccuracy(0), ValueError);
}

// Counts tp, fp, fn, tn as an update.
void update(metric::EvalMetric& m, int tp, int fp, int fn, int tn, Context c) {
  std::vector<float> preds;
  std::vector<int32_t> labels;
  const auto add = [&](int n, int pred, int label) {
    for (int i = 0; i < n; ++i) {
      preds.insert(preds.end(), {pred ? .3f : .7f, pred ? .7f : .3f});
      labels.push_back(label);
    }
  };
  add(tp, 1, 1), add(fp, 1, 0), add(fn, 0, 1), add(tn, 0, 0);
  const auto n = static_cast<int64_t>(labels.size());
  m.update(array(labels, c), array(preds, {n, 2}, c));
}
double f1(double tp, double fp, double fn) { return 2 * tp / (2 * tp + fp + fn); }
double mcc(double tp, double fp, double fn, double tn) {
  return (tp * tn - fp * fn) / std::sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn));
}

TEST(BinaryMetrics, AverageUpdatesOrCountThemTogether) {
  for (Context c : test::contexts()) {
    metric::F1 f1_macro, f1_micro({.average = metric::Average::micro});
    metric::MCC mcc_macro, mcc_micro({.average = metric::Average::micro});
    for (metric::EvalMetric* m :
         {(metric::EvalMetric*)&f1_macro, (metric::EvalMetric*)&f1_micro,
          (metric::EvalMetric*)&mcc_macro, (metric::EvalMetric*)&mcc_micro}) {
      update(*m, 10, 3, 2, 5, c);
      update(*m, 1, 4, 2, 1, cpu(0));
    }
    EXPECT_DOUBLE_EQ(value(f1_macro), (f1(10, 3, 2) + f1(1, 4, 2)) / 2);
    EXPECT_DOUBLE_EQ(value(f1_micro), f1(11, 7, 4));
    EXPECT_DOUBLE_EQ(value(mcc_macro), (mcc(10, 3, 2, 5) + mcc(1, 4, 2, 1)) / 2);
    EXPECT_DOUBLE_EQ(value(mcc_micro), mcc(11, 7, 4, 6));
  }
  metric::F1 none;
  update(none, 0, 0, 0, 5, cpu());
  EXPECT_DOUBLE_EQ(value(none), 0);
  metric::MCC large;  // MXNet's own example
  update(large, 10000, 1000, 1, 1, cpu());
  EXPECT_DOUBLE_EQ(value(large), 0.01917751877733392);
  none.update(array({0, 1, 2}), ones({3, 2}));
  EXPECT_THROW(none.get(), ValueError);
  EXPECT_THROW(none.update(array({0, 1}), ones({3, 2})), ShapeError);
}

TEST(BinaryMetrics, RefuseScoresOfAnotherNumberOfClasses) {
  metric::F1 f1;
  metric::MCC mcc;
  for (metric::EvalMetric* m : {(metric::EvalMetric*)&f1, (metric::EvalMetric*)&mcc})
    for (const int64_t classes : {1, 3})
      EXPECT_THAT(test::message_of<ShapeError>([&] {
                    m->update(array({0, 1}), ones({2, classes}));
                  }),
                  testing::HasSubstr("expected preds (N, 2) and N labels"));
}

TEST(PCC, IsMccForAnyNumberOfClasses) {
  for (Context c : test::contexts()) {
    metric::PCC two;
    update(two, 10, 3, 2, 5, c);
    update(two, 1, 4, 2, 1, c);
    EXPECT_NEAR(value(two), mcc(11, 7, 4, 6), 1e-15);
    metric::PCC three({.classes = 3});
    three.update(array({0, 1, 2, 2}, c), array({0, 1, 2, 1}, c));
    // n = 4, correct 3, predictions (1, 2, 1), labels (1, 1, 2)
    EXPECT_NEAR(value(three), (4. * 3 - (1 + 2 + 2)) / (16 - 6), 1e-15);
    three.update(array({3}, c), array({0}, c));
    EXPECT_THROW(three.get(), IndexError);
  }
  metric::PCC one_class;
  one_class.update(array({1, 1}), array({{0.f, 1.f}, {1.f, 0.f}}));
  EXPECT_TRUE(std::isnan(value(one_class)));
  EXPECT_THROW(one_class.update(array({1, 1}), array({1, 1})), ValueError);
  EXPECT_THROW(one_class.update(array({1}), ones({1, 3})), ShapeError) << "other classes";
}

TEST(Perplexity, LeavesOutWhatItIgnores) {
  for (Context c : test::contexts()) {
    const Tensor p = array({{.25f, .75f}, {.5f, .5f}, {1.f, 0.f}}, c);
    metric::Perplexity all, some({.ignore_label = 1}), none({.ignore_label = -1});
    all.update(array({0, 1, 1}, c), p);
    EXPECT_NEAR(value(all), std::exp(-(std::log(.25) + std::log(.5) + std::log(1e-10)) / 3), 1e-6);
    some.update(array({0, 1, 1}, c), p);
    EXPECT_NEAR(value(some), 4, 1e-12);
    none.update(array({-1, -1, -1}, c), p);
    EXPECT_TRUE(std::isnan(value(none)));
    metric::Perplexity images({.axis = 1});
    images.update(array({{0, 1}}, c), array({{{.25f, .5f}, {.75f, .5f}}}, c));
    EXPECT_NEAR(value(images), std::exp(-(std::log(.25) + std::log(.5)) / 2), 1e-12);
  }
  metric::Perplexity strict;
  EXPECT_THROW(strict.update(array({2}), ones({1, 2})), IndexError);
  EXPECT_THROW(strict.update(array({0, 0}), ones({1, 2})), ShapeError);
}

TEST(CrossEntropyMetric, IsTheMeanOfTheLogarithms) {
  for (Context c : test::contexts()) {
    metric::CrossEntropy ce;
    metric::NegativeLogLikelihood nll({.eps = 0});
    for (metric::Metric* m : {(metric::Metric*)&ce, (metric::Metric*)&nll}) {
      m->update(of({1, 0}, c), array({{.5f, .25f}, {.5f, .5f}}, c));
      m->update(array({{0}}, c), array({{1.f, 0.f}}, c));
      EXPECT_NEAR(value(*m), (std::log(4) + std::log(2)) / 3, 1e-11);
    }
    ce.update(array({1}, c), array({{1.f, 0.f}}, c));
    EXPECT_NEAR(value(ce), (std::log(8) - std::log(1e-12)) / 4, 1e-9);
    EXPECT_EQ(ce.name(), "cross-entropy");
    EXPECT_EQ(nll.name(), "nll-loss");
  }
  EXPECT_THAT(test::message_of<ValueError>([] { metric::CrossEntropy({.eps = NAN}); }),
              testing::HasSubstr("cross-entropy: eps nan; expected"));
  EXPECT_THROW(metric::NegativeLogLikelihood({.eps = -1}), ValueError);
}

TEST(RegressionMetrics, AreMeansOverUpdates) {
  for (Context c : test::contexts()) {
    metric::MAE mae;
    metric::MSE mse;
    metric::RMSE rmse;
    for (metric::Metric* m :
         {(metric::Metric*)&mae, (metric::Metric*)&mse, (metric::Metric*)&rmse}) {
      m->update(of({1, 2, 3}, c), array({{2.f}, {4.f}, {6.f}}, c));
      m->update(array({0}, c), of({5}, c));
      EXPECT_THROW(m->update(array({0, 1}, c), of({5}, c)), ShapeError);
    }
    EXPECT_DOUBLE_EQ(value(mae), (2. + 5) / 2);
    EXPECT_DOUBLE_EQ(value(mse), (14. / 3 + 25) / 2);
    EXPECT_DOUBLE_EQ(value(rmse), (std::sqrt(14. / 3) + 5) / 2);
  }
}

TEST(Metrics, RefuseAnAverageOutOfRange) {
  const metric::AverageOptions other{.average = static_cast<metric::Average>(99)};
  EXPECT_THAT(test::message_of<ValueError>([&] { metric::PearsonCorrelation m(other); }),
              testing::StartsWith("pearsonr: average 99"));
  EXPECT_THAT(test::message_of<ValueError>([&] { metric::F1 m(other); }),
              testing::StartsWith("f1: average 99"));
}

TEST(PearsonCorrelation, OfUpdatesOrOfAll) {
  for (Context c : test::distinct_contexts()) {
    metric::PearsonCorrelation macro, micro({.average = metric::Average::micro});
    const Tensor x = sample_values(c, f32, {40}),
                 y = x * 2 + sample_values(c, f32, {40}, -1, 1, 1) + 1e4;
    const auto r = [&](int from, int to) {
      const std::vector<double> a = test::values(x), b = test::values(y);
      double ma = 0, mb = 0, aa = 0, bb = 0, ab = 0;
      for (auto i = size_t(from); i < size_t(to); ++i)
        ma += a[i] / (to - from), mb += b[i] / (to - from);
      for (auto i = size_t(from); i < size_t(to); ++i)
        aa += (a[i] - ma) * (a[i] - ma), bb += (b[i] - mb) * (b[i] - mb),
            ab += (a[i] - ma) * (b[i] - mb);
      return ab / std::sqrt(aa * bb);
    };
    for (const auto& [from, to] : {std::pair{0, 10}, {10, 13}, {13, 40}}) {
      macro.update(x(Slice(from, to)), y(Slice(from, to)));
      // Joins values across contexts.
      micro.update(x(Slice(from, to)).as_in_context(cpu(0)),
                   y(Slice(from, to)).as_in_context(cpu(0)));
      if (to == 10) continue;
    }
    EXPECT_NEAR(value(macro), (r(0, 10) + r(10, 13) + r(13, 40)) / 3, 1e-12);
    EXPECT_NEAR(value(micro), r(0, 40), 1e-12);
    metric::PearsonCorrelation apart({.average = metric::Average::micro});
    apart.update({x(Slice(0, 25)), x(Slice(25, 40)).as_in_context(cpu(1))},
                 {y(Slice(0, 25)), y(Slice(25, 40)).as_in_context(cpu(1))});
    EXPECT_NEAR(value(apart), r(0, 40), 1e-12);
    metric::PearsonCorrelation constant;
    constant.update(x, ones({40}, c));
    EXPECT_TRUE(std::isnan(value(constant)));
  }
}

TEST(LossMetric, AveragesItsElements) {
  metric::Loss loss;
  loss.update(Tensor(), array({1.f, 2.f}));
  loss.update(Tensor(), array({6.f}));
  EXPECT_DOUBLE_EQ(value(loss), 3);
}

TEST(CustomMetric, TakesANumberOrASumAndItsInstances) {
  metric::CustomMetric largest([](const Tensor&, const Tensor& preds) { return max(preds); },
                               "largest");
  largest.update(Tensor(), array({1.f, 2.f}));
  largest.update(Tensor(), array({5.f}));
  EXPECT_EQ(largest.get(), std::pair(std::string("largest"), 3.5));
  metric::CustomMetric right([](const Tensor& labels, const Tensor& preds) {
    return metric::Measure(sum(labels == preds), static_cast<double>(labels.size()));
  });
  right.update(array({1, 2, 3}), array({1, 2, 4}));
  EXPECT_DOUBLE_EQ(value(right), 2. / 3);
  metric::CustomMetric wrong([](const Tensor&, const Tensor& preds) { return preds; });
  EXPECT_THROW(wrong.update(Tensor(), ones({2})), ShapeError);
  EXPECT_THROW(metric::CustomMetric(nullptr), Error);
}

TEST(CompositeEvalMetric, HoldsSeveral) {
  const auto all = metric::create({"acc", "ce"});
  all->add(std::make_shared<metric::TopKAccuracy>(2));
  all->update(array({1}), array({{.5f, .5f, 0.f}}));
  const metric::NamedValues values = all->get_name_value();
  ASSERT_EQ(values.size(), 3u);
  EXPECT_EQ(values[0], std::pair(std::string("accuracy"), 0.));
  EXPECT_NEAR(values[1].second, std::log(2), 1e-11);
  EXPECT_EQ(values[2], std::pair(std::string("top_k_accuracy_2"), 1.));
  EXPECT_EQ(all->get_metric(0).get().second, 0);
  EXPECT_THROW(all->get_metric(3), IndexError);
  EXPECT_THROW(all->get(), Error);
  all->reset();
  for (const auto& [name, v] : all->get_name_value()) EXPECT_TRUE(std::isnan(v)) << name;
}

TEST(Metrics, AreCreatedByName) {
  for (const char* name : {"acc", "f1", "mcc", "pcc", "perplexity", "ce", "nll_loss", "mae", "mse",
                           "rmse", "pearsonr", "loss", "negativeloglikelihood"})
    EXPECT_TRUE(std::isnan(value(*metric::create(name)))) << name;
  EXPECT_EQ(metric::create("acc")->get().first, metric::create("accuracy")->get().first);
  EXPECT_THAT(test::message_of<ValueError>([] { metric::create("top_k_acc"); }),
              testing::HasSubstr("TopKAccuracy"));
}

// update() does not wait.
TEST(Metrics, CountWithoutWaiting) {
  for (Context c : test::contexts()) {
    const Tensor labels = array({1, 0}, c), scores = array({{.2f, .8f}, {.3f, .7f}}, c);
    const auto all =
        metric::create({"acc", "f1", "mcc", "pcc", "perplexity", "ce", "nll_loss", "loss"});
    all->add(std::make_shared<metric::TopKAccuracy>(2));
    const auto numbers = metric::create({"mae", "mse", "rmse", "pearsonr"});
    TransferLog log;
    all->update(labels, scores);
    numbers->update(labels, scores(Slice(), 1));
    EXPECT_TRUE(log.entries().empty()) << log.table();
  }
}

}  // namespace
}  // namespace locus
