// Optimizers over many steps against loops in f64, eager and replayed.
#include <cmath>
#include <functional>

#include <locus/core/autograd.h>
#include <locus/core/capture.h>
#include <locus/core/generator.h>
#include <locus/core/kernel.h>
#include <locus/nn/block.h>
#include <locus/nn/init.h>
#include <locus/nn/layers.h>
#include <locus/nn/optimizer.h>
#include <locus/nn/parameter.h>
#include <locus/nn/schedule.h>
#include <locus/nn/train_step.h>
#include <locus/nn/trainer.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/optim.h>
#include <locus/ops/optim_numbers.h>
#include <locus/ops/random.h>

#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Values = std::vector<double>;

// A step of one weight: w, its gradient (rescaled), its states, and the number of the step.
using Formula = std::function<void(double& w, double g, double* s, int t)>;

struct Case {
  const char* name;
  std::function<std::shared_ptr<optim::Optimizer>()> make;
  Formula formula;
};

template <class O>
std::function<std::shared_ptr<optim::Optimizer>()> maker(const O& optimizer) {
  return [optimizer] { return std::make_shared<O>(optimizer); };
}

void mix(double& mean, double decay, double v) { mean = decay * mean + (1 - decay) * v; }
double sign(double v) { return v > 0 ? 1 : v < 0 ? -1 : 0; }

// Learning rate .01, weight decay .1.
constexpr double kRate = .01, kDecay = .1;

