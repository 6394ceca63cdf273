// Predictions against cases computed by hand, independent of real times.
#include <chrono>

#include <gtest/gtest.h>

#include <locus/core/kernel.h>
#include <locus/nn/pipeline.h>
#include <locus/nn/plan.h>
#include <locus/nn/planned.h>
#include "planning/candidates.h"
#include "planning/machine.h"

namespace locus::test {
namespace {

using namespace planning;
using planning::Layout;

// A curve through zero.
Curve line(double each) {
  Curve c;
  c.add(1, each);
  return c;
}

// Layers of 1 s forward and 2 s backward per sample, with 4 bytes of parameters and 8 bytes of
// results per sample.
ModelCost equal_layers(int n) {
  ModelCost m;
  for (int i = 0; i < n; ++i) {
    LayerCost l;
    l.forward = line(1);
    l.backward = l.again = line(2);
    l.held = line(8);
    l.fixed = 12;
    l.gradients = {4};
    l.out = 8;
    m.layers.push_back(l);
  }
  m.in = 8;
  return m;
}

// Links with a rate and a latency.
struct Simple : Links {
  double latency = 0, rate = 1e300, slow = 1, wait = 0, sums = 0;
  double copy(int, int, double bytes) const override { return latency + bytes / rate; }
  double sum_held(int, const std::vector<double>& bytes) const override {
    return sums * static_cast<double>(bytes.size());
  }
  double waited(int n) const override { return n * wait; }
  double sum(int, int, int n, const std::vector<double>& bytes) const override {
    double all = 0;
    for (const double b : bytes) all += b;
    return sum_seconds(n, all, rate, latency);
  }
  double pace(double, double) const override { return slow; }
  double input(int, double) const override { return 0; }
  double losses(int n, double bytes) const override { return (n - 1) * copy(0, 1, bytes); }
};

Layout layout(std::vector<int> begins, int replicas, int microbatches) {
  Layout l;
  l.begins = std::move(begins);
  l.replicas = replicas;
  l.microbatches = microbatches;
  return l;
}

TEST(PlanCost, CurvesAreStraightBetweenWhatWasMeasured) {
  Curve c;
  c.add(10, 5);
  EXPECT_DOUBLE_EQ(c.at(20), 10);  // in proportion
  EXPECT_DOUBLE_EQ(c.at(1), 5);    // a launch has a least time
  c.add(20, 7);
  EXPECT_DOUBLE_EQ(c.at(15), 6);
  EXPECT_DOUBLE_EQ(c.at(40), 11);
  EXPECT_DOUBLE_EQ(Curve().at(3), 0);
  Curve noisy;
  noisy.add(1, 5);
  noisy.add(2, 4);
  EXPECT_DOUBLE_EQ(noisy.at(8), 4);                            // never falls
  for (const double slow : {100, 9, 8, 200}) c.add(20, slow);  // lower quartile
  EXPECT_DOUBLE_EQ(c.at(20), 8);
}

TEST(PlanCost, OneContextTakesTheSumOfItsLayers) {
  const Prediction p = predict(layout({0, 4}, 1, 1), equal_layers(4), Simple(), 8);
  EXPECT_DOUBLE_EQ(p.seconds, 4 * 3 * 8);
  EXPECT_DOUBLE_EQ(p.compute, p.seconds);
  EXPECT_STREQ(p.bound(), "compute");
  EXPECT_EQ(p.held, std::vector<double>{4 * (12 + 8 * 8)});
  Simple slow;
  slow.slow = 1.5;
  EXPECT_DOUBLE_EQ(predict(layout({0, 4}, 1, 1), equal_layers(4), slow, 8).seconds, 1.5 * 96);
}

TEST(PlanCost, APipelineOfEqualStagesHasTheIdealBubble) {
  for (const int p : {1, 2, 4})
    for (const int m : {1, 2, 4, 8})
      for (const auto schedule : {nn::Schedule::gpipe, nn::Schedule::one_f1b}) {
        Layout l = layout({0}, 1, m);
        for (int s = 1; s <= p; ++s) l.begins.push_back(s * 4 / p);
        l.schedule = schedule;
        const Prediction r = predict(l, equal_layers(4), Simple(), 16);
        const double pass = 3. * 4 / p * 16 / m;  // both directions, of one microbatch
        EXPECT_NEAR(r.seconds, (m + p - 1) * pass, 1e-9) << p << " " << m;
        EXPECT_NEAR(r.bubble / r.seconds, nn::Pipeline::bubble(p, m), 1e-12);
        EXPECT_NEAR(r.compute, m * pass, 1e-9);
      }
}

TEST(PlanCost, WhatCrossesBetweenStagesIsAddedOnceEachWay) {
  Simple links;
  links.latency = 5;
  // One microbatch: forward 32, copy, forward 32, backward 64, copy, backward 64.
  const Prediction p = predict(layout({0, 2, 4}, 1, 1), equal_layers(4), links, 16);
  EXPECT_DOUBLE_EQ(p.seconds, 2 * (32 + 64) + 2 * 5);
  EXPECT_DOUBLE_EQ(p.link, 10);
  EXPECT_DOUBLE_EQ(p.compute, 96);
  EXPECT_DOUBLE_EQ(p.bubble, 96);
}

TEST(PlanCost, UnequalStagesWaitForTheLongest) {
  // The longest stage is idle only in the other's first forward and last backward pass.
  const Prediction p = predict(layout({0, 1, 4}, 1, 4), equal_layers(4), Simple(), 4);
  EXPECT_DOUBLE_EQ(p.compute, 3 * 3 * 4);
  EXPECT_DOUBLE_EQ(p.seconds, 1 + 3 * 3 * 4 + 2);
  // If the first stage is the longest, it has two microbatches ahead and is never idle.
  EXPECT_DOUBLE_EQ(predict(layout({0, 3, 4}, 1, 4), equal_layers(4), Simple(), 4).seconds, 36);
}

TEST(PlanCost, ReplicasShareABatchAndSumTheirGradients) {
  Simple links;
  links.latency = 1;
  links.rate = 16;
  const Prediction p = predict(layout({0, 4}, 4, 1), equal_layers(4), links, 16);
  const double one_shot = 1 + 3 * 16. / 16;     // less than the ring's 2 * 3 * (1 + 16. / 4 / 16)
  const double losses = 3 * (1 + 4. * 4 / 16);  // of 4 samples each
  EXPECT_DOUBLE_EQ(p.seconds, 4 * 3 * 4 + one_shot + losses);
  EXPECT_DOUBLE_EQ(p.compute, 48);
  EXPECT_DOUBLE_EQ(p.held[0], 4 * (12 + 4 * 8) + 4 * 8);
  links.sums = 100;  // for each of four gradients, after activations are freed
  EXPECT_DOUBLE_EQ(predict(layout({0, 4}, 4, 1), equal_layers(4), links, 16).held[0], 4 * 12 + 400);
  links.sums = 1;
  EXPECT_EQ(predict(layout({0, 4}, 4, 1), equal_layers(4), links, 16).held, p.held);
}

TEST(PlanCost, SumsTakeTheLeastWay) {
  EXPECT_DOUBLE_EQ(sum_seconds(1, 1e9, 1e9, 1), 0);
  EXPECT_DOUBLE_EQ(sum_seconds(2, 0, 1e9, 1e-6), 1e-6);        // one shot: one message
  EXPECT_DOUBLE_EQ(sum_seconds(8, 8e9, 1e9, 0), 2 * 7 * 1.0);  // ring: 2 (n - 1) / n
  EXPECT_DOUBLE_EQ(sum_seconds(8, 8e9, 1e9, 1e-3), 2 * 7 * 1.001);
  EXPECT_DOUBLE_EQ(sum_seconds(128, 1e5, 1e5, 1), 2 * 7 * 2.);  // tree: few messages
}

TEST(PlanCost, SumsOfSeveralHostsAreMadeWithinThemAndBetween) {
  const Machine m = Machine::parse("4x8 h200, nvlink 100, ib 10, latency 0, ib_latency 0");
  const FormulaLinks links(m);
  EXPECT_DOUBLE_EQ(links.copy(0, 7, 1e9), .01);
  EXPECT_DOUBLE_EQ(links.copy(7, 8, 1e9), .1);
  EXPECT_DOUBLE_EQ(links.sum(0, 1, 8, {8e9}), 2 * 7 * .01);
  EXPECT_DOUBLE_EQ(links.sum(0, 1, 32, {4e9, 4e9}), 2 * 7 * .01 + 2 * 3 * .25 * .1);
  // One device per host: no sum within a host.
  EXPECT_DOUBLE_EQ(links.sum(3, 8, 4, {4e9}), 2 * 3 * 1e9 / 10e9);
}

TEST(PlanCost, ASimulatedGpuComputesAtTheGivenRate) {
  ModelCost m = equal_layers(4);
  m.serial = true;  // the host timed them
  const auto one_gpu = [&](const char* machine) {
    return simulate(m, Machine::parse(machine), 8).front();
  };
  const Prediction same = one_gpu("1x1 h200, compute 1"), faster = one_gpu("1x1 h200, compute 100");
  EXPECT_NEAR(faster.compute, same.compute / 100, 1e-12);
  // The compute rate does not change link times.
  const auto shared = [&](double compute) {
    return FormulaLinks(Machine::parse("1x2 h200, compute " + std::to_string(compute)))
        .copy(0, 1, 1e9);
  };
  EXPECT_DOUBLE_EQ(shared(1), shared(100));
  // Stages compute in parallel, although the host timed them.
  for (const Prediction& p : simulate(m, Machine::parse("1x4 h200, compute 1, latency 0"), 8))
    if (p.layout.devices() == 4) {
      EXPECT_LT(p.seconds, .9 * 4 * same.seconds) << p.layout.summary();
    }
}

TEST(PlanCost, TheHostIsWaitedForWhereItIsSlow) {
  ModelCost m = equal_layers(2);
  for (LayerCost& l : m.layers) l.issue.forward = l.issue.backward = line(10);
  const Prediction p = predict(layout({0, 2}, 1, 1), m, Simple(), 1);
  EXPECT_DOUBLE_EQ(p.seconds, 40);
  EXPECT_DOUBLE_EQ(p.compute, 6);
  EXPECT_DOUBLE_EQ(p.host, 34);
  EXPECT_STREQ(p.bound(), "host");
}

// Host time of later microbatches' gradients, and of the program's wait.
TEST(PlanCost, TheHostIssuesWhatItIsAskedTo) {
  ModelCost m = equal_layers(2);
  for (LayerCost& l : m.layers) {
    l.issue.backward = line(10);
    l.issue.again = line(20);
  }
  Simple links;
  EXPECT_DOUBLE_EQ(predict(layout({0, 2}, 1, 2), m, links, 2).seconds, 20 + 40);
  links.wait = 7;
  const Prediction p = predict(layout({0, 1, 2}, 1, 1), m, links, 1);
  EXPECT_DOUBLE_EQ(p.seconds, 10 + 10 + 2 * 7);
  EXPECT_NEAR(p.seconds, p.compute + p.bubble + p.link + p.host, 1e-9);
}

// Layers with a host time of 1 s per sample and pass, and 10 s per update.
ModelCost issued_layers(int n) {
  ModelCost m = equal_layers(n);
  for (LayerCost& l : m.layers) {
    l.forward = l.backward = l.again = Curve();
    l.issue.forward = l.issue.backward = l.issue.again = line(1);
    l.issue_update.add(10);
  }
  return m;
}
HostCost host_cost(double pass, double before, double after) {
  HostCost h;
  h.forward = h.backward = h.again = line(pass);
  h.before = line(before);
  h.after = line(after);
  return h;
}

TEST(PlanCost, TheHostTakesWhatStepsOfItsKindTake) {
  ModelCost m = issued_layers(4);
  EXPECT_DOUBLE_EQ(predict(layout({0, 4}, 1, 1), m, Simple(), 1).seconds, 4 + 4 + 40);
  m.host = host_cost(3, 5, 70);
  EXPECT_DOUBLE_EQ(predict(layout({0, 4}, 1, 1), m, Simple(), 1).seconds, 5 + 2 * 3 + 70);
  // Stages are enqueued in turn, with copies; each replica has a thread and half of the batch.
  m.stages[2] = host_cost(9, 6, 80);
  m.replicas[2] = host_cost(4, 20, 100);
  EXPECT_DOUBLE_EQ(predict(layout({0, 2, 4}, 1, 1), m, Simple(), 1).seconds, 6 + 2 * 9 + 80);
  EXPECT_DOUBLE_EQ(predict(layout({0, 4}, 2, 1), m, Simple(), 2).seconds, 20 + 2 * 4 + 100);
  // Both: the sum of the extra times over one device.
  EXPECT_DOUBLE_EQ(predict(layout({0, 2, 4}, 2, 1), m, Simple(), 2).seconds,
                   (6 + 20 - 5) + 2 * (9. * 4 / 3) + (80 + 100 - 70));
}

TEST(PlanCost, TheHostTakesWhatStepsOfCutLayersTake) {
  ModelCost m = issued_layers(3);
  m.cut_from = 1;
  m.parts[2] = {m.layers[1], m.layers[2]};
  Layout l = layout({0, 1, 3}, 1, 1);
  l.cut = 2;
  // One uncut layer, and two cut layers that are enqueued twice.
  EXPECT_DOUBLE_EQ(predict(l, m, Simple(), 1).seconds, 2 * (1 + 2 * 2) + 10 + 2 * 20);
  m.cut_host[2] = host_cost(7, 0, 30);
  EXPECT_DOUBLE_EQ(predict(l, m, Simple(), 1).seconds, 2 * (1 + 7) + 10 + 30);
}

TEST(PlanCost, LayersTakeTheirShareOfPassesOverAll) {
  ModelCost m = equal_layers(4);
  EXPECT_EQ(m.scale(&PassCost::forward, 8), 1);
  m.whole.forward = line(3);   // alone they take 4
  m.whole.backward = line(4);  // alone 8
  EXPECT_DOUBLE_EQ(m.scale(&PassCost::forward, 8), .75);
  EXPECT_DOUBLE_EQ(predict(layout({0, 4}, 1, 1), m, Simple(), 8).seconds, 8 * 7);
  EXPECT_DOUBLE_EQ(predict(layout({0, 2, 4}, 1, 1), m, Simple(), 8).compute, 8 * 3.5);
}

TEST(PlanCost, AHostComputesItsStagesOneAfterTheOther) {
  ModelCost m = equal_layers(4);
  m.serial = true;
  EXPECT_DOUBLE_EQ(predict(layout({0, 2, 4}, 1, 4), m, Simple(), 4).seconds, 4 * 3 * 4);
}

TEST(PlanCost, MicrobatchesUnderWayAreHeld) {
  const auto held = [](nn::Schedule schedule, int m) {
    Layout l = layout({0, 2, 4}, 1, m);
    l.schedule = schedule;
    return predict(l, equal_layers(4), Simple(), 16).held;
  };
  // Each stage's two layers hold 16 n. The second stage has inputs and their gradients, 16 n, and
  // the next inputs, 8 n; the first stage has the result's gradient, 8 n.
  EXPECT_EQ(held(nn::Schedule::gpipe, 4),
            (std::vector<double>{24 + 4 * 16 * 4 + 8 * 4, 24 + 4 * 32 * 4}));
  EXPECT_EQ(held(nn::Schedule::one_f1b, 4),
            (std::vector<double>{24 + 2 * 16 * 4 + 8 * 4, 24 + 32 * 4 + 8 * 4}));
  EXPECT_EQ(held(nn::Schedule::one_f1b, 1),
            (std::vector<double>{24 + 16 * 16 + 8 * 16, 24 + 32 * 16}));
}

TEST(PlanCost, StagesAreBalanced) {
  ModelCost m = equal_layers(5);
  m.layers[0].forward = line(4);
  EXPECT_EQ(balanced(m, 2, 4), (std::vector<int>{0, 2, 5}));
  EXPECT_EQ(balanced(m, 3, 4), (std::vector<int>{0, 1, 3, 5}));
  EXPECT_EQ(balanced(m, 5, 4), (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

// Rows 1 and 3 of four layers are summed, forward and backward, except the input's gradient.
TEST(PlanCost, CutLayersSumTheirResults) {
  ModelCost m = equal_layers(4);
  m.cut_from = 0;
  m.parts[2] = m.layers;
  for (LayerCost& l : m.parts[2]) {
    l.forward = line(.5);
    l.backward = line(1);
    l.fixed = 6;
  }
  for (const size_t i : {0u, 2u}) m.parts[2][i].as = nn::CutAs::column;
  for (const size_t i : {1u, 3u}) m.parts[2][i].as = nn::CutAs::row;
  Layout l = layout({0, 4}, 1, 1);
  l.cut = 2;
  Simple links;
  links.latency = 1;
  const Prediction p = predict(l, m, links, 16);
  EXPECT_DOUBLE_EQ(p.compute, 4 * 1.5 * 16);
  EXPECT_DOUBLE_EQ(p.link, 1 + 2 * 2 * 1);  // the batch to both, and two rows
  EXPECT_DOUBLE_EQ(p.seconds, p.compute + p.link);
  EXPECT_EQ(p.held.size(), 2u);
  // With measured sums: all time beyond the parts' compute is link time.
  m.cut[2].forward = line(3);
  m.cut[2].backward = line(5);
  const Prediction measured = predict(l, m, links, 16);
  EXPECT_DOUBLE_EQ(measured.compute, 4 * 1.5 * 16);
  EXPECT_DOUBLE_EQ(measured.seconds, 1 + (3 + 5) * 16);
  // If contexts together are faster than a part alone, compute is less.
  m.cut[2].forward = m.cut[2].backward = line(1);
  const Prediction less = predict(l, m, links, 16);
  EXPECT_DOUBLE_EQ(less.seconds, 1 + 2 * 16);
  EXPECT_NEAR(less.seconds, less.compute + less.bubble + less.link + less.host, 1e-9);
}

TEST(PlanCost, CandidatesAreOfAllKindsAndBecomePlans) {
  ModelCost m = equal_layers(4);
  m.cut_from = 2;
  m.parts[4] = {m.layers[2], m.layers[3]};
  std::map<std::string, int> kinds;
  for (const Layout& l : candidates(m, 4, 64)) {
    ++kinds[l.kind()];
    EXPECT_EQ(l.devices(), 4);
    std::vector<Context> contexts;
    for (int i = 0; i < 4; ++i) contexts.push_back(cpu(i));
    const nn::Plan plan = l.plan(contexts);
    plan.check(4);
    plan.check_batch(64);
    EXPECT_EQ(nn::Plan::parse(plan.text()), plan);
    EXPECT_EQ(plan.contexts().size(), 4u);
  }
  EXPECT_EQ(kinds.size(), 4u) << "data, pipeline, mixed, tensor";
  EXPECT_EQ(kinds["tensor"], 1);
  for (const Layout& l : candidates(m, 4, 3)) EXPECT_LE(int64_t{l.replicas} * l.microbatches, 3);
  EXPECT_EQ(candidates(m, 1, 4)[0].kind(), std::string("one"));
}

TEST(PlanCost, ThousandsOfDevicesTakeMilliseconds) {
  ModelCost m = equal_layers(16);
  for (LayerCost& l : m.layers) l.gradients = {1e8};
  const auto start = std::chrono::steady_clock::now();
  const Machine machine = Machine::parse("128x8 h200, nvlink 395, ib 50");
  const std::vector<Prediction> all = simulate(m, machine, 256);
  // A bound that a simulation of every device would miss.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.back().layout.devices(), 1024);
  EXPECT_EQ(all.front().layout.devices(), 1);
  for (const Prediction& p : all) {
    EXPECT_GT(p.seconds, 0);
    EXPECT_NEAR(p.seconds, p.compute + p.bubble + p.link + p.host, 1e-9 * p.seconds);
    EXPECT_LE(p.most_held(), 141e9);
  }
  // Nothing fits into a byte.
  EXPECT_TRUE(simulate(m, Machine::parse("2x8 toy, memory 0.001"), 1 << 20).empty());
}

}  // namespace
}  // namespace locus::test
