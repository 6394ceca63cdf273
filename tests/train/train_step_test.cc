// A compiled training step equals the eager step bit by bit.
#include <locus/core/autograd.h>
#include <locus/nn/train_step.h>
#include <locus/ops/random.h>

#include <locus/core/base/at_line.h>

#include <locus/core/generator.h>
#include <locus/nn/containers.h>
#include <locus/nn/layers.h>
#include <locus/ops/elementwise.h>
#include "tests/support/folder.h"
#include "tests/train/training.h"

namespace locus::test {
namespace {

using Values = std::vector<double>;

struct Setting {
  const char* name = "";
  double momentum = 0, dropout = 0, clip = -1;
  bool schedule = false, sizes = false;
};

nn::Sequential make_net(double dropout) {
  nn::Sequential net;
  net.add(nn::Dense(32, nn::relu));
  if (dropout > 0) net.add(nn::Dropout(dropout));
  net.add(nn::Dense(5));
  return net;
}

// 100 steps, eager or compiled.
Outcome train(Context c, const Setting& s, bool compiled) {
  random::seed(7);
  nn::Sequential net = make_net(s.dropout);
  net.initialize(init::Xavier(), c);
  const nn::SoftmaxCrossEntropyLoss loss;
  optim::SGDOptions options{.learning_rate = .1, .momentum = s.momentum};
  if (s.clip > 0) options.clip_gradient = s.clip;
  nn::Trainer trainer(net.parameters(), optim::SGD(options));
  nn::TrainStep step(net, loss, trainer);
  const optim::LRScheduler rate = optim::CosineScheduler({.max_update = 100, .base_lr = .1});
  const Tensor images = random::uniform(-1, 1, {64, 12}, {c, f32});
  const Tensor labels = random::randint(0, 5, {64}, {c, i32});
  Outcome o;
  for (int i = 0; i < 100; ++i) {
    const int64_t n = s.sizes && i % 5 == 4 ? 9 : 16, first = i % 3 * 16;
    const Tensor x = images(Slice(first, first + n)), y = labels(Slice(first, first + n));
    if (s.schedule) trainer.set_learning_rate(rate(i));
    o.losses.push_back(values(compiled ? step(x, y) : eager_step(net, loss, trainer, x, y)));
  }
  for (const auto& [name, p] : net.parameters()) o.parameters.push_back(values(p.data()));
  if (compiled) {
    EXPECT_EQ(step.compiled().recorded(), s.sizes ? 2u : 1u);
  }
  return o;
}

TEST(TrainStep, EqualsTheStepAsItRuns) {
  for (const Context c : contexts())
    for (const Setting& s :
         {Setting{.name = "sgd"}, Setting{.name = "momentum", .momentum = .9},
          Setting{.name = "schedule", .momentum = .9, .schedule = true},
          Setting{.name = "dropout", .dropout = .3}, Setting{.name = "clip", .clip = .01},
          Setting{.name = "sizes", .momentum = .9, .sizes = true}}) {
      SCOPED_TRACE(to_string(c) + " " + s.name);
      const Outcome eager = train(c, s, false), replayed = train(c, s, true);
      EXPECT_EQ(eager.losses, replayed.losses);
      EXPECT_EQ(eager.parameters, replayed.parameters);
      EXPECT_NE(eager.losses[99][0], eager.losses[0][0]) << "nothing was trained";
    }
}

// Sums and clips the gradients of two batches before the update; the function computes its own
// loss.
Outcome accumulate(Context c, bool compiled) {
  random::seed(9);
  nn::Sequential net = make_net(0);
  net.initialize(init::Xavier(), c);
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .2, .momentum = .5}));
  const Tensor a = random::normal(0, 1, {8, 6}, c), b = random::normal(0, 1, {8, 6}, c);
  net(a);
  for (const auto& [name, p] : net.parameters()) p.set_grad_req(GradReq::add);
  const auto body = [&](const Tensor& x, const Tensor& y) {
    net.zero_grad();
    Tensor total;
    for (const Tensor& batch : {x, y}) {
      Tensor l;
      {
        const autograd::Record record;
        l = pow(net(batch) - 1, 2).mean();
      }
      l.backward();
      total = total.defined() ? total + l : l;
    }
    for (const auto& [name, p] : net.parameters()) clip(p.grad(), -.01, .01).copyto(p.grad());
    trainer.step(2);
    return total;
  };
  nn::TrainStep step(body, trainer);
  Outcome o;
  for (int i = 0; i < 30; ++i) o.losses.push_back(values(compiled ? step(a, b) : body(a, b)));
  for (const auto& [name, p] : net.parameters()) {
    o.parameters.push_back(values(p.data()));
    o.parameters.push_back(values(p.grad()));
  }
  if (compiled) {
    EXPECT_EQ(step.compiled().recorded(), 1u);
  }
  return o;
}

