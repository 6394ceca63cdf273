// Models and machines as text, and plans that run, independent of real times.
#include <gmock/gmock.h>

#include <locus/core/base/text.h>
#include <locus/core/device.h>
#include <locus/core/kernel.h>
#include <locus/nn/block.h>
#include <locus/nn/containers.h>
#include <locus/nn/init.h>
#include <locus/nn/plan.h>
#include <locus/ops/create.h>
#include "planning/machine.h"
#include "planning/measured_layers.h"
#include "planning/measured_links.h"
#include "planning/model.h"
#include "planning/sweep.h"
#include "planning/trial.h"
#include "tests/ranks/groups.h"

namespace locus::test {
namespace {

using namespace planning;
using testing::HasSubstr;
using testing::StartsWith;

TEST(PlanMachine, IsRead) {
  const Machine m = Machine::parse("128x8 h200, ib 25 ,latency 2.5,nvlink 450");
  EXPECT_EQ(m.devices(), 1024);
  EXPECT_EQ(m.name, "h200");
  EXPECT_EQ(m.memory, 141);
  EXPECT_EQ(m.nvlink, 450);
  EXPECT_EQ(m.ib, 25);
  EXPECT_EQ(m.latency, 2.5);
  for (const char* text : {"", "8 h200", "8x h200", "0x8 h200", "8x8", "ax8 h200", "8x8 h200,",
                           "8x8 h200, nvlink", "8x8 h200, nvlink x", "8x8 h200, speed 3",
                           "8x8 h300", "8x8 h200, ib -1", "8x8 h200, ib 0", "1000000x1000000 h200"})
    EXPECT_THAT(
        message_of<FormatError>([&] { Machine::parse(text); }),
        testing::AllOf(StartsWith(text_of("machine \"", text, "\": ")), HasSubstr("expected")))
        << text;
  EXPECT_EQ(
      message_of<FormatError>([] { Machine::parse("2x2 h200, ib 3, nvlink 10, ib 3"); }),
      "machine \"2x2 h200, ib 3, nvlink 10, ib 3\": \"ib 3\": ib is given twice; expected each "
      "once");
}

TEST(PlanModel, IsRead) {
  const Model m = parse_model(
      "model-1  # LeNet\n\ninput 1 28 28\nConv2D 20 5 relu\nMaxPool2D 2\nConv2D 8 3 padding 1 "
      "strides 2\n"
      "BatchNorm\nActivate relu\nFlatten\nDropout 0.5\nDense 50 tanh\nDense 7\n",
      "a.model");
  EXPECT_EQ(m.sample, (Shape{1, 28, 28}));
  EXPECT_EQ(m.classes, 7);
  nn::Sequential net = m.make();
  ASSERT_EQ(net.size(), 9);
  EXPECT_THAT(net[0].repr(), HasSubstr("Conv2D("));
  EXPECT_EQ(net[7].repr(), "Dense(None -> 50, tanh)");
  net.initialize(init::Xavier(), cpu());
  EXPECT_EQ(net(zeros({2, 1, 28, 28})).shape(), (Shape{2, 7}));
}

TEST(PlanModel, SaysWhetherASampleDependsOnItsBatch) {
  const auto depends = [](const char* line) {
    return depends_on_batch(parse_model(text_of("model-1\ninput 1 8 8\n", line, "\nDense 3"), "m"));
  };
  EXPECT_FALSE(depends("Conv2D 4 3 relu\nFlatten"));
  EXPECT_TRUE(depends("BatchNorm"));
  EXPECT_TRUE(depends("Dropout .5"));
  EXPECT_TRUE(depends_on_batch(load_model("resnet", {})));  // within its blocks
}

TEST(PlanModel, BadLinesAreNamed) {
  const auto error = [](const std::string& text) {
    return message_of<FormatError>([&] { parse_model(text, "a.model"); });
  };
  EXPECT_EQ(error("Dense 10"), "a.model:1: \"Dense\"; expected model-1, the version");
  EXPECT_THAT(error("model-1\nDense 10"), StartsWith("a.model:2: \"Dense\"; expected \"input\""));
  EXPECT_THAT(error("model-1\ninput 4\n"), HasSubstr("no layers"));
  for (const char* line :
       {"Dense", "Dense x", "Dense 0", "Dense 10 relux", "Dense 10 relu relu", "Flatten",
        "Dense 10 strides 2", "Dance 10", "Conv2D 5", "Conv2D 5 3 strides", "Conv2D 5 3 strides 0",
        "MaxPool2D", "MaxPool2D 2 relu", "Dropout 1", "Flatten 3", "input 4", "MaxPool2D 2",
        "Dense 99999999"})
    EXPECT_THAT(error(text_of("model-1\ninput 12\n\n", line)), StartsWith("a.model:4: ")) << line;
  EXPECT_THAT(error("model-1\ninput 1 2 3 4\nDense 3"), HasSubstr("up to three lengths"));
  EXPECT_THAT(error("model-1\ninput 1048576 1048576 1048576\nDense 3"),
              StartsWith("a.model: input: "));
  EXPECT_THAT(error("model-1\ninput 3 8 8\nConv2D 4 3"),
              StartsWith("a.model:3: the last layer gives"));
  for (const char* unreadable : {"no such file", "/"})
    EXPECT_THAT(message_of<FormatError>([&] { load_model(unreadable, {}); }),
                HasSubstr("expected mlp, lenet, resnet or a file"));
}

// Checks no times, only that values are plausible.
TEST(PlanTrial, RunsEveryKind) {
  const Model m = parse_model("model-1\ninput 6\nDense 8 relu\nDense 8 relu\nDense 3", "m");
  double loss = 0;
  for (const char* lines :
       {"layers 0-2 on cpu", "layers 0-2 on cpu, cpu(1)", "layers 0-2 cut over cpu, cpu(1)",
        "microbatches 4\nlayers 0-1 on cpu\nlayers 2 on cpu(1)",
        "microbatches 2\nlayers 0-1 on cpu, cpu(2)\nlayers 2 on cpu(1), cpu(3)"}) {
    const nn::Plan plan = nn::Plan::parse(text_of("plan-1\n", lines));
    Trial trial(m, plan, 16);
    if (loss == 0) loss = trial.first_loss();
    EXPECT_NEAR(trial.first_loss(), loss, 1e-5) << lines;
    EXPECT_EQ(trial.times(2).size(), 2u);
    EXPECT_EQ(trial.held().size(), plan.contexts().size());
    const size_t passes = plan.cut() ? 2 * plan.contexts().size()
                                     : 2 * plan.stages.size() *
                                           static_cast<size_t>(plan.replicas() * plan.microbatches);
    bool asked = false;
    const std::vector<Ran> ran = trial.trace([&] { asked = true; });
    EXPECT_TRUE(asked);
    EXPECT_EQ(ran.size(), passes + plan.contexts().size()) << lines;
    const std::vector<Issued> issued = trial.issued(2);
    EXPECT_EQ(issued.size(), 2u);
    for (const Issued& i : issued) {
      EXPECT_GT(i.forward, 0) << lines;
      EXPECT_GT(i.backward, 0) << lines;
      EXPECT_EQ(i.again > 0, plan.microbatches > 1) << lines;
      EXPECT_EQ(i.before > 0, !plan.cut()) << lines;
      EXPECT_GT(i.after, 0) << lines;
    }
  }
}

struct NoLinks : Links {
  double copy(int, int, double) const override { return 0; }
  double sum(int, int, int, const std::vector<double>&) const override { return 0; }
  double sum_held(int, const std::vector<double>&) const override { return 0; }
  double pace(double, double) const override { return 1; }
  double input(int, double) const override { return 0; }
  double losses(int, double) const override { return 0; }
  double waited(int) const override { return 0; }
};

TEST(PlanTrial, HoldsWhatIsPredicted) {
  const Model m = parse_model(
      "model-1\ninput 1 28 28\nConv2D 8 5 relu\nMaxPool2D 2\nFlatten\nDense 64 relu\nDense 10",
      "m");
  const std::vector<Context> where = num_gpus() >= 2 ? gpus(2) : hosts(2);
  const ModelCost cost =
      measure_layers(m, {where.data(), 1}, {.samples = {64, 32, 16}, .cuts = {}, .rounds = 1});
  for (const auto& [begins, microbatches] : {std::pair(std::vector<int>{0, 5}, 1),
                                             {{0, 5}, 4},
                                             {{0, 1, 5}, 2},
                                             {{0, 1, 5}, 4},
                                             {{0, 2, 5}, 4}}) {
    planning::Layout l;
    l.begins = begins;
    l.microbatches = microbatches;
    const std::vector<double> held = Trial(m, l.plan(where), 64).held(),
                              predicted = predict(l, cost, NoLinks(), 64).held;
    ASSERT_EQ(held.size(), predicted.size());
    for (size_t i = 0; i < held.size(); ++i)
      EXPECT_NEAR(predicted[i] / held[i], 1, .05) << l.summary() << ", stage " << i;
  }
}

TEST(PlanSweep, MeasuresThePartsOfLayersBehindOneThatFlattens) {
  const Model m =
      parse_model("model-1\ninput 1 8 8\nConv2D 4 3\nFlatten\nDense 6 relu\nDense 3", "m");
  for (const std::vector<Context>& where : {hosts(1), hosts(2)}) {
    const ModelCost cost = measure_layers(m, where, {.samples = {2}, .cuts = {2}, .rounds = 1});
    EXPECT_EQ(cost.cut_from, 1);
    ASSERT_EQ(cost.parts.at(2).size(), 3u);
    EXPECT_EQ(cost.parts.at(2)[1].out, 3 * 4.);  // half the units, of a sample
    EXPECT_EQ(cost.parts.at(2)[2].out, 3 * 4.);
    // Parts are also timed together if there are two contexts.
    EXPECT_EQ(cost.cut.contains(2), where.size() == 2);
    EXPECT_FALSE(cost.whole.again.empty());
  }
  const ModelCost few =  // too few units for so many
      measure_layers(m, hosts(1), {.samples = {2}, .cuts = {7}, .rounds = 1});
  EXPECT_FALSE(few.parts.contains(7));
}

TEST(PlanSweep, KnowsTheShapesOfLayers) {
  const Model m = parse_model("model-1\ninput 1 8 8\nConv2D 4 3 relu\nFlatten\nDense 3", "m");
  const std::vector<Sweep::Layer> layers = Sweep::layers_of(m);
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_EQ(layers[0].out, (Shape{4, 6, 6}));
  EXPECT_EQ(layers[1].out, Shape{144});
  EXPECT_EQ(layers[2].out, Shape{3});
  for (const Context c : contexts()) {
    Sweep sweep(Sweep::layers_of(m), m.classes, c, 5);
    sweep.run();
    const Sweep::Round r = sweep.round([] {});
    EXPECT_EQ(r.forward.size(), 4u);  // and the loss
    EXPECT_GE(r.held[0], 5 * 144 * 4);
  }
}

TEST(PlanSweep, NeedsAContextThatHoldsTheWholeNetwork) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const Model m = parse_model("model-1\ninput 64\nDense 4096\nDense 4096\nDense 3", "m");
  MemoryPool& pool = memory_pool(gpu(0));
  wait_all();
  pool.release_cached();
  pool.set_limit(pool.stats().reserved + (size_t{16} << 20));
  const Context c = gpu(0);
  const std::string text = message_of<OutOfMemory>([&] {
    measure_layers(m, {&c, 1}, {.samples = {8, 4}, .cuts = {}, .rounds = 1});
  });
  pool.set_limit(0);
  EXPECT_THAT(text, HasSubstr("gpu(0), which must hold the whole network"));
  EXPECT_THAT(text, HasSubstr("of 8 samples"));
  EXPECT_EQ(text.find("LOCUS_EMULATED_MEMORY") != text.npos, emulated_gpus());
}

TEST(PlanLinks, AreMeasuredWithWhatThereIsRoomFor) {
  LOCUS_NEEDS_ANY_GPUS(2);
  LOCUS_NEEDS_EMULATED_GPUS();
  const std::vector<Context> where = gpus(2);
  wait_all();
  for (const Context c : where) {
    MemoryPool& pool = memory_pool(c);
    pool.release_cached();
    pool.set_limit(pool.stats().reserved + (size_t{8} << 20));
  }
  const MeasuredLinks links(where);
  EXPECT_GT(links.copy(0, 1, 4 << 20), 0);
  EXPECT_GT(links.sum(0, 1, 2, {4 << 20}), 0);
  for (const Context c : where) {
    memory_pool(c).release_cached();
    memory_pool(c).set_limit(memory_pool(c).stats().reserved + 1024);
  }
  const std::string text = message_of<OutOfMemory>([&] { MeasuredLinks tight(where); });
  for (const Context c : where) memory_pool(c).set_limit(0);
  EXPECT_THAT(text, HasSubstr("gpu(0) has no room for; LOCUS_EMULATED_MEMORY"));
}

}  // namespace
}  // namespace locus::test