std::vector<Case> cases() {
  std::vector<Case> all;
  all.push_back({"SGD", maker(optim::SGD({.learning_rate = kRate, .momentum = .9, .wd = kDecay})),
                 [](double& w, double g, double* s, int) {
                   s[0] = .9 * s[0] - kRate * (g + kDecay * w);
                   w += s[0];
                 }});
  all.push_back({"NAG", maker(optim::NAG({.learning_rate = kRate, .momentum = .9, .wd = kDecay})),
                 [](double& w, double g, double* s, int) {
                   g += kDecay * w;
                   s[0] = .9 * s[0] - kRate * g;
                   w += .9 * s[0] - kRate * g;
                 }});
  all.push_back({"Adam", maker(optim::Adam({.learning_rate = kRate, .wd = kDecay})),
                 [](double& w, double g, double* s, int t) {
                   g += kDecay * w;
                   mix(s[0], .9, g);
                   mix(s[1], .999, g * g);
                   w -= kRate * std::sqrt(1 - std::pow(.999, t)) / (1 - std::pow(.9, t)) * s[0] /
                        (std::sqrt(s[1]) + 1e-8);
                 }});
  all.push_back({"AdamW", maker(optim::AdamW({.learning_rate = kRate, .wd = kDecay})),
                 [](double& w, double g, double* s, int t) {
                   mix(s[0], .9, g);
                   mix(s[1], .999, g * g);
                   const double lr = std::sqrt(1 - std::pow(.999, t)) / (1 - std::pow(.9, t));
                   w -= kRate * (lr * s[0] / (std::sqrt(s[1]) + 1e-6) + kDecay * w);
                 }});
  all.push_back({"Adamax", maker(optim::Adamax({.learning_rate = kRate, .wd = kDecay})),
                 [](double& w, double g, double* s, int t) {
                   g += kDecay * w;
                   mix(s[0], .9, g);
                   s[1] = std::max(.999 * s[1], std::abs(g));
                   w -= kRate / (1 - std::pow(.9, t)) * s[0] / (s[1] + 1e-8);
                 }});
  all.push_back({"Nadam", maker(optim::Nadam({.learning_rate = kRate, .wd = kDecay})),
                 [](double& w, double g, double* s, int t) {
                   const auto momentum = [](int i) {
                     return .9 * (1 - .5 * std::pow(.96, i * .004));
                   };
                   double product = 1;
                   for (int i = 1; i <= t; ++i) product *= momentum(i);
                   g += kDecay * w;
                   mix(s[0], .9, g);
                   mix(s[1], .999, g * g);
                   const double m = (1 - momentum(t)) * g / (1 - product) +
                                    momentum(t + 1) * s[0] / (1 - product * momentum(t + 1));
                   w -= kRate * m / (std::sqrt(s[1] / (1 - std::pow(.999, t))) + 1e-8);
                 }});
  all.push_back({"RMSProp", maker(optim::RMSProp({.learning_rate = kRate, .wd = kDecay})),
                 [](double& w, double g, double* s, int) {
                   g += kDecay * w;
                   mix(s[0], .9, g * g);
                   w -= kRate * g / std::sqrt(s[0] + 1e-8);
                 }});
  all.push_back({"centered RMSProp",
                 maker(optim::RMSProp(
                     {.learning_rate = kRate, .epsilon = 1e-2, .wd = kDecay, .centered = true})),
                 [](double& w, double g, double* s, int) {
                   g += kDecay * w;
                   mix(s[0], .9, g * g);
                   mix(s[1], .9, g);
                   s[2] = .9 * s[2] - kRate * g / std::sqrt(s[0] - s[1] * s[1] + 1e-2);
                   w += s[2];
                 }});
  all.push_back({"AdaGrad", maker(optim::AdaGrad({.learning_rate = kRate, .wd = kDecay})),
                 [](double& w, double g, double* s, int) {
                   s[0] += g * g;
                   w -= kRate * (g / std::sqrt(s[0] + 1e-7) + kDecay * w);
                 }});
  all.push_back({"AdaDelta", maker(optim::AdaDelta({.learning_rate = kRate, .wd = kDecay})),
                 [](double& w, double g, double* s, int) {
                   mix(s[0], .9, g * g);
                   const double delta = std::sqrt(s[1] + 1e-5) / std::sqrt(s[0] + 1e-5) * g;
                   mix(s[1], .9, delta * delta);
                   w -= kRate * (delta + kDecay * w);
                 }});
  all.push_back({"Ftrl", maker(optim::Ftrl({.learning_rate = kRate, .wd = kDecay})),
                 [](double& w, double g, double* s, int) {
                   s[0] += g - (std::sqrt(s[1] + g * g) - std::sqrt(s[1])) * w / kRate;
                   s[1] += g * g;
                   const double rate = (1 + std::sqrt(s[1])) / kRate + kDecay;
                   w = std::abs(s[0]) <= .01 ? 0 : (sign(s[0]) * .01 - s[0]) / rate;
                 }});
  all.push_back({"Signum",
                 maker(optim::Signum({.learning_rate = kRate, .wd = kDecay, .wd_lh = .02})),
                 [](double& w, double g, double* s, int) {
                   s[0] = .9 * s[0] - .1 * (g + kDecay * w);
                   w = (1 - kRate * .02) * w + kRate * sign(s[0]);
                 }});
  all.push_back({"Lion", maker(optim::Lion({.learning_rate = kRate, .wd = kDecay})),
                 [](double& w, double g, double* s, int) {
                   double direction = s[0];
                   mix(direction, .9, g);
                   mix(s[0], .99, g);
                   w -= kRate * (sign(direction) + kDecay * w);
                 }});
  return all;
}

// The gradient at step t.
double gradient(int t, size_t i) { return std::sin(3.7 * t + double(i)) + .3; }