TEST(TrainStep, AFunctionOfItsOwnAccumulatesAndClips) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    EXPECT_EQ(accumulate(c, false), accumulate(c, true));
  }
}

// A chain of two contexts.
Outcome chain(Context a, Context b, bool compiled) {
  random::seed(11);
  nn::Dense first(16, nn::relu), second(4);
  first.initialize(init::Xavier(), a);
  second.initialize(init::Xavier(), b);
  nn::Sequential net;
  net.add(first, nn::To(b), second);
  const nn::SoftmaxCrossEntropyLoss loss;
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .1, .momentum = .9}));
  nn::TrainStep step(net, loss, trainer);
  const Tensor x = random::normal(0, 1, {32, 8}, a), y = random::randint(0, 4, {32}, {b, i32});
  Outcome o;
  for (int i = 0; i < 100; ++i) {
    o.losses.push_back(values(compiled ? step(x, y) : eager_step(net, loss, trainer, x, y)));
  }
  for (const auto& [name, p] : net.parameters()) o.parameters.push_back(values(p.data()));
  return o;
}

TEST(TrainStep, IsOfAFunction) {
  nn::Sequential net = make_net(0);
  nn::Trainer trainer(net.parameters(), optim::SGD());
  EXPECT_THROW(nn::TrainStep(std::function<Tensor(const Tensor&)>(), trainer), ValueError);
}

TEST(TrainStep, AChainOfTwoContextsEqualsItself) {
  EXPECT_EQ(chain(cpu(0), cpu(1), false), chain(cpu(0), cpu(1), true));
  LOCUS_NEEDS_ANY_GPUS(2);
  EXPECT_EQ(chain(gpu(0), gpu(1), false), chain(gpu(0), gpu(1), true));
}

TEST(TrainStep, SeesParametersThatWereReplacedMultipliersAndLoadedValues) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const Folder folder;
    const std::string file = folder / "train_step.params";
    const auto run = [&](bool compiled) {
      random::seed(13);
      nn::Sequential net = make_net(0);
      net.initialize(init::Xavier(), c);
      const nn::SoftmaxCrossEntropyLoss loss;
      nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .1, .momentum = .9}));
      nn::TrainStep step(net, loss, trainer);
      const Tensor x = random::normal(0, 1, {8, 6}, c), y = random::randint(0, 5, {8}, {c, i32});
      Outcome o;
      const auto some = [&] {
        for (int i = 0; i < 4; ++i) {
          o.losses.push_back(values(compiled ? step(x, y) : eager_step(net, loss, trainer, x, y)));
        }
      };
      some();
      net.save_parameters(file);
      some();
      net.load_parameters(file);
      some();
      net.parameter("0.weight").set_lr_mult(.1);
      some();
      net.parameter("0.bias").set_grad_req(GradReq::null);
      some();
      net.reset_ctx(c);
      some();
      net.initialize(init::Zero(), c, {.force_reinit = true});
      some();
      trainer.set_learning_rate(.7);
      some();
      return o;
    };
    EXPECT_EQ(run(false), run(true));
  }
}

