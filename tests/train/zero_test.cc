// A Trainer that shards states and gradients, against one that does not.
#include <locus/core/accumulate.h>
#include <locus/core/autograd.h>
#include <locus/nn/trainer.h>

#include <limits>

#include <locus/core/amp.h>
#include <locus/nn/clip.h>
#include <locus/nn/train/state_owners.h>
#include "tests/train/sharded.h"

namespace locus::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Values = std::vector<double>;

TEST(Owners, KeepAboutAsMuchAndAreTheSameEachTime) {
  const std::vector<Context> three = hosts(3), two{cpu(1), cpu(2)}, one{cpu(2)};
  const std::vector<nn::OwnedState> all{{three, 10}, {three, 60}, {one, 50},  {three, 30},
                                        {two, 20},   {three, 0},  {three, 30}};
  // cpu(2) has 50; 60 to cpu(0), 30 to cpu(1), 30 to cpu(1), 20 to cpu(2), 10 to cpu(0).
  EXPECT_EQ(nn::owners(all), (std::vector<size_t>{0, 0, 0, 1, 1, 1, 1}));
  EXPECT_TRUE(nn::owners({}).empty());
  // cpu(0) keeps 10, cpu(1) 60; 30 to cpu(2).
  EXPECT_EQ(nn::owners(std::vector<nn::OwnedState>{{three, 10, 0}, {three, 30}, {two, 60, 0}}),
            (std::vector<size_t>{0, 2, 0}));
}

TEST(Zero, AParameterThatIsFrozenMovesNoOwner) {
  for (const Group& g : sharding_groups()) {
    SCOPED_TRACE(to_string(g));
    Training training(g.contexts(), {.zero = 1});
    const auto contexts_of_states = [&] {
      std::vector<Context> all;
      for (const auto& [name, state] : training.trainer->states()) all.push_back(state.context());
      return all;
    };
    const std::vector<Context> before = (training.run(1), contexts_of_states());
    const nn::Parameter largest = training.net.parameters()[2].second;
    for (const GradReq req : {GradReq::null, GradReq::write}) {
      largest.set_grad_req(req);
      training.run(1);
      EXPECT_EQ(contexts_of_states(), before);
    }
  }
}

TEST(Zero, TrainsToTheSameBitsAsWithoutIt) {
  for (const Group& g : sharding_groups())
    for (const optim::Optimizer& o : optimizers()) {
      SCOPED_TRACE(to_string(g) + " " + o.name());
      const auto train = [&](int zero) {
        return Training(g.contexts(), {.zero = zero}, o).run(4).outcome();
      };
      const Outcome expected = train(0);
      EXPECT_EQ(train(1), expected);
      EXPECT_EQ(train(2), expected);
    }
}

TEST(Zero, TrainsSoWithThreadsAndOverlap) {
  for (const Group& g : sharding_groups()) {
    const auto train = [&](int zero, bool overlap, bool threads) {
      return Training(g.contexts(), {.overlap = overlap, .zero = zero}).run(4, threads).outcome();
    };
    const Outcome expected = train(0, false, false);
    for (const int zero : {1, 2})
      for (const bool overlap : {false, true})
        for (const bool threads : {false, true})
          EXPECT_EQ(train(zero, overlap, threads), expected)
              << to_string(g) << zero << overlap << threads;
  }
}

TEST(Zero, AHundredStepsAreThoseOfOneContextWithTheWholeBatch) {
  for (const DType d : {f32, f64}) {
    const optim::SGD sgd({.learning_rate = .1, .momentum = .9});
    const Outcome one = Training(cpu(), {}, sgd, d).run(100).outcome();
    for (const Group& g : sharding_groups())
      for (const int zero : {1, 2}) {
        SCOPED_TRACE(to_string(g) + name(d));
        const Outcome sharded = Training(g.contexts(), {.zero = zero}, sgd, d).run(100).outcome();
        expect_close(sharded.parameters, one.parameters, d == f64 ? 1e-12 : 1e-4);
      }
  }
}

TEST(Zero, OnlyTheOwnerHasTheMasterOf16Bits) {
  for (const Group& g : sharding_groups())
    for (const DType d : {f16, bf16}) {
      const optim::Adam adam({.learning_rate = .01, .multi_precision = true});
      const auto train = [&](int zero) {
        return Training(g.contexts(), {.zero = zero}, adam, d).run(6).outcome();
      };
      EXPECT_EQ(train(1), train(0)) << to_string(g) << name(d);
      EXPECT_EQ(train(2), train(0)) << to_string(g) << name(d);
    }
}

TEST(Zero, FrozenParametersGoOnWithTheirStates) {
  for (const Group& g : sharding_groups()) {
    const auto train = [&](int zero) {
      Training t(g.contexts(), {.zero = zero});
      for (const GradReq req : {GradReq::write, GradReq::null, GradReq::write}) {
        t.net[1].parameter("weight").set_grad_req(req);
        t.run(2);
      }
      return t.outcome();
    };
    EXPECT_EQ(train(1), train(0)) << to_string(g);
    EXPECT_EQ(train(2), train(0)) << to_string(g);
  }
}

