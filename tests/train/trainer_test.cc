#include <locus/core/autograd.h>
#include <locus/core/generator.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/containers.h>
#include <locus/nn/data.h>
#include <locus/nn/layers.h>
#include <locus/nn/train_step.h>
#include "tests/support/contexts.h"
#include "tests/train/training.h"

namespace locus {
namespace {

using test::backward;
using test::message_of;
using testing::HasSubstr;
using Values = std::vector<double>;

TEST(Trainer, SumsOverTheReplicas) {  // MXNet: test_gluon_trainer.py::test_trainer
  std::vector<std::vector<Context>> pairs{{cpu(0), cpu(1)}};
  if (num_gpus() >= 2) pairs.push_back(gpus(2));
  for (const auto& pair : pairs) {
    SCOPED_TRACE(to_string(pair[0]));
    nn::Parameter x("x", {10}, {.init = init::Zero()});
    x.initialize(init::Zero(), Contexts(pair));
    nn::Trainer trainer({{"x", x}}, optim::SGD({.learning_rate = 1, .momentum = 0.5}));
    backward(x);
    trainer.step(1);
    for (const Tensor& t : x.list_data()) EXPECT_EQ(test::values(t), Values(10, -2));
    x.set_lr_mult(0.5);
    backward(x);
    trainer.step(1);
    for (const Tensor& t : x.list_data()) EXPECT_EQ(test::values(t), Values(10, -4));
  }
}

TEST(Trainer, AllreduceAndUpdateAreTheTwoHalves) {
  nn::Parameter x("x", {3}, {.init = init::Zero()});
  x.initialize(init::Zero(), {cpu(0), cpu(1)});
  nn::Trainer trainer({{"x", x}}, optim::SGD({.learning_rate = 0.5}));
  backward(x);
  trainer.allreduce_grads();
  for (const Tensor& g : x.list_grad()) EXPECT_EQ(test::values(g), Values(3, 2));
  trainer.update(1);
  for (const Tensor& t : x.list_data()) EXPECT_EQ(test::values(t), Values(3, -1));
}

TEST(Trainer, DividesByTheBatchAndTakesANewLearningRate) {
  for (Context c : test::contexts()) {
    SCOPED_TRACE(to_string(c));
    nn::Parameter x("weight", {2});
    x.initialize(init::Zero(), c);
    nn::Trainer trainer({{"weight", x}}, optim::SGD({.learning_rate = 1}));
    backward(x);
    trainer.step(4);
    EXPECT_EQ(test::values(x.data()), (Values{-0.25, -0.25}));
    trainer.set_learning_rate(2);
    EXPECT_EQ(trainer.learning_rate(), 2);
    backward(x);
    trainer.step(4);
    EXPECT_EQ(test::values(x.data()), (Values{-0.75, -0.75}));
    EXPECT_THROW(trainer.step(0), Error);
  }
}

TEST(Trainer, AStaleGradientIsAnErrorThatChangesNothing) {
  nn::Parameter a("a", {1}, {.init = init::Zero()}), b("b", {1}, {.init = init::Zero()});
  a.initialize();
  b.initialize();
  nn::Trainer trainer({{"a", a}, {"b", b}}, optim::SGD({.learning_rate = 1}));
  backward(a);
  const std::string text = test::message_of<Error>([&] { trainer.step(1); });
  EXPECT_THAT(text, HasSubstr("Gradient of Parameter `b` on context cpu(0) has not been updated by "
                              "backward since last `step`"));
  EXPECT_THAT(text, HasSubstr("ignore_stale_grad=true"));
  EXPECT_EQ(test::values(a.data()), Values{0});
  trainer.step(1, true);
  EXPECT_EQ(test::values(a.data()), Values{-1});
  EXPECT_EQ(test::values(b.data()), Values{0});
  EXPECT_THROW(trainer.step(1), Error);  // a's gradient was used
}

TEST(Trainer, LeavesParametersWithoutGradientAlone) {
  nn::Parameter a("a", {1}, {.init = init::Zero()});
  nn::Parameter frozen("b", {1}, {.grad_req = GradReq::null, .init = init::Zero()});
  a.initialize();
  frozen.initialize();
  nn::Trainer trainer({{"a", a}, {"b", frozen}, {"again", a}}, optim::SGD({.learning_rate = 1}));
  backward(a);
  trainer.step(1);
  EXPECT_EQ(test::values(a.data()), Values{-1});  // once, though listed twice
  EXPECT_EQ(test::values(frozen.data()), Values{0});
}

TEST(Trainer, WeightDecayAndItsMultiplier) {
  nn::Parameter a("weight", {1}, {.wd_mult = 0.5, .init = init::Constant(4)});
  a.initialize();
  nn::Trainer trainer({{"weight", a}}, optim::SGD({.learning_rate = 1, .wd = 0.25}));
  backward(a);
  trainer.step(1);
  EXPECT_EQ(test::values(a.data()), Values{4 - (1 + 0.125 * 4)});
}

TEST(Trainer, MomentumMovesWithTheParameters) {
  nn::Parameter a("weight", {1});
  a.initialize(init::Zero(), cpu(0));
  nn::Trainer trainer({{"weight", a}}, optim::SGD({.learning_rate = 1, .momentum = 0.5}));
  backward(a);
  trainer.step(1);
  for (Context c : test::distinct_contexts()) a.reset_ctx(c);
  backward(a);
  trainer.step(1);
  EXPECT_EQ(test::values(a.data()), Values{-1 - 1.5});
}

TEST(Trainer, ParametersMayLiveOnDifferentContexts) {
  for (Context c : test::distinct_contexts()) {
    nn::Sequential net;
    nn::Dense first(2), second(1);
    net.add(first, nn::To(c), second);
    first.initialize(init::One(), cpu());
    second.initialize(init::One(), c);
    nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = 1}));
    Tensor y;
    {
      autograd::Record record;
      y = net(ones({1, 3}));
    }
    y.backward();
    trainer.step(1);
    EXPECT_EQ(test::values(first.parameter("weight").data()), Values(6, 0));
    EXPECT_EQ(test::values(second.parameter("weight").data()), (Values{-2, -2}));
  }
}

