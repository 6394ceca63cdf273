// Options, names and rates of optimizers.
#include <cmath>

#include <locus/core/autograd.h>
#include <locus/core/kernel.h>
#include <locus/nn/init.h>
#include <locus/nn/optimizer.h>
#include <locus/nn/parameter.h>
#include <locus/nn/train_step.h>
#include <locus/nn/trainer.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>

#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Values = std::vector<double>;

TEST(Optimizers, RefuseOptionsOutOfRangeByName) {
  const auto named = [](const char* option, auto make) {
    EXPECT_THAT(message_of<ValueError>(make), HasSubstr(option));
  };
  named("SGD: clip_gradient -1", [] { optim::SGD({.clip_gradient = -1.0}); });
  named("SGD: learning_rate", [] { optim::SGD({.learning_rate = NAN}); });
  named("NAG: momentum", [] { optim::NAG({.momentum = -.1}); });
  named("Adam: beta1 1", [] { optim::Adam({.beta1 = 1}); });
  named("AdamW: beta2", [] { optim::AdamW({.beta2 = -1}); });
  named("Adamax: wd", [] { optim::Adamax({.wd = -1}); });
  named("Nadam: schedule_decay", [] { optim::Nadam({.schedule_decay = -1}); });
  named("RMSProp: gamma2", [] { optim::RMSProp({.gamma2 = 2}); });
  named("RMSProp: clip_weights", [] { optim::RMSProp({.clip_weights = -2}); });
  named("AdaGrad: epsilon", [] { optim::AdaGrad({.epsilon = INFINITY}); });
  named("AdaDelta: rho", [] { optim::AdaDelta({.rho = 1}); });
  named("Ftrl: learning_rate 0", [] { optim::Ftrl({.learning_rate = 0}); });
  named("Signum: wd_lh", [] { optim::Signum({.momentum = 0, .wd_lh = .1}); });
  named("LAMB: lower_bound", [] { optim::LAMB({.lower_bound = -1}); });
  named("LAMB: upper_bound", [] { optim::LAMB({.lower_bound = 2, .upper_bound = 1}); });
  named("LARS: eta", [] { optim::LARS({.eta = -1}); });
  named("Lion: beta1", [] { optim::Lion({.beta1 = NAN}); });
}

TEST(Optimizers, AreMadeByName) {
  for (const char* name : {"sgd", "nag", "adam", "adamw", "adamax", "nadam", "rmsprop", "adagrad",
                           "adadelta", "ftrl", "signum", "lion", "lamb", "lars"})
    EXPECT_EQ(optim::create(name, {{"learning_rate", .25}, {"wd", 0}})->learning_rate(), .25);
  const auto sgd = optim::create("SGD", {{"momentum", .9}, {"multi_precision", true}});
  EXPECT_EQ(sgd->name(), "SGD");
  EXPECT_THAT(sgd->state_names(f16), ElementsAre("mom", "weight32"));
  EXPECT_EQ(optim::create("rmsprop", {{"centered", 1}})->state_names(f32).size(), 3u);
  const auto refused = [](const char* text, const char* name, const optim::OptionValues& o) {
    EXPECT_THAT(message_of<ValueError>([&] { optim::create(name, o); }), HasSubstr(text));
  };
  refused("\"adan\"; expected one of sgd, nag, adam", "adan", {});
  refused("adam: options lr; expected some of learning_rate, wd", "adam", {{"lr", .1}});
  refused("sgd: multi_precision 0.5; expected true or false", "sgd", {{"multi_precision", .5}});
  refused("SGD: momentum 1; expected a number in [0, 1)", "sgd", {{"momentum", 1}});

  nn::Parameter w("weight", {1});
  w.initialize(init::One(), cpu());
  nn::Trainer trainer({{"weight", w}}, "sgd", {{"learning_rate", .5}});
  {
    const autograd::Record record;
    (w.data() * 1).backward();
  }
  trainer.step(1);
  EXPECT_EQ(values(w.data()), Values{.5});
}

TEST(Optimizers, RefuseRatesThatAreNoneBeforeTheyCountAnUpdate) {
  for (double bad : {-.1, double(NAN), double(INFINITY)}) {
    EXPECT_THROW(optim::SGD().set_learning_rate(bad), ValueError);
    EXPECT_THROW(nn::Parameter("w", {1}, {.lr_mult = bad}), ValueError);
    EXPECT_THROW(nn::Parameter("w", {1}).set_wd_mult(bad), ValueError);
    for (bool compiled : {false, true}) {
      nn::Parameter w("weight", {1});
      w.initialize(init::Zero(), cpu());
      nn::Trainer trainer({{"weight", w}}, optim::SGD());
      double rate = 1;
      bool fails = false;
      trainer.set_schedule([&](int64_t n) {
        if (fails) throw std::runtime_error("no rate");
        return n == 1 ? 1 : rate;
      });
      const auto body = [&](const Tensor& x) {
        Tensor y;
        {
          const autograd::Record record;
          y = w.data() * x;
        }
        y.backward();
        trainer.step(1);
        return y;
      };
      nn::TrainStep step(body, trainer);
      const auto run = [&] { compiled ? step(ones({1})) : body(ones({1})); };
      run();
      rate = bad;
      EXPECT_THAT(message_of<ValueError>(run), HasSubstr("of update 2"));
      fails = true;
      EXPECT_THROW(run(), std::runtime_error);
      EXPECT_EQ(trainer.num_update(), 1);
      fails = false;
      rate = 2;
      run();
      EXPECT_EQ(trainer.num_update(), 2);
      EXPECT_EQ(values(w.data()), Values{-3}) << compiled;
    }
  }
  optim::Ftrl ftrl;
  EXPECT_THROW(ftrl.set_learning_rate(0), ValueError);  // it would divide by it
}

// Multiplying 10^6 momenta takes no longer than a few.
TEST(Optimizers, NadamStartsAtAnyStep) {
  const auto schedule = [](const optim::NadamOptions& o, int64_t t) {
    optim::Nadam nadam(o);
    const Tensor w = zeros({1}, f64);
    optim::ParameterGroup group{.weights = {w}, .gradients = {ones({1}, f64)}};
    for (const Tensor& s : nadam.create_state(w)) group.state.push_back({s});
    *group.count = t - 1;
    nadam.update(group, 1);
    return values(w)[0];
  };
  const auto expected = [](const optim::NadamOptions& o, int64_t t) {
    const auto momentum = [&](int64_t i) {
      return o.beta1 * (1 - .5 * std::pow(.96, static_cast<double>(i) * o.schedule_decay));
    };
    double product = 1;
    for (int64_t i = 1; i <= t; ++i) product *= momentum(i);
    const double m = (1 - momentum(t)) / (1 - product) +
                     momentum(t + 1) * (1 - o.beta1) / (1 - product * momentum(t + 1));
    const double var = (1 - o.beta2) / (1 - std::pow(o.beta2, static_cast<double>(t)));
    return -o.learning_rate * m / (std::sqrt(var) + o.epsilon);
  };
  for (double beta1 : {0., .5, .9, .9999})
    for (double decay : {0., .004, 1., 1000.})
      for (int64_t t : {1, 2, 3, 10, 100, 10000}) {
        const optim::NadamOptions o{.beta1 = beta1, .schedule_decay = decay};
        const double e = expected(o, t);
        EXPECT_NEAR(schedule(o, t), e, 1e-10 * std::abs(e)) << beta1 << " " << decay << " " << t;
      }
}

}  // namespace
}  // namespace locus::test