TEST(Optimizers, FollowTheirFormulasStepByStep) {
  for (const Case& each : cases())
    for (Context c : contexts()) {
      SCOPED_TRACE(std::string(each.name) + " " + to_string(c));
      nn::Parameter p("weight", {3}, {.dtype = f64});
      p.initialize(init::Constant(.7), c);
      nn::Trainer trainer({{"weight", p}}, each.make());
      Values w(3, .7);
      std::vector<Values> s(3, Values(3));
      for (int t = 1; t <= 40; ++t) {
        Values g;
        for (size_t i = 0; i < 3; ++i) g.push_back(gradient(t, i));
        Tensor y;
        {
          const autograd::Record record;
          y = p.data() * array(g, c);
        }
        y.backward();
        trainer.step(2);
        for (size_t i = 0; i < 3; ++i) each.formula(w[i], g[i] / 2, s[i].data(), t);
        const Values got = values(p.data());
        for (size_t i = 0; i < 3; ++i) ASSERT_NEAR(got[i], w[i], 1e-11) << "step " << t;
      }
      EXPECT_EQ(trainer.num_update(), 40);
    }
}

// 100 steps with changing learning rates, eager, compiled or captured.
enum class How { runs, compiled, captured };
std::vector<Values> train(Context c, const Case& each, DType d, How how) {
  random::seed(3);
  nn::Dense net(4, {}, {.dtype = d});
  net.initialize(init::Xavier(), c);
  const Tensor x = random::normal(0, 1, {8, 5}, c).astype(d);
  const Tensor y = random::normal(0, 1, {8, 4}, c).astype(d);
  net(x);
  nn::Trainer trainer(net.parameters(), each.make());
  const auto body = [&](const Tensor& in, const Tensor& target) {
    Tensor l;
    {
      const autograd::Record record;
      l = pow(net(in) - target, 2).mean();
    }
    l.backward();
    trainer.step(2);
    return l;
  };
  nn::TrainStep step(body, trainer);
  std::optional<Graph> graph;
  std::vector<Values> seen;
  for (int i = 0; i < 100; ++i) {
    if (i == 30) trainer.set_learning_rate(.03);
    if (i == 60) trainer.set_schedule(optim::CosineScheduler({.max_update = 120, .base_lr = .02}));
    if (how == How::captured && i == 0) {
      Capture capture(c);
      body(x, y);
      graph = capture.end();
    }
    if (how == How::captured)
      graph->replay();
    else if (how == How::compiled)
      step(x, y);
    else
      body(x, y);
    if (i % 10 == 9) seen.push_back(values(net.parameter("weight").data()));
  }
  EXPECT_EQ(trainer.num_update(), 100);
  return seen;
}

TEST(Optimizers, AreReplayedBitByBitAsTheyRun) {
  std::vector<Case> all = cases();
  all.push_back({"LAMB", maker(optim::LAMB({.learning_rate = kRate, .wd = kDecay})), {}});
  all.push_back({"LARS", maker(optim::LARS({.learning_rate = kRate, .momentum = .9})), {}});
  for (const Case& each : all)
    for (Context c : {contexts().front(), contexts().back()}) {
      SCOPED_TRACE(std::string(each.name) + " " + to_string(c));
      const auto eager = train(c, each, f32, How::runs);
      EXPECT_NE(eager.front(), eager.back());
      EXPECT_EQ(train(c, each, f32, How::compiled), eager);
      if (!is_host(c)) {
        EXPECT_EQ(train(c, each, f32, How::captured), eager);
      }
    }
}

TEST(Optimizers, WithMasterCopiesTooAreReplayedAsTheyRun) {
  const Case adam{"Adam", maker(optim::Adam({.learning_rate = .01, .multi_precision = true})), {}};
  for (Context c : contexts())
    for (DType d : {f16, bf16, f32})
      EXPECT_EQ(train(c, adam, d, How::compiled), train(c, adam, d, How::runs)) << name(d);
}