TEST(Zero, ASumThatWaitsIsUsedWhereItIsWhenOthersAreFrozen) {
  for (const Group& g : sharding_groups()) {
    const auto train = [&](int zero, bool overlap) {
      Training t(g.contexts(), {.overlap = overlap, .zero = zero});
      for (const GradReq req : {GradReq::write, GradReq::null, GradReq::write}) {
        t.net[1].parameter("weight").set_grad_req(req);
        t.run(2);
        if (overlap) continue;
        t.backward();
        t.trainer->allreduce_grads();
        t.net[1].parameter("bias").set_grad_req(req);
        t.trainer->update(12, true);
      }
      return t.outcome();
    };
    for (const bool overlap : {false, true})
      for (const int zero : {1, 2})
        EXPECT_EQ(train(zero, overlap), train(0, overlap)) << to_string(g) << zero << overlap;
  }
}

TEST(Zero, GradientsMayAddUpOverSeveralBatches) {
  for (const Group& g : sharding_groups())
    for (const bool threads : {false, true}) {
      const auto train = [&](int zero, bool zeroes) {
        Training t(g.contexts(), {.zero = zero});
        for (const auto& [name, p] : t.net.parameters()) p.set_grad_req(GradReq::add);
        for (int step = 0; step < 3; ++step) {
          if (zeroes) t.net.zero_grad();
          for (int part = 0; part < 3; ++part) t.backward(threads);
          t.trainer->step(36);
        }
        return t.outcome();
      };
      EXPECT_EQ(train(1, true), train(0, true)) << to_string(g);
      EXPECT_EQ(train(2, true), train(0, true)) << to_string(g);
    }
}

TEST(Zero, AccumulatesInAScope) {
  for (const Group& g : sharding_groups()) {
    const auto train = [&](int zero) {
      Training t(g.contexts(), {.zero = zero});
      for (int step = 0; step < 3; ++step) {
        const autograd::Accumulate accumulate;
        for (int part = 0; part < 3; ++part) t.backward();
        t.trainer->step(36);
      }
      return t.outcome();
    };
    EXPECT_EQ(train(2), train(0)) << to_string(g);
  }
}

TEST(Zero, LimitsTheNormOfAllGradients) {
  for (const Group& g : sharding_groups()) {
    const auto train = [&](int zero, double limit, Values& norms) {
      Training t(g.contexts(), {.zero = zero}, optim::SGD({.learning_rate = .1}), f64);
      for (int step = 0; step < 4; ++step) {
        t.backward();
        norms.push_back(t.trainer->clip_global_norm(limit, 12).item<double>());
        t.trainer->step(12);
      }
      return t.outcome();
    };
    Values expected_norms;
    const Outcome expected = train(0, .1, expected_norms);
    for (const int zero : {1, 2}) {
      Values norms;
      expect_close(train(zero, .1, norms).parameters, expected.parameters, 1e-14);
      for (size_t i = 0; i < norms.size(); ++i)
        EXPECT_NEAR(norms[i], expected_norms[i], 1e-12 * norms[i]);
      EXPECT_GT(norms[0], .1);
    }
  }
}

TEST(Zero, SkipsAStepWhoseGradientsAreNotFinite) {
  for (const Group& g : sharding_groups())
    for (const int zero : {1, 2}) {
      Training t(g.contexts(), {.zero = zero});
      amp::LossScaler scaler({.init_scale = 1});
      t.run(1);
      const Outcome before = t.outcome();
      t.backward();
      const Tensor bad = t.net[1].parameter("weight").list_grad().back();
      bad(0, 0) = std::numeric_limits<double>::infinity();
      EXPECT_FALSE(scaler.step(*t.trainer, 12));
      scaler.update();
      EXPECT_EQ(t.outcome(), before);
      EXPECT_THROW(t.trainer->step(12), Error) << "they were used";
      t.backward();
      EXPECT_TRUE(scaler.step(*t.trainer, 12));
      EXPECT_NE(t.outcome(), before);
      EXPECT_EQ(t.trainer->num_update(), 2);
    }
}

TEST(Zero, ContinuesWithOtherContexts) {
  std::vector<std::vector<Context>> others{{cpu(0)}, hosts(2), {cpu(3), cpu(1), cpu(0)}};
  if (num_gpus() >= 2) others.push_back(gpus(2));
  for (const Group& g : sharding_groups())
    for (const auto& there : others) {
      const auto train = [&](int zero) {
        Training t(g.contexts(), {.zero = zero});
        t.run(2);
        t.reset_ctx(there);
        t.run(2);
        t.reset_ctx(g.contexts());
        return t.run(1).outcome();
      };
      EXPECT_EQ(train(1), train(0)) << to_string(g) << listed(there);
      EXPECT_EQ(train(2), train(0)) << to_string(g) << listed(there);
    }
}