TEST(Trainer, TrainsInPageLockedMemoryAsOnTheCpu) {
  const auto train = [](Context c) {
    random::seed(3);
    nn::Sequential net;
    net.add(nn::Dense(4, nn::relu), nn::Dense(2));
    net.initialize(init::Xavier(), c);
    const Tensor x = sample_values(c, f32, {5, 3}), y = array({0, 1, 1, 0, 1}, c);
    nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .1, .momentum = .9}));
    for (int i = 0; i < 3; ++i) {
      test::eager_step(net, nn::SoftmaxCrossEntropyLoss(), trainer, x, y);
    }
    EXPECT_EQ(net.parameter("1.weight").data().context(), c);
    return test::values(net(x));
  };
  EXPECT_EQ(train(cpu_pinned()), train(cpu()));
}

TEST(Trainer, RefusesToTrainNoParameters) {
  const std::string text =
      message_of<ValueError>([] { nn::Trainer(nn::Parameters(), optim::SGD()); });
  EXPECT_THAT(text, testing::StartsWith("Trainer: no parameters; expected those of a network"));
}

TEST(Trainer, NotInitializedParametersAreNamed) {
  nn::Dense layer(2);
  nn::Trainer trainer(layer.parameters(), optim::SGD());
  EXPECT_THAT(test::message_of<Error>([&] { trainer.step(1); }),
              HasSubstr("'weight' has not been initialized"));
}

TEST(Trainer, DiscardsBeforeThereAreValuesAndWhereReplicasWereReplaced) {
  nn::Parameter x("x", {0}, {.init = init::Zero()}), late("bias", {1}), frozen("bias", {1});
  nn::Trainer trainer({{"x", x}, {"late", late}, {"frozen", frozen}},
                      optim::SGD({.learning_rate = 1}));
  trainer.discard();
  x.initialize(init::Zero(), {cpu(0), cpu(1)});
  trainer.discard();  // its shape is unknown
  x.infer_shape({2});
  frozen.initialize();
  frozen.set_grad_req(GradReq::null);
  backward(x);
  trainer.discard();  // one still has no values
  late.initialize();
  late.set_grad_req(GradReq::null);
  const auto expect_stale = [&] {
    EXPECT_THAT(test::message_of<Error>([&] { trainer.step(1); }),
                HasSubstr("has not been updated by backward"));
  };
  expect_stale();
  backward(x);
  trainer.step(1);
  x.reset_ctx({cpu(2), cpu(3), cpu(4)});
  backward(x);
  trainer.discard();
  expect_stale();
  backward(x);
  trainer.step(1);
  for (const Tensor& t : x.list_data()) EXPECT_EQ(test::values(t), Values(2, -2 - 3));
}