// lars_update's second momentum is MXNet's, corrected when the learning rate changes.
TEST(Optimizers, LARSMomentumIsCorrectedWhenTheRateChanges) {
  nn::Parameter p("weight", {1, 2}, {.dtype = f64});
  p.initialize(init::Constant(3));
  nn::Trainer trainer({{"weight", p}}, optim::LARS({.momentum = .9, .eta = .1}));
  double w = 3, mom = 0, last = 1;
  for (int t = 0; t < 6; ++t) {
    const double rate = t < 3 ? 1 : .25, g = 1 + t;
    Tensor y;
    {
      const autograd::Record record;
      y = p.data() * g;
    }
    y.backward();
    trainer.set_learning_rate(rate);
    trainer.step(1);
    mom = .9 * (rate / last) * mom - rate * .1 * w / g * g;
    w += mom;
    last = rate;
    EXPECT_NEAR(values(p.data())[1], w, 1e-12);
  }
}

TEST(Optimizers, HaveMXNetsDefaults) {
  EXPECT_EQ(optim::SGD().learning_rate(), 0.01);
  EXPECT_EQ(optim::Adam().learning_rate(), 0.001);
  EXPECT_EQ(optim::Adamax().learning_rate(), 0.002);
  EXPECT_EQ(optim::Ftrl().learning_rate(), 0.1);
  EXPECT_TRUE(optim::SGD().create_state(ones({2})).empty());
}

TEST(Optimizers, NameTheirStates) {
  EXPECT_THAT(optim::Adam().state_names(f32), ElementsAre("mean", "var"));
  EXPECT_THAT(optim::RMSProp({.centered = true}).state_names(f32),
              ElementsAre("n", "g_mean", "delta"));
  const optim::SGD sgd({.multi_precision = true});
  EXPECT_THAT(sgd.state_names(f16), ElementsAre("weight32"));
  EXPECT_TRUE(sgd.state_names(f32).empty());
  const Tensors state = optim::Adam({.multi_precision = true}).create_state(full({2}, 3, bf16));
  EXPECT_EQ(state[1].dtype(), f32);
  EXPECT_EQ(values(state[2]), Values(2, 3));
}

// w -= lr g / t
struct Fading : optim::Optimizer {
  Fading() : Optimizer("Fading", {.learning_rate = 1}) {
    use<SGDUpdate>(sgd_update, [](SGDUpdate& u, int64_t t) { u.lr /= static_cast<double>(t); });
  }
};
// The same with its own update().
struct OwnFading : optim::Optimizer {
  OwnFading() : Optimizer("OwnFading", {.learning_rate = 1}) {}
  void update(optim::ParameterGroup& group, double rescale) override {
    sgd_update(group.weights, group.gradients, {}, [step = next_step(group, rescale)] {
      const Step s = step();
      return SGDUpdate{.lr = s.lr / static_cast<double>(s.t), .rescale_grad = s.rescale_grad};
    });
  }
};

TEST(Optimizers, OneFromElsewhereIsReplayedToo) {
  for (Context c : contexts()) {
    const auto eager = train(c, {"", maker(Fading()), {}}, f32, How::runs);
    EXPECT_NE(eager[0], eager[1]);
    EXPECT_EQ(train(c, {"", maker(Fading()), {}}, f32, How::compiled), eager);
    EXPECT_EQ(train(c, {"", maker(OwnFading()), {}}, f32, How::runs), eager);
    EXPECT_EQ(train(c, {"", maker(OwnFading()), {}}, f32, How::compiled), eager);
  }
}

TEST(Optimizers, ACopyHasARateAndCountsOfItsOwn) {
  const Tensor w = zeros({1}), g = ones({1});
  optim::Adam adam({.learning_rate = 1});
  optim::ParameterGroup group{.weights = {w}, .gradients = {g}};
  for (const Tensor& s : adam.create_state(w)) group.state.push_back({s});
  adam.update(group, 1);
  EXPECT_NEAR(values(w)[0], -1, 1e-5);
  optim::Adam copy = adam;
  copy.set_learning_rate(3);
  EXPECT_EQ(adam.learning_rate(), 1);
  adam.update(group, 1);
  EXPECT_EQ(adam.num_update(), 2);
  EXPECT_EQ(copy.num_update(), 1);
}

}  // namespace
}  // namespace locus::test
