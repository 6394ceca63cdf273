// What forward_backward() draws, copies and reports, and what an error leaves.
#include <locus/nn/pipeline.h>

#include <locus/core/autograd.h>
#include <locus/core/generator.h>
#include <locus/core/transfer_log.h>
#include <locus/nn/containers.h>
#include <locus/nn/layers.h>
#include <locus/nn/train_step.h>
#include "tests/ranks/groups.h"
#include "tests/train/training.h"

namespace locus::test {
namespace {

using nn::Pipeline, nn::Schedule;
using testing::HasSubstr;
using Values = std::vector<double>;

Tensor batch(int64_t n, Context c = cpu()) { return ones({n, 3}, c); }
Tensor labels(int64_t n, Context c) { return zeros({n}, {c, i32}); }
const nn::SoftmaxCrossEntropyLoss loss;

Tensor fails(const Tensor&, const Tensor&) { throw Error("no loss"); }

// Two pipelines of the same blocks are replicas.
TEST(PipelineSteps, AnErrorDropsTheGradientsOfItsOwnContextsOnly) {
  for (const auto& where : places(4))
    for (const GradReq req : {GradReq::write, GradReq::add}) {
      nn::Dense a(4, {}, {.in_units = 3}), b(2, {}, {.in_units = 4});
      Pipeline first({a, b}, {where[0], where[1]}, {2}), second({a, b}, {where[2], where[3]}, {2});
      a.initialize(init::Xavier(), {where[0], where[2]});
      b.initialize(init::Xavier(), {where[1], where[3]});
      for (const auto& [name, p] : first.parameters()) p.set_grad_req(req);
      nn::Trainer trainer(first.parameters(), optim::SGD({.learning_rate = 1}));
      const nn::Parameter w = a.parameter("weight");
      const Values before = values(w.data(where[0]));
      first.forward_backward(batch(4), labels(4, cpu()), loss);
      second.forward_backward(batch(4), labels(4, cpu()), loss);
      const Values others = values(w.grad(where[2]));
      EXPECT_THAT(
          message_of<Error>([&] { first.forward_backward(batch(4), labels(4, cpu()), fails); }),
          HasSubstr("no loss"));
      EXPECT_FALSE(autograd::fresh_grad(w.data(where[0])));
      EXPECT_TRUE(autograd::fresh_grad(w.data(where[2])));
      EXPECT_EQ(values(w.grad(where[2])), others);
      if (req == GradReq::add) {
        EXPECT_EQ(values(w.grad(where[0])), Values(12, 0));
      }
      EXPECT_THAT(message_of<Error>([&] { trainer.step(8); }),
                  HasSubstr(text_of("on context ", where[0], " has not been updated")));
      EXPECT_EQ(values(w.data(where[0])), before);
      first.forward_backward(batch(4), labels(4, cpu()), loss);
      EXPECT_EQ(values(w.grad(where[0])), others);
      trainer.step(8);
      EXPECT_NE(values(w.data(where[0])), before);
      EXPECT_EQ(values(w.data(where[0])), values(w.data(where[2])));
    }
}

TEST(PipelineSteps, APassIsGivenWhatItWaitsFor) {
  nn::Dense a(4, {}, {.in_units = 3}), b(2, {}, {.in_units = 4});
  Pipeline pipe({a, b}, hosts(2), {2});
  pipe.initialize(init::Xavier());
  bool trains = true;
  pipe.watch([&](const Pipeline::Pass& pass, bool enqueued, const Tensor& given) {
    EXPECT_EQ(given.defined(), !enqueued);
    if (enqueued) return;
    const Shape expected = pass.stage == 0 ? pass.backward ? Shape{2, 4} : Shape{2, 3}
                           : pass.backward ? Shape{2}
                                           : Shape{2, 4};
    EXPECT_EQ(given.shape(), expected) << pass.stage << pass.backward << trains;
  });
  pipe.forward_backward(batch(4), labels(4, cpu(1)), loss);
  trains = false;
  pipe.freeze();  // a backward pass of stage 0 has no gradient: it is given the output
  pipe.forward_backward(batch(4), labels(4, cpu(1)), loss);
}

TEST(PipelineSteps, ReplaysAreNotWatched) {
  nn::Dense a(4, {}, {.in_units = 3}), b(2, {}, {.in_units = 4});
  Pipeline pipe({a, b}, hosts(2), {2});
  pipe.initialize(init::Xavier());
  nn::Trainer trainer(pipe.parameters(), optim::SGD({.learning_rate = 1}));
  int calls = 0;
  pipe.watch([&](const Pipeline::Pass&, bool, const Tensor&) { ++calls; });
  nn::TrainStep step(
      [&](const Tensor& x, const Tensor& y) {
        const Tensor l = pipe.forward_backward(x, y, loss);
        trainer.step(4);
        return l;
      },
      trainer);
  const Tensor x = batch(4), y = labels(4, cpu(1));
  step(x, y);
  EXPECT_EQ(calls, 2 * 8) << "the first call runs the passes";
  for (int i = 0; i < 3; ++i) step(x, y);
  EXPECT_EQ(calls, 2 * 8);
  EXPECT_EQ(step.compiled().recorded(), 1u);
  EXPECT_EQ(trainer.num_update(), 4);
}

// All samples are equal, so only the dropped units differ.
TEST(PipelineSteps, DropoutDrawsForEachMicrobatchTheSameInEachRun) {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f1b}) {
    const auto losses = [&](uint64_t seed) {
      random::seed(5);
      nn::Dense a(64, {}, {.in_units = 3}), c(2, {}, {.in_units = 64});
      nn::Sequential last;
      last.add(nn::Dropout(.5), c);
      Pipeline pipe({a, last}, hosts(2), {2, schedule});
      pipe.initialize(init::Xavier());
      random::seed(seed);
      return values(pipe.forward_backward(batch(2), labels(2, cpu(1)), loss));
    };
    const Values once = losses(1);
    EXPECT_NE(once[0], once[1]) << "one sample in each microbatch";
    EXPECT_EQ(losses(1), once);
    EXPECT_NE(losses(2), once);
  }
}

TEST(PipelineSteps, DataIsCopiedInPartsAndTheLabelAsAWhole) {
  for (const auto& where : places(4)) {
    nn::Dense a(4, {}, {.in_units = 3}), b(2, {}, {.in_units = 4});
    Pipeline pipe({a, b}, {where[0], where[1]}, {4});
    pipe.initialize(init::Xavier());
    const Tensor x = batch(8, where[2]), y = labels(8, where[3]);
    uint64_t parts = 0, wholes = 0;
    const TransferLog log;
    pipe.forward_backward(x, y, loss);
    for (const TransferEntry& e : log.entries()) {
      if (e.kind != TransferKind::copy) continue;
      if (e.from == where[2] && e.to == where[0]) parts += e.count;
      if (e.from == where[3] && e.to == where[1]) wholes += e.count;
    }
    EXPECT_EQ(parts, 4u);
    EXPECT_EQ(wholes, 1u);
  }
}

}  // namespace
}  // namespace locus::test