// Two contexts with half the batch each take the same steps as one context with the whole batch.
TEST(Trainer, DataParallelTrainingEqualsOneContext) {
  const auto train = [](const Contexts& contexts) {
    random::seed(11);
    nn::Sequential net;
    net.add(nn::Dense(8, nn::relu), nn::Dense(3));
    net.initialize(init::Xavier(), contexts);
    nn::SoftmaxCrossEntropyLoss loss_fn;
    nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = 0.2, .momentum = 0.9}));
    const Tensor x = sample_values(cpu(), f32, {12, 5});
    const Tensor label = array({0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2});
    double total = 0;
    for (int step = 0; step < 30; ++step) {
      const Tensors xs = split_and_load(x, contexts), labels = split_and_load(label, contexts);
      Tensors losses;
      {
        autograd::Record record;
        for (size_t i = 0; i < xs.size(); ++i) losses.push_back(loss_fn(net(xs[i]), labels[i]));
      }
      total = 0;
      for (const Tensor& l : losses) {
        l.backward();
        total += l.sum().item<double>();
      }
      trainer.step(12);
    }
    return total;
  };
  const double one = train(cpu());
  EXPECT_NEAR(train({cpu(0), cpu(1)}), one, 1e-3);
  if (num_gpus() >= 2) {
    EXPECT_NEAR(train(gpus(2)), one, 1e-3);
  }
  for (Context c : test::contexts()) EXPECT_NEAR(train(c), one, 1e-3);
}

// Adam's first steps have the size of the learning rate for any gradient.
TEST(Trainer, CountsTheUpdatesOfEachParameter) {
  for (Context c : test::contexts())
    for (const bool compiled : {false, true}) {
      nn::Parameter a("a", {1}, {.init = init::Zero()}), b("b", {1}, {.init = init::Zero()});
      a.initialize(init::Zero(), c);
      b.initialize(init::Zero(), c);
      nn::Trainer trainer({{"a", a}, {"b", b}}, optim::Adam({.learning_rate = 1}));
      const auto body = [&](const Tensor& x) {
        trainer.step(1, true);
        return x + 1;
      };
      nn::TrainStep step(body, trainer);
      const Tensor x = ones({1}, c);
      for (const std::string which : {"ab", "a", "a", "ab", "b", "ab", "a"}) {
        for (char name : which) backward(name == 'a' ? a : b);
        compiled ? step(x) : body(x);
      }
      EXPECT_NEAR(test::values(a.data())[0], -6, 1e-5);
      EXPECT_NEAR(test::values(b.data())[0], -4, 1e-5);
      EXPECT_EQ(trainer.num_update(), 6);
      const NamedTensors states = trainer.states();
      EXPECT_EQ(states[1].first, "a/count");
      EXPECT_EQ(test::values(states[1].second), Values{6});
      EXPECT_EQ(test::values(states[4].second), Values{4});
    }
}

TEST(Trainer, AScheduleIsAskedForEachUpdateFromOneOn) {
  nn::Parameter a("a", {1}, {.init = init::Zero()});
  a.initialize();
  nn::Trainer trainer({{"a", a}}, optim::SGD({.learning_rate = 7}));
  trainer.set_schedule([](int64_t n) { return static_cast<double>(n); });
  EXPECT_EQ(trainer.learning_rate(), 0);
  for (double expected : {-1, -3, -6}) {
    backward(a);
    trainer.step(1);
    EXPECT_EQ(test::values(a.data()), Values{expected});
  }
  EXPECT_EQ(trainer.learning_rate(), 3);
  EXPECT_THAT(test::message_of<Error>([&] { trainer.set_learning_rate(1); }),
              HasSubstr("set_schedule"));
  trainer.set_schedule({});
  EXPECT_EQ(trainer.learning_rate(), 3);
  trainer.set_learning_rate(.5);
  EXPECT_EQ(trainer.learning_rate(), .5);
}