// The log of steps with the listed backward() calls before each.
std::vector<std::string> steps(Context c, bool ignore_stale, bool compiled) {
  nn::Dense a(2, {}, {.in_units = 2}), b(2, {}, {.in_units = 2});
  a.initialize(init::One(), c);
  b.initialize(init::One(), c);
  nn::Sequential both;
  both.add(a, b);
  nn::Trainer trainer(both.parameters(), optim::SGD({.learning_rate = .1}));
  const Tensor x = ones({1, 2}, c);
  const auto body = [&](const Tensor& in) {
    trainer.step(1, ignore_stale);
    return in + 1;
  };
  nn::TrainStep step(body, trainer);
  std::vector<std::string> log;
  const std::vector<std::string> before{"ab", "",   "ab", "ab", "a",  "b",
                                        "",   "ab", "",   "a",  "ab", "b"};
  for (const std::string& which : before) {
    for (const char name : which) {
      Tensor l;
      {
        const autograd::Record record;
        l = (name == 'a' ? a : b)(x);
      }
      l.backward();
    }
    try {
      compiled ? step(x) : body(x);
      log.emplace_back("done");
    } catch (const Error& e) {
      log.push_back(without_line(e.what()));
    }
    log.push_back(testing::PrintToString(values(a.parameter("weight").data())));
    log.push_back(testing::PrintToString(values(b.parameter("weight").data())));
  }
  EXPECT_LE(step.compiled().recorded(), 6u);  // 4 patterns, 2 again: counts differ
  return log;
}

TEST(TrainStep, AStaleGradientIsRefusedOrSkippedAsTheStepDoesIt) {
  for (const Context c : contexts())
    for (const bool ignore : {false, true}) {
      SCOPED_TRACE(to_string(c));
      EXPECT_EQ(steps(c, ignore, true), steps(c, ignore, false));
    }
}

TEST(TrainStep, DrawingAParametersValuesIsNoPartOfIt) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const auto run = [&](bool compiled) {
      random::seed(5);
      nn::Sequential net = make_net(.5);
      net.initialize(init::Normal(), c);
      const nn::SoftmaxCrossEntropyLoss loss;
      nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .1}));
      nn::TrainStep step(net, loss, trainer);
      const Tensor x = ones({4, 6}, c), y = zeros({4}, {c, i32});
      std::vector<Values> seen;
      for (int i = 0; i < 6; ++i)
        seen.push_back(values(compiled ? step(x, y) : eager_step(net, loss, trainer, x, y)));
      return seen;
    };
    EXPECT_EQ(run(true), run(false));
  }
}

TEST(TrainStep, AnInitializerMayNotCallTheStepThatNeedsIt) {
  nn::TrainStep* itself = nullptr;
  const Tensor x = ones({1, 2});
  const init::Initializer asks("asks", [&](const Shape& shape, DType dtype) {
    if (itself) (*itself)(x);
    return full(shape, 1, {cpu(), dtype});
  });
  nn::Dense net(2);
  net.initialize(asks);
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .1}));
  nn::TrainStep step([&](const Tensor& in) { return net(in); }, trainer);
  itself = &step;
  EXPECT_THAT(message_of<Error>([&] { step(x); }), testing::HasSubstr("initializer"));
  itself = nullptr;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(values(step(x)), Values(2, 2));
}

