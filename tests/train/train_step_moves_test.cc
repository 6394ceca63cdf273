#include <locus/nn/train_step.h>

#include <locus/core/base/text.h>
#include <locus/core/compile.h>
#include <locus/core/generator.h>
#include <locus/core/kernel.h>
#include <locus/nn/init.h>
#include <locus/nn/layers.h>
#include <locus/nn/loss.h>
#include <locus/nn/loss_scaler.h>
#include <locus/nn/optimizer.h>
#include <locus/nn/trainer.h>
#include <locus/ops/create.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using Values = std::vector<double>;

// A moved step keeps its trainer, loss scaler and recordings.
TEST(TrainStep, MovesWithItsRecordings) {
  for (const Context c : contexts())
    for (const bool scaled : {false, true}) {
      SCOPED_TRACE(text_of(c, scaled ? " scaled" : ""));
      const Tensor x = sample_values(c, f32, {4, 6}), y = zeros({4}, {c, i32});
      const nn::SoftmaxCrossEntropyLoss loss;
      struct Part {
        nn::Dense net{3, {}, {.in_units = 6}};
        nn::Trainer trainer;
        amp::LossScaler scaler{{.init_scale = 8}};
        explicit Part(Context where)
            : trainer((random::seed(5), net.initialize(init::Xavier(), where), net.parameters()),
                      optim::SGD({.learning_rate = .1})) {}
      };
      const auto make = [&](Part& part) {
        return scaled ? nn::TrainStep(part.net, loss, part.trainer, part.scaler)
                      : nn::TrainStep(part.net, loss, part.trainer);
      };
      const auto four = [&](nn::TrainStep& step, std::vector<Values>& seen) {
        for (int i = 0; i < 4; ++i) seen.push_back(values(step(x, y)));
      };
      Part still(c), moving(c), other(c);
      std::vector<Values> wanted, seen, unused;
      nn::TrainStep stays = make(still);
      for (int i = 0; i < 3; ++i) four(stays, wanted);

      nn::TrainStep first = make(moving), target = make(other);
      four(first, seen);
      four(target, unused);
      nn::TrainStep second(std::move(first));
      four(second, seen);
      target = std::move(second);
      four(target, seen);
      EXPECT_EQ(seen, wanted);
      EXPECT_EQ(target.compiled().recorded(), 1u);
      EXPECT_EQ(moving.trainer.num_update(), 12);
      EXPECT_EQ(other.trainer.num_update(), 4) << "the step that was assigned to is gone";
      for (nn::TrainStep* from : {&first, &second}) {
        EXPECT_THAT(message_of<Error>([&] { (*from)(x, y); }), testing::HasSubstr("moved from"));
        EXPECT_THAT(message_of<Error>([&] { from->calls(); }), testing::HasSubstr("moved from"));
        EXPECT_THAT(message_of<Error>([&] { from->describe(); }), testing::HasSubstr("moved from"));
        EXPECT_THAT(message_of<Error>([&] { from->dot(); }), testing::HasSubstr("moved from"));
      }
      EXPECT_EQ(moving.trainer.num_update(), 12);
    }
}

}  // namespace
}  // namespace locus::test
