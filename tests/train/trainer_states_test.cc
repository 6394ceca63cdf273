// The states from which a Trainer continues.
#include <memory>

#include <locus/core/autograd.h>
#include <locus/nn/containers.h>
#include <locus/nn/kvstore.h>
#include <locus/ops/collective.h>
#include <locus/ops/random.h>

#include <locus/core/generator.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/layers.h>
#include <locus/nn/tensor_parallel.h>
#include <locus/nn/train_step.h>
#include <locus/ops/reduce.h>
#include "tests/ranks/groups.h"
#include "tests/support/folder.h"
#include "tests/train/training.h"

namespace locus {
namespace {

using test::backward;
using testing::HasSubstr;
using Values = std::vector<double>;

// A network that trains on c, eager or compiled.
struct Training {
  nn::Sequential net;
  std::unique_ptr<nn::Trainer> trainer;
  std::unique_ptr<nn::TrainStep> step;
  Tensor x, y;

  Training(const Contexts& contexts, const optim::Optimizer& optimizer, DType d = f32) {
    random::seed(5);
    net.add(nn::Dense(4, nn::relu, {.dtype = d}), nn::Dense(2, {}, {.dtype = d}));
    net.initialize(init::Xavier(), contexts);
    const Context c = contexts.list()[0];
    x = random::normal(0, 1, {6, 3}, c).astype(d);
    y = array({0, 1, 1, 0, 1, 0}, c);
    trainer = std::make_unique<nn::Trainer>(net.parameters(),
                                            std::make_shared<optim::Optimizer>(optimizer));
    step = std::make_unique<nn::TrainStep>(net, nn::SoftmaxCrossEntropyLoss(), *trainer);
    net(x);
  }
  void run(int n) {
    for (int i = 0; i < n; ++i) (*step)(x, y);
  }
  std::vector<Values> parameters() const {
    std::vector<Values> all;
    for (const auto& [name, p] : net.parameters()) all.push_back(test::values(p.data()));
    return all;
  }
};

TEST(Trainer, ContinuesFromAFileAsIfItHadNotStopped) {
  const test::Folder folder;
  const std::string weights = folder / "trainer.params", states = folder / "trainer.states";
  const std::vector<optim::Optimizer> optimizers{
      optim::SGD({.learning_rate = .1}), optim::SGD({.learning_rate = .1, .momentum = .9}),
      optim::Nadam({.learning_rate = .01}), optim::RMSProp({.centered = true}),
      optim::Adam({.learning_rate = .01, .multi_precision = true})};
  for (Context c : test::contexts())
    for (DType d : {f32, f16})
      for (const optim::Optimizer& o : optimizers) {
        SCOPED_TRACE(o.name() + " " + to_string(c) + " " + name(d));
        Training first(c, o, d), second(c, o, d);
        first.run(7);
        first.net.save_parameters(weights);
        first.trainer->save_states(states);
        first.run(5);
        second.run(3);  // and reuses its recordings
        second.net.load_parameters(weights);
        second.trainer->load_states(states);
        EXPECT_EQ(second.trainer->num_update(), 7);
        second.run(5);
        EXPECT_EQ(second.parameters(), first.parameters());
        EXPECT_EQ(second.trainer->num_update(), 12);
        EXPECT_EQ(second.step->compiled().recorded(), 1u);
      }
}

// A network of Denses, or of their parts on these contexts, trained by Adam.
struct InParts {
  nn::Sequential net;
  std::unique_ptr<nn::Trainer> trainer;
  std::vector<Context> where;