// The sum over two replicas is made once per backward(), by the program or by compiled code.
TEST(TrainStep, GradientsAreSummedOnceWhoeverSumsThem) {
  if (num_gpus() == 1) GTEST_SKIP() << "needs no GPU, or two: pageable memory is not recorded";
  const Contexts places = num_gpus() > 1 ? gpus(2) : Contexts{cpu(0), cpu(1)};
  nn::Parameter p("x", {2}, {.init = init::Zero()});
  p.initialize(init::Zero(), places);
  nn::Trainer trainer({{"x", p}}, optim::SGD({.learning_rate = 1}));
  const Tensor one = ones({1}, places.list()[0]);
  const auto sum = [&](const Tensor& x) {
    trainer.allreduce_grads();
    return x + 1;
  };
  const auto update = [&](const Tensor& x) {
    trainer.step(1);
    return x + 1;
  };
  nn::TrainStep summing(sum, trainer), updating(update, trainer);
  double expected = 0;
  for (int i = 0; i < 3; ++i)
    for (const bool sums : {false, true})
      for (const bool sum_compiled : {false, true})
        for (const bool compiled : {false, true}) {
          backward(p);
          if (sums) sum_compiled ? summing(one) : sum(one);
          compiled ? updating(one) : update(one);
          expected -= 2;
          for (const Tensor& w : p.list_data())
            ASSERT_EQ(values(w), Values(2, expected)) << i << sums << sum_compiled << compiled;
        }
  EXPECT_EQ(summing.compiled().recorded(), 1u);
  EXPECT_EQ(updating.compiled().recorded(), 2u) << "of gradients that are summed, or not";
}

// The program halves the sums.
TEST(TrainStep, SummedGradientsMayBeChanged) {
  nn::Parameter p("x", {2}, {.init = init::Zero()});
  p.initialize(init::Zero(), {cpu(0), cpu(1)});
  nn::Trainer trainer({{"x", p}}, optim::SGD({.learning_rate = 1}));
  backward(p);
  trainer.allreduce_grads();
  for (Tensor g : p.list_grad()) g *= .5;
  trainer.step(1);
  for (const Tensor& w : p.list_data()) EXPECT_EQ(values(w), Values(2, -1));
}

TEST(TrainStep, EagerStepsInBetweenAreSeen) {
  for (const Context c : contexts()) {
    SCOPED_TRACE(to_string(c));
    const auto run = [&](bool compiled) {
      random::seed(17);
      nn::Sequential net = make_net(0);
      net.initialize(init::Xavier(), c);
      nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .1, .momentum = .9}));
      const Tensor x = random::normal(0, 1, {8, 6}, c);
      const auto body = [&](const Tensor& in) {
        Tensor l;
        {
          const autograd::Record record;
          l = pow(net(in), 2).mean();
        }
        l.backward();
        trainer.step(1);
        return l;
      };
      nn::TrainStep step(body, trainer);
      std::vector<Values> seen;
      for (int i = 0; i < 12; ++i) {
        seen.push_back(values(compiled && i % 3 != 1 ? step(x) : body(x)));
        seen.push_back(values(net.parameter("0.weight").grad()));
        if (i % 4 == 0) net.parameter("1.bias").data() += .5;
      }
      return seen;
    };
    EXPECT_EQ(run(false), run(true));
  }
}

TEST(TrainStep, AnOptimizerThatWasAssignedIsSeen) {
  const auto train = [](bool compiled) {
    nn::Parameter w("weight", {3});
    w.initialize(init::One(), cpu());
    const auto optimizer = std::make_shared<optim::SGD>(optim::SGDOptions{.learning_rate = .1});
    nn::Trainer trainer({{"w", w}}, optimizer);
    const auto body = [&](const Tensor& x) {
      Tensor y;
      {
        const autograd::Record record;
        y = (w.data() * x).sum();
      }
      y.backward();
      trainer.step(1);
      return y;
    };
    nn::TrainStep step(body, trainer);
    const Tensor x = full({3}, .5);
    for (int i = 0; i < 6; ++i) {
      if (i == 3) *optimizer = optim::SGD({.learning_rate = .2, .wd = .2, .clip_gradient = .01});
      compiled ? step(x) : body(x);
    }
    return values(w.data());
  };
  EXPECT_EQ(train(true), train(false));
}

}  // namespace
}  // namespace locus::test
