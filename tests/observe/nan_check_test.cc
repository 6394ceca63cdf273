// LOCUS_CHECK=nan, in separate processes.
#include <locus/core/observe/nan_check.h>

#include <cmath>
#include <cstdlib>
#include <iostream>

#include <locus/core/amp.h>
#include <locus/core/autograd.h>
#include <locus/core/generator.h>
#include <locus/core/kernel.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/block.h>
#include <locus/nn/clip.h>
#include <locus/nn/containers.h>
#include <locus/nn/conv_layers.h>
#include <locus/nn/layers.h>
#include <locus/nn/loss.h>
#include <locus/nn/loss_scaler.h>
#include <locus/nn/metric.h>
#include <locus/nn/norm_layers.h>
#include <locus/nn/optimizer.h>
#include <locus/nn/pool_layers.h>
#include <locus/nn/trainer.h>
#include <locus/ops/allclose.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/random.h>
#include <locus/ops/softmax.h>
#include <locus/ops/unary.h>
#include "tests/support/contexts.h"

namespace locus {
namespace {

// Prints the error to stderr, because another process reads it.
void say(const auto& f) {
  setenv("LOCUS_CHECK", "nan", 1);
  try {
    f();
    std::cerr << "nothing";
  } catch (const Error& e) {
    std::cerr << e.what();
  }
  std::exit(0);
}

class NanCheckDeathTest : public testing::Test {
 protected:
  void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(NanCheckDeathTest, NamesTheOpThatMadeItAndWhere) {
  EXPECT_EXIT(say([] {
                const Tensor x = array({{1.f, 4.f}, {-1.f, 9.f}});
                sqrt(x) + 1;
              }),
              testing::ExitedWithCode(0),
              "sqrt: 1 of 4 elements of the result .* are NaN, the first at .1,0.; no operand has");
}

TEST_F(NanCheckDeathTest, SaysWhichOperandHadItBefore) {
  EXPECT_EXIT(say([] {
                const Tensor x = array({1.f, NAN});
                ones({2}) + x;
              }),
              testing::ExitedWithCode(0), "add: 1 of 2 .*; rhs had some already");
}

TEST_F(NanCheckDeathTest, NamesTheLayerAlsoOfWhatIsCompiled) {
  EXPECT_EXIT(say([] {
                nn::Sequential net;
                net.add(nn::Dense(2),
                        nn::Lambda([](const Tensor& x) { return log(x - 1e6); }, "log"));
                net.initialize();
                net.hybridize();
                net(ones({1, 3}));
              }),
              testing::ExitedWithCode(0), "log: .* are NaN.*in Lambda.log.");
}

TEST_F(NanCheckDeathTest, LeavesSoundProgramsAlone) {
  EXPECT_EXIT(say([] {
                nn::Sequential net;
                net.add(nn::Dense(2, nn::relu));
                net.initialize();
                Tensor y;
                {
                  const autograd::Record record;
                  y = net(ones({1, 3}));
                }
                y.backward();
              }),
              testing::ExitedWithCode(0), "^nothing");
}

TEST_F(NanCheckDeathTest, LetsAllcloseCompareInfinitiesAndNan) {
  EXPECT_EXIT(say([] {
                const Tensor x = array({INFINITY, 1.f}), y = array({NAN, 1.f});
                if (!allclose(x, x)) throw Error("infinities are not close");
                if (allclose(y, y)) throw Error("NaN is close");
                if (!allclose(y, y, {.equal_nan = true})) throw Error("NaN is not close");
              }),
              testing::ExitedWithCode(0), "^nothing");
}

// A network with all ops that may divide by zero or take log(0), and its metrics.
void train_classifier() {
  random::seed(1);
  nn::Sequential net;
  net.add(nn::Conv2D(4, 3, {.use_bias = false}), nn::BatchNorm(), nn::Activate(nn::relu),
          nn::MaxPool2D(2), nn::Dropout(0.5), nn::Flatten(), nn::Dense(3));
  net.initialize();
  const Tensor x = random::uniform(0, 1, {8, 1, 8, 8}), y = array({0, 1, 2, 0, 1, 2, 0, 1});
  net(x);
  nn::Trainer trainer(net.parameters(), optim::Adam());
  const nn::SoftmaxCrossEntropyLoss loss_fn;
  const auto metrics = metric::create({"acc", "ce", "perplexity", "pcc"});
  amp::LossScaler scaler({.init_scale = 16777216});  // too large at first
  for (int i = 0; i < 24; ++i) {
    Tensor scores, loss;
    {
      const autograd::Record record;
      const amp::Scope mixed(f16);
      scores = net(x);
      loss = scaler.scale(loss_fn(scores, y));
    }
    loss.backward();
    clip_global_norm(nn::gradients(net), scaler.loss_scale());
    scaler.step(trainer, 8);
    scaler.update();
    metrics->update(y, softmax(scores));
    metrics->get_name_value();
  }
  if (scaler.skipped() == 0 || trainer.num_update() == 0)
    throw Error(scaler.skipped(), " steps were skipped of 24");
}

TEST_F(NanCheckDeathTest, LeavesHealthyTrainingAlone) {
  EXPECT_EXIT(say(train_classifier), testing::ExitedWithCode(0), "^nothing");
}

// Overflow of a scaled loss is no error. NaN that no scale would prevent is one.
TEST_F(NanCheckDeathTest, TellsOverflowsOfAScaledLossFromWhatIsWrong) {
  const auto run = [](double scale, auto f) {
    const Tensor x = full({2}, 30000, f16);
    x.attach_grad();
    amp::LossScaler scaler({.init_scale = scale});
    Tensor l;
    {
      const autograd::Record record;
      l = scaler.scale((x * 1).sum());
    }
    l.backward();
    f(x.grad() * 60000 * 60000);  // infinite
  };
  const auto differ = [](const Tensor& y) { y - y; };
  EXPECT_EXIT(say([&] { run(2, differ); }), testing::ExitedWithCode(0), "^nothing");
  EXPECT_EXIT(say([&] { run(2, [](const Tensor& y) { sqrt(zeros_like(y) - 1); }); }),
              testing::ExitedWithCode(0), "sqrt: 2 of 2");
  EXPECT_EXIT(say([&] { run(1, differ); }), testing::ExitedWithCode(0), "subtract: 2 of 2");
  EXPECT_EXIT(say([&] {
                run(2, differ);
                const Tensor y = full({2}, INFINITY);
                y - y;
              }),
              testing::ExitedWithCode(0), "subtract: 2 of 2");
}

// Paths outside the label have probability 0.
TEST_F(NanCheckDeathTest, LeavesCTCLossAlone) {
  EXPECT_EXIT(say([] {
                const Tensor pred = sample_values(cpu(), f32, {3, 6, 4}, -2, 2);
                pred.attach_grad();
                Tensor loss;
                {
                  const autograd::Record record;
                  loss = nn::CTCLoss()(pred, array({{0, 1, -1}, {-1, -1, -1}, {2, 2, 2}}));
                }
                loss.backward();
              }),
              testing::ExitedWithCode(0), "^nothing");
}

}  // namespace
}  // namespace locus