  explicit InParts(const std::vector<Context>& contexts) : where(contexts) {
    random::seed(3);
    if (where.empty())
      net.add(nn::Dense(7, nn::relu), nn::Dense(5));
    else
      net.add(nn::ColumnParallelDense(7, where, nn::relu), nn::RowParallelDense(5, where));
    net.initialize(init::Xavier());
    trainer = std::make_unique<nn::Trainer>(net.parameters(), optim::Adam({.learning_rate = .01}));
  }
  void run(int n) {
    const nn::SoftmaxCrossEntropyLoss loss;
    random::seed(4);
    const Context first = where.empty() ? cpu() : where[0];
    const Tensor x = random::uniform(-1, 1, {8, 6}, first),
                 y = random::randint(0, 5, {8}, {first, i32});
    for (int i = 0; i < n; ++i) {
      Tensor l;
      {
        const autograd::Record record;
        l = loss(net(where.empty() ? Tensors{x} : broadcast(Group(where), x))[0], y);
      }
      l.backward();
      trainer->step(8);
    }
  }
};

TEST(Trainer, StatesOfPartsAreThoseOfTheWholeOnAnyNumberOfContexts) {
  const test::Folder folder;
  const std::string weights = folder / "net.params", states = folder / "trainer.states";
  for (const std::vector<Context>& places : test::fours()) {
    const auto first = [&](size_t n) {
      return std::vector<Context>(
          places.begin(), places.begin() + std::min(static_cast<ptrdiff_t>(n), std::ssize(places)));
    };
    InParts whole({});
    whole.run(9);
    for (const size_t before : {0, 1, 2, 3, 4})
      for (const size_t after : {0, 1, 2, 3, 4}) {
        SCOPED_TRACE(text_of(before, " and then ", after, " on ", to_string(places[0])));
        InParts one(first(before)), other(first(after));
        one.run(5);
        one.net.save_parameters(weights);
        one.trainer->save_states(states);
        other.run(2);
        other.net.load_parameters(weights);
        other.trainer->load_states(states);
        EXPECT_EQ(other.trainer->num_update(), 5);
        const NamedTensors own = one.trainer->states(), taken = other.trainer->states();
        ASSERT_EQ(own.size(), taken.size());
        for (size_t i = 0; i < own.size(); ++i) {
          EXPECT_EQ(own[i].first, taken[i].first);
          EXPECT_EQ(test::values(own[i].second), test::values(taken[i].second)) << own[i].first;
        }
        EXPECT_EQ(own[2].first, "0.weight/mean");
        EXPECT_EQ(own[2].second.shape(), (Shape{7, 6}));
        other.run(4);
        other.net.save_parameters(weights);
        InParts result({});
        result.net.load_parameters(weights);
        for (size_t i = 0; i < whole.net.parameters().size(); ++i)
          test::expect_close(test::values(result.net.parameters()[i].second.data()),
                             test::values(whole.net.parameters()[i].second.data()), 1e-4,
                             whole.net.parameters()[i].first);
      }
  }
}

TEST(Trainer, PartsThatAreNotAllThereHaveStatesOfTheirOwn) {
  InParts parts({cpu(0), cpu(1)});
  parts.run(1);
  std::vector<std::pair<std::string, nn::Parameter>> some;
  for (const auto& [name, p] : parts.net.parameters())
    if (name == "0.weight.1") some.emplace_back(name, p);
  ASSERT_EQ(some.size(), 1u);
  nn::Trainer one(some, optim::SGD({.momentum = .9}));
  EXPECT_EQ(one.states()[2].first, "0.weight.1/mom");
  NamedTensors given = parts.trainer->states();
  given[2].second = zeros({7, 5});
  EXPECT_THAT(test::message_of<ShapeError>([&] { parts.trainer->set_states(given); }),
              HasSubstr("'0.weight/mean'"));
}

std::vector<std::string> names_of(const NamedTensors& states) {
  std::vector<std::string> names;
  for (const auto& [name, value] : states) names.push_back(name);
  return names;
}

TEST(Trainer, PartsWithDifferentUpdatesKeepTheirCountsAndStates) {
  const auto parts = [] {
    std::vector<nn::Parameter> all =
        nn::Parameter::parts("w", {4}, 0, test::hosts(2), {.init = init::One()});
    for (nn::Parameter& p : all) p.initialize();
    return all;
  };
  const auto trainer_of = [](const std::vector<nn::Parameter>& all) {
    return nn::Trainer({{"w.0", all[0]}, {"w.1", all[1]}}, optim::Adam({.learning_rate = .1}));
  };
  const std::vector<nn::Parameter> mine = parts(), theirs = parts();
  nn::Trainer trainer = trainer_of(mine), other = trainer_of(theirs);
  for (const bool both : {true, true, false, false, false}) {
    backward(mine[0]);
    if (both) backward(mine[1]);
    trainer.step(1, true);
  }
  const NamedTensors apart = trainer.states();
  EXPECT_EQ(names_of(apart)[4], "w.1/count");
  EXPECT_EQ(test::values(apart[4].second), Values{2});
  for (int i = 0; i < 2; ++i)
    theirs[static_cast<size_t>(i)].set_data(mine[static_cast<size_t>(i)].data());
  EXPECT_EQ(names_of(other.states()).size(), 4u);  // those of the whole, so far
  other.set_states(apart);
  for (nn::Trainer* t : {&trainer, &other}) {
    for (const nn::Parameter& p : t == &trainer ? mine : theirs) backward(p);
    t->step(1);
  }
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ(test::values(theirs[i].data()), test::values(mine[i].data()));
  // States of the whole join the parts again.
  NamedTensors whole = trainer_of(parts()).states();
  whole[1].second = array({7});
  trainer.set_states(whole);
  EXPECT_EQ(names_of(trainer.states()), names_of(whole));
}

TEST(Trainer, AParameterAndAWholeOfOneNameAreAnError) {
  std::vector<nn::Parameter> all =
      nn::Parameter::parts("w", {4}, 0, test::hosts(2), {.init = init::One()});
  all.emplace_back("w", Shape{3}, nn::ParameterOptions{.init = init::One()});
  for (nn::Parameter& p : all) p.initialize();
  nn::Trainer trainer({{"w.0", all[0]}, {"w.1", all[1]}, {"w", all[2]}}, optim::SGD());
  EXPECT_THAT(test::message_of<Error>([&] { trainer.states(); }), HasSubstr("one name, 'w'"));
}

TEST(Trainer, StatesOfReplicasAreOneAndGoToAll) {
  nn::Parameter x("x", {3}, {.init = init::Zero()});
  x.initialize(init::Zero(), {cpu(0), cpu(1)});
  nn::Trainer trainer({{"x", x}}, optim::SGD({.learning_rate = 1, .momentum = .5}));
  backward(x);
  trainer.step(1);
  NamedTensors states = trainer.states();
  ASSERT_EQ(states.size(), 3u);
  EXPECT_EQ(states[2].first, "x/mom");
  states[2].second = zeros({3});
  trainer.set_states(states);
  backward(x);
  trainer.step(1);
  for (const Tensor& t : x.list_data()) EXPECT_EQ(test::values(t), Values(3, -4));
}

TEST(Trainer, CountsThatDifferAreTakenOver) {
  nn::Parameter a("a", {1}, {.init = init::Zero()}), b("b", {1}, {.init = init::Zero()});
  a.initialize();
  b.initialize();
  nn::Trainer trainer({{"a", a}, {"b", b}}, optim::Adam());
  NamedTensors states = trainer.states();
  states[1].second = array({5});
  trainer.set_states(states);
  backward(a);
  backward(b);
  trainer.step(1);
  EXPECT_EQ(test::values(trainer.states()[1].second), Values{6});
  EXPECT_EQ(test::values(trainer.states()[4].second), Values{1});
  EXPECT_EQ(trainer.num_update(), 6);
}

TEST(Trainer, StatesThatDoNotFitAreRefusedAndNothingIsTouched) {
  Training t(cpu(), optim::Adam());
  t.run(3);
  const NamedTensors own = t.trainer->states();
  std::vector<Values> before;
  for (const auto& [name, s] : own) before.push_back(test::values(s));
  const auto refused = [&]<class E>(E*, const char* text, auto change) {
    NamedTensors given;
    for (const auto& [name, s] : own) given.emplace_back(name, zeros_like(s));
    change(given);
    EXPECT_THAT(test::message_of<E>([&] { t.trainer->set_states(given); }), HasSubstr(text));
    const NamedTensors now = t.trainer->states();
    for (size_t i = 0; i < now.size(); ++i) EXPECT_EQ(test::values(now[i].second), before[i]);
  };
  FormatError* format = nullptr;
  refused(format, "optimizer SGD; this trainer's is Adam",
          [](NamedTensors& s) { s[0].first = "optimizer:SGD"; });
  refused(format, "'0.weight/mean' is missing", [](NamedTensors& s) { s.erase(s.begin() + 2); });
  refused(format, "'more' is none", [](NamedTensors& s) { s.emplace_back("more", ones({1})); });
  refused(format, "twice", [](NamedTensors& s) { s.push_back(s[2]); });
  refused(format, "'1.bias/count' is -1",
          [](NamedTensors& s) { s[s.size() - 3].second = array({-1}); });
  refused(static_cast<ShapeError*>(nullptr), "'1.bias/var'",
          [](NamedTensors& s) { s.back().second = ones({9}); });
  refused(static_cast<DTypeError*>(nullptr), "expected dtype f32",
          [](NamedTensors& s) { s.back().second = s.back().second.astype(f64); });
  EXPECT_THAT(test::message_of<Error>([&] { t.trainer->load_states("/nowhere/x.states"); }),
              HasSubstr("/nowhere/x.states"));
}

// Five steps. The third and fourth skip b, without and with a stop in between.
TEST(Trainer, FrozenParametersKeepTheirStatesInFilesToo) {
  for (Context c : test::contexts()) {
    SCOPED_TRACE(to_string(c));
    const test::Folder folder;
    const std::string path = folder / "frozen.states";
    const auto train = [&](int stop) {
      nn::Parameter a("a", {2}, {.init = init::One()}), b("b", {2}, {.init = init::One()});
      a.initialize(init::One(), c), b.initialize(init::One(), c);
      auto trainer = std::make_unique<nn::Trainer>(nn::Parameters{{"a", a}, {"b", b}},
                                                   optim::Adam({.learning_rate = .1}));
      for (int i = 0; i < 5; ++i) {
        const bool frozen = i == 2 || i == 3;
        b.set_grad_req(frozen ? GradReq::null : GradReq::write);
        if (i == stop) {
          trainer->save_states(path);
          trainer = std::make_unique<nn::Trainer>(nn::Parameters{{"a", a}, {"b", b}},
                                                  optim::Adam({.learning_rate = .1}));
          trainer->load_states(path);
        }
        Tensor y;
        {
          const autograd::Record record;
          y = a.data() * (i + 1) + b.data() * (2 - i);
        }
        y.backward();
        trainer->step(1);
      }
      EXPECT_EQ(test::values(trainer->states()[1].second), Values{5});
      EXPECT_EQ(test::values(trainer->states()[4].second), Values{3});
      return std::pair(test::values(a.data()), test::values(b.data()));
    };
    const auto expected = train(-1);
    EXPECT_NE(expected.second[0], 1);
    for (int stop : {1, 2, 3, 4}) EXPECT_EQ(train(stop), expected) << stop;
  }
}

TEST(Trainer, StatesOfAnOptimizerThatDoesNotNameThemHaveNumbers) {
  struct Sums : optim::Optimizer {
    Sums() : Optimizer("Sums", {}) {}
    Tensors create_state(const Tensor& weight) const override { return {zeros_like(weight)}; }
    void update(optim::ParameterGroup& group, double) override {
      for (size_t i = 0; i < group.weights.size(); ++i) group.state[0][i] += group.gradients[i];
      ++*group.count;
    }
  };
  const nn::Parameter a("a", {2}, {.init = init::Zero()}), b("b", {2}, {.init = init::Zero()});
  for (const nn::Parameter* p : {&a, &b}) p->initialize();
  const nn::Parameters both{{"a", a}, {"b", b}};
  nn::Trainer first(both, Sums());
  for (const nn::Parameter* p : {&a, &b}) backward(*p);
  first.step(1);
  b.set_grad_req(GradReq::null);
  const NamedTensors states = first.states();
  nn::Trainer second(both, Sums());
  second.set_states(states);
  for (const NamedTensors& all : {states, second.states()}) {
    ASSERT_NE(find_in(all, "b/0"), nullptr);
    EXPECT_EQ(test::values(*find_in(all, "b/0")), Values(2, 1));
  }
}

TEST(Trainer, StatesOfWhatWasCastWhileFrozenAreThoseOfANewTrainer) {
  nn::Parameter a("a", {2}, {.init = init::One()});
  a.initialize(init::One(), {cpu(0), cpu(1)});
  nn::Trainer trainer({{"a", a}}, optim::Adam());
  test::backward(a);
  trainer.step(1);
  a.set_grad_req(GradReq::null);
  trainer.states();
  a.cast(f64);
  a.reset_ctx(cpu(1));
  const NamedTensors states = trainer.states();
  EXPECT_EQ(states[2].second.dtype(), f64);
  nn::Trainer({{"a", a}}, optim::Adam()).set_states(states);
  a.set_grad_req(GradReq::write);
  test::backward(a);
  trainer.step(1);
  EXPECT_EQ(trainer.num_update(), 1);
  const NamedTensors now = trainer.states();
  const auto count = std::ranges::find(now, "a/count", &std::pair<std::string, Tensor>::first);
  ASSERT_NE(count, now.end());
  EXPECT_EQ(test::values(count->second), Values{1});  // of the new states
}

}  // namespace
}  // namespace locus