TEST(Zero, ParametersOnOneContextAreAmongThoseOnSeveral) {
  nn::Parameter a("a", {4}, {.init = init::Zero()}), b("b", {4}, {.init = init::Zero()}),
      c("c", {2}, {.init = init::Zero()});
  a.initialize(init::Zero(), {cpu(0), cpu(1)});
  b.initialize(init::Zero(), {cpu(0), cpu(1)});
  c.initialize(init::Zero(), cpu(0));
  nn::Trainer trainer({{"a", a}, {"b", b}, {"c", c}},
                      optim::SGD({.learning_rate = 1, .momentum = .5}), {.zero = 1});
  for (int i = 0; i < 2; ++i) {
    for (const nn::Parameter& p : {a, b, c}) backward(p);
    trainer.step(1);
  }
  for (const nn::Parameter& p : {a, b})
    for (const Tensor& replica : p.list_data()) EXPECT_EQ(values(replica), Values(4, -5));
  EXPECT_EQ(values(c.data()), Values(2, -2.5));
  const NamedTensors states = trainer.states();
  EXPECT_EQ(states[2].second.context(), cpu(1)) << "c counts";
  EXPECT_EQ(states[4].second.context(), cpu(0));
  EXPECT_EQ(states[6].second.context(), cpu(0));
}

TEST(Zero, AStaleReplicaIsNamedAndNothingIsChanged) {
  for (const int zero : {1, 2}) {
    nn::Parameter p("p", {2}, {.init = init::Zero()});
    p.initialize(init::Zero(), {cpu(0), cpu(1)});
    nn::Trainer trainer({{"p", p}}, optim::SGD({.learning_rate = 1}), {.zero = zero});
    Tensor y;
    {
      const autograd::Record record;
      y = p.data(cpu(0)) + 1;
    }
    y.backward();
    EXPECT_THAT(message_of<Error>([&] { trainer.step(1); }),
                HasSubstr("Gradient of Parameter `p` on context cpu(1) has not been updated"));
    trainer.step(1, true);
    for (const Tensor& replica : p.list_data()) EXPECT_EQ(values(replica), Values(2, 0));
  }
}

TEST(Zero, AnUpdateThatFailsLeavesReplicasEqual) {
  struct Fails : optim::SGD {
    Fails() : SGD({.learning_rate = 1}) {}
    void update(optim::ParameterGroup& group, double rescale) override {
      if (++calls == 2) throw OutOfMemory("no memory");
      SGD::update(group, rescale);
    }
    int calls = 0;
  };
  nn::Parameter a("a", {2}, {.init = init::Zero()}), b("b", {3}, {.init = init::Zero()});
  for (const nn::Parameter& p : {a, b}) p.initialize(init::Zero(), {cpu(0), cpu(1)});
  nn::Trainer trainer({{"a", a}, {"b", b}}, Fails(), {.zero = 1});
  for (const nn::Parameter& p : {a, b}) backward(p);
  EXPECT_THROW(trainer.step(1), OutOfMemory);
  for (const nn::Parameter& p : {a, b}) {
    const Tensors replicas = p.list_data();
    EXPECT_EQ(values(replicas[0]), values(replicas[1]));
  }
  trainer.step(1, true);
  for (const nn::Parameter& p : {a, b})
    for (const double v : values(p.list_data()[1])) EXPECT_EQ(v, -2);
}

TEST(Zero, UnknownStagesAreRefused) {
  EXPECT_THAT(message_of<ValueError>([] { nn::Trainer({}, optim::SGD(), {.zero = 3}); }),
              AllOf(HasSubstr("zero 3"), HasSubstr("expected 0, 1 or 2")));
}

TEST(Zero, AnOwnersSumIsNoOtherTrainers) {
  for (const Group& g : sharding_groups()) {
    Training t(g.contexts(), {.zero = 1});
    nn::Trainer other(t.net.parameters(), optim::Adam({.learning_rate = .01}));
    t.run(1);
    t.backward();
    t.trainer->allreduce_grads();
    const Outcome before = t.outcome();
    EXPECT_THAT(message_of<Error>([&] { other.step(12); }), HasSubstr("has not been updated"));
    EXPECT_EQ(t.outcome(), before);
    t.trainer->step(12);
    EXPECT_EQ(t.outcome(), Training(g.contexts(), {}).run(2).outcome());
  }
}

TEST(Zero, AnotherTrainersSumIsUsedWhereItIsOnAllContexts) {
  for (const Group& g : sharding_groups()) {
    Training t(g.contexts(), {.zero = 2});
    nn::Trainer other(t.net.parameters(), optim::SGD());
    t.run(1);
    t.backward();
    other.allreduce_grads();
    t.trainer->step(12);
    EXPECT_EQ(t.outcome(), Training(g.contexts(), {}).run(2).outcome());
  }
}

}  // namespace
}  // namespace locus::test