TEST(Trainer, AScheduleThatMakesAStepIsAnError) {
  nn::Parameter a("a", {1}, {.init = init::Zero()});
  a.initialize();
  nn::Trainer trainer({{"a", a}}, optim::SGD());
  trainer.set_schedule([&](int64_t) {
    trainer.step(1, true);
    return 1.;
  });
  backward(a);
  EXPECT_THAT(test::message_of<Error>([&] { trainer.step(1); }),
              HasSubstr("SGD: its schedule makes an update"));
}

TEST(Trainer, AScheduleIsTakenAwayWithoutAskingIt) {
  nn::Parameter a("a", {1}, {.init = init::Zero()});
  a.initialize();
  a.set_lr_mult(2);
  nn::Trainer trainer({{"a", a}}, optim::SGD({.learning_rate = 7}));
  const auto ends = [](int64_t n) { return n == 1 ? .25 : throw ValueError("it has ended"); };
  trainer.set_schedule(ends);
  trainer.set_schedule({});
  EXPECT_EQ(trainer.learning_rate(), 7) << "no update went by it";
  trainer.set_schedule(ends);
  backward(a);
  trainer.step(1);
  backward(a);
  EXPECT_THROW(trainer.step(1), ValueError);
  trainer.set_schedule({});
  EXPECT_EQ(trainer.learning_rate(), .25);
  trainer.step(1);
  EXPECT_EQ(test::values(a.data()), Values{-1});
}

// A failed update does not lose the gradients.
TEST(Trainer, AFailedUpdateCanBeRetried) {
  struct FailsOnce : optim::SGD {
    FailsOnce() : SGD({.learning_rate = 1}) {}
    void update(optim::ParameterGroup& group, double rescale) override {
      if (++calls == 1) throw OutOfMemory("no memory");
      SGD::update(group, rescale);
    }
    int calls = 0;
  };
  nn::Dense net(1, {}, {.use_bias = false});
  net.initialize(init::One());
  const Tensor x = ones({1, 2});
  Tensor y;
  {
    const autograd::Record record;
    y = net(x);
  }
  y.backward();
  nn::Trainer trainer(net.parameters(), FailsOnce());
  EXPECT_THROW(trainer.step(1), OutOfMemory);
  trainer.step(1);
  EXPECT_EQ(net.parameter("weight").data().to_vector<float>(), std::vector<float>(2, 0));
}

TEST(Trainer, ParametersThatCannotBeUpdatedLeaveReplicasOfTheOthersEqual) {
  nn::Parameter a("a", {2}, {.init = init::One()}), b("b", {2}, {.init = init::One()});
  for (const nn::Parameter& p : {a, b}) p.initialize(init::One(), {cpu(0), cpu(1)});
  nn::Trainer trainer({{"a", a}, {"b", b}}, optim::Ftrl());
  a.set_lr_mult(0);  // Ftrl rejects this
  for (nn::Parameter* const p : {&a, &b}) backward(*p);
  EXPECT_THROW(trainer.step(1), ValueError);
  EXPECT_EQ(test::values(a.data(cpu(1))), Values(2, 1));
  EXPECT_NE(test::values(b.data(cpu(0))), Values(2, 1));
  EXPECT_EQ(test::values(b.data(cpu(0))), test::values(b.data(cpu(1))));
}

TEST(Trainer, IsMovedAndNotCopied) {
  static_assert(!std::is_copy_constructible_v<nn::Trainer>);
  static_assert(!std::is_copy_assignable_v<nn::Trainer>);
  nn::Parameter x("x", {2}, {.init = init::Zero()});
  x.initialize(init::Zero(), {cpu(0), cpu(1)});
  for (const bool overlap : {false, true}) {
    x.set_data(zeros({2}));
    nn::Trainer first({{"x", x}}, optim::SGD({.learning_rate = 1, .momentum = .5}),
                      {.overlap = overlap});
    test::backward(x);
    first.step(1);
    nn::Trainer second = std::move(first);
    test::backward(x);
    second.step(1);
    for (const Tensor& t : x.list_data()) EXPECT_EQ(test::values(t), Values(2, -5));
    EXPECT_EQ(second.num_update(), 2);
    EXPECT_THROW(first.step(1), Error) << "it was moved from";
  }
}

}  // namespace
}  // namespace locus
