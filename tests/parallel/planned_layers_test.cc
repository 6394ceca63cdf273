// Planned networks: which parameters they share with their Sequential, and how layers are cut.
#include <locus/nn/planned.h>

#include <locus/core/autograd.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/layers.h>
#include <locus/nn/loss.h>
#include <locus/nn/norm_layers.h>
#include <locus/nn/trainer.h>
#include <locus/ops/create.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using nn::CutAs, nn::Plan, nn::Planned;
using testing::ElementsAre;
using testing::HasSubstr;
using Values = std::vector<double>;

// Layer 0 is whole, layer 1 is cut.
nn::Sequential two_layers() {
  nn::Sequential net;
  net.add(nn::Dense(4, {}, {.in_units = 3}), nn::Dense(2, {}, {.in_units = 4}));
  return net;
}
const char* const kCutBehind = "plan-1\nlayers 0 on cpu(0)\nlayers 1 cut over cpu(0), cpu(1)";

TEST(PlannedLayers, TrainingChangesTheLayersOfTheNetworkExceptCutOnes) {
  const nn::Sequential net = two_layers();
  for (const auto& [name, p] : net.parameters()) p.initialize(init::One(), cpu(0));
  Planned planned(net, Plan::parse(kCutBehind));
  EXPECT_TRUE(planned.parameter("0.weight").is(net.parameter("0.weight")));
  EXPECT_FALSE(planned.parameter("1.weight.0").initialized());
  planned.initialize(init::Normal());
  EXPECT_EQ(values(net.parameter("0.weight").data()), Values(12, 1)) << "drawn again";
  nn::Trainer trainer(planned.parameters(), optim::SGD({.learning_rate = .1}));
  const Tensor x = ones({4, 3}), y = zeros({4}, {cpu(), i32});
  planned.forward_backward(x, y, nn::SoftmaxCrossEntropyLoss());
  trainer.step(4);
  EXPECT_NE(values(net.parameter("0.weight").data()), Values(12, 1));
  EXPECT_EQ(values(net.parameter("1.weight").data()), Values(8, 1));
}

TEST(PlannedLayers, InitializedOnesStayElsewhereUnlessForced) {
  nn::Sequential net = two_layers();
  net.initialize(init::One(), cpu(0));
  Planned planned(net, Plan::parse("plan-1\nlayers 0-1 on cpu(1)"));
  const Tensor x = ones({4, 3}), y = zeros({4}, {cpu(), i32});
  const nn::SoftmaxCrossEntropyLoss loss;
  planned.initialize(init::Zero());
  EXPECT_THAT(message_of<ContextMismatch>([&] { planned.forward_backward(x, y, loss); }),
              HasSubstr("computes on cpu(1)"));
  planned.initialize(init::Zero(), {.force_reinit = true});
  EXPECT_EQ(planned.forward_backward(x, y, loss).context(), cpu(1));
  EXPECT_EQ(values(net.parameter("0.weight").data()), Values(12, 0));
}

TEST(PlannedLayers, LossesAreDetachedOnTheFirstContextOfTheLastStage) {
  for (const char* const plan : {"plan-1\nlayers 0 on cpu(0), cpu(1)\nlayers 1 on cpu(3), cpu(2)",
                                 "plan-1\nlayers 0 on cpu(2)\nlayers 1 cut over cpu(3), cpu(0)"}) {
    SCOPED_TRACE(plan);
    Planned net(two_layers(), Plan::parse(plan));
    net.initialize(init::One());
    const Tensor x = ones({5, 3}, cpu(1)), y = zeros({5}, {cpu(2), i32});
    const Tensor l = net.forward_backward(x, y, nn::SoftmaxCrossEntropyLoss());
    EXPECT_EQ(l.context(), cpu(3));
    EXPECT_EQ(l.shape(), Shape{5});
    EXPECT_THAT(message_of<Error>([&] { l.backward(); }), testing::Not(HasSubstr("was freed")));
    EXPECT_EQ(net.pipelines().size(), net.plan().cut() ? 0u : 2u);
    EXPECT_TRUE(net.spans_contexts());
  }
}

TEST(PlannedLayers, AreCutInPairsAndOthersByWhetherTheyFlatten) {
  const auto ways = [](const nn::Sequential& net) { return cut_as(net, 0, net.size() - 1); };
  const nn::DenseOptions flat{}, deep{.flatten = false};
  nn::Sequential pairs, between, unequal;
  pairs.add(nn::Dense(8, {}, flat), nn::Activate(nn::relu), nn::Dense(8, {}, flat), nn::Flatten(),
            nn::Dense(8, {}, flat));
  EXPECT_THAT(ways(pairs), ElementsAre(CutAs::column, CutAs::each, CutAs::row, CutAs::each,
                                       CutAs::row_of_whole));
  between.add(nn::Dense(8, {}, flat), nn::Flatten(), nn::Dense(8, {}, flat));
  EXPECT_THAT(ways(between), ElementsAre(CutAs::gathered, CutAs::each, CutAs::row_of_whole));
  unequal.add(nn::Dense(8, {}, deep), nn::Dense(8, {}, flat));
  EXPECT_THAT(ways(unequal), ElementsAre(CutAs::row_of_whole, CutAs::gathered));
  nn::Sequential none;
  none.add(nn::Activate(nn::relu));
  EXPECT_THAT(message_of<ValueError>([&] { ways(none); }), HasSubstr("has no Dense layer"));
}

TEST(PlannedLayers, ARowNeedsAnInputPerContextButFewUnits) {
  const auto made = [](const nn::DenseOptions& o) {
    nn::Sequential net;
    net.add(nn::Dense(1, {}, o));
    return Planned(net, Plan::parse("plan-1\nlayers 0 cut over cpu(0), cpu(1)"));
  };
  EXPECT_THROW(made({.flatten = false, .in_units = 1}), ShapeError);
  Planned later = made({.flatten = false});
  later.initialize(init::One());
  EXPECT_THROW(later(ones({4, 1})), ShapeError);
  EXPECT_EQ(values(later(ones({4, 2}))), Values(4, 2));
}

}  // namespace
}  // namespace locus::test
