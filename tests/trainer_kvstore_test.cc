// A Trainer whose gradients go through a KVStore.
#include <locus/nn/kvstore.h>

#include <locus/nn/checkpoint.h>
#include "tests/folder.h"
#include "tests/sharded.h"

namespace locus::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Values = std::vector<double>;

nn::TrainerOptions through(const char* type, std::optional<bool> update_on_kvstore = {}) {
  return {.kvstore = kvstore::create(type), .update_on_kvstore = update_on_kvstore};
}
// Zeros, on two contexts.
nn::Parameter two(const char* name, const std::vector<Context>& where = hosts(2)) {
  nn::Parameter p(name, {10}, {.init = init::Zero()});
  p.initialize(init::Zero(), where);
  return p;
}
std::vector<std::vector<Context>> pairs() {
  std::vector<std::vector<Context>> all{hosts(2)};
  if (num_gpus() >= 2) all.push_back(gpus(2));
  return all;
}

TEST(TrainerKVStore, UpdatesOnTheStoreAsGluonDoes) {  // test_gluon_trainer.py::test_trainer
  for (const auto& pair : pairs())
    for (const char* type : {"local", "device", "nccl", "dist_sync"}) {
      SCOPED_TRACE(type);
      const nn::Parameter x = two("x", pair);
      const optim::SGD sgd({.learning_rate = 1, .momentum = .5});
      nn::Trainer trainer({{"x", x}}, sgd, through(type));
      backward(x);
      trainer.step(1);
      for (const Tensor& t : x.list_data()) EXPECT_EQ(values(t), Values(10, -2));
      x.set_lr_mult(.5);
      backward(x);
      trainer.step(1);
      for (const Tensor& t : x.list_data()) EXPECT_EQ(values(t), Values(10, -4));
      EXPECT_EQ(trainer.num_update(), 2);

      const Folder folder;
      const std::string path = folder / "trainer.states";
      trainer.save_states(path);
      const Values before = values(trainer.states()[2].second);
      trainer.load_states(path);
      EXPECT_EQ(values(trainer.states()[2].second), before);

      EXPECT_THAT(message_of<Error>([&] { trainer.update(1); }),
                  AllOf(HasSubstr("update() when parameters are updated on kvstore is not "
                                  "supported"),
                        HasSubstr("`update_on_kvstore` to false")));
      EXPECT_THAT(message_of<Error>([&] { trainer.allreduce_grads(); }),
                  HasSubstr("allreduce_grads() when parameters are updated on kvstore"));
      EXPECT_THROW(trainer.clip_global_norm(1, 1), Error);
      EXPECT_THROW(trainer.update_if_finite(1), Error);
    }
}

TEST(TrainerKVStore, SumsThroughTheStoreAndUpdatesHere) {
  for (const auto& pair : pairs())
    for (const char* type : {"local", "device", "nccl", "dist_sync"}) {
      SCOPED_TRACE(type);
      const nn::Parameter x = two("x", pair);
      const optim::SGD sgd({.learning_rate = 1, .momentum = .5});
      nn::Trainer trainer({{"x", x}}, sgd, through(type, false));
      for (int i = 0; i < 2; ++i) {
        Tensor y;
        {
          const autograd::Record record;
          y = x.list_data()[static_cast<size_t>(i)] * i;
        }
        y.backward();
      }
      EXPECT_NE(values(x.list_grad()[0]), values(x.list_grad()[1]));
      trainer.allreduce_grads();
      for (const Tensor& g : x.list_grad()) EXPECT_EQ(values(g), Values(10, 1));
      trainer.update(1);
      for (const Tensor& t : x.list_data()) EXPECT_EQ(values(t), Values(10, -1));
      backward(x);
      EXPECT_EQ(trainer.clip_global_norm(1, 1).item<double>(), std::sqrt(40.));
      trainer.step(1);
      for (const Tensor& t : x.list_data())
        EXPECT_NEAR(values(t)[0], -1 - .5 - 1 / std::sqrt(10.), 1e-6);
    }
}

// A store has states by part, so that those of the whole are refused before anything is touched.
TEST(TrainerKVStore, StatesOfAWholeAreRefusedBeforeTheNetworkIsRestored) {
  const Folder own;
  const std::string folder = own.path;
  struct Net {
    explicit Net(const nn::TrainerOptions& options) {
      net.add(nn::ColumnParallelDense(6, hosts(2)));
      net.initialize(init::Xavier());
      trainer.emplace(net.parameters(), optim::Adam(), options);
    }
    nn::Sequential net;
    std::optional<nn::Trainer> trainer;
  };
  Net first({}), second(through("device"));
  Tensors out;
  {
    const autograd::Record record;
    out = first.net(broadcast(Group(hosts(2)), ones({4, 3})));
  }
  autograd::backward(out);
  first.trainer->step(4);
  checkpoint::save(folder, {first.net, *first.trainer});
  EXPECT_THROW(checkpoint::load(folder, {second.net, *second.trainer}), FormatError);
  EXPECT_FALSE(second.net.parameter("0.weight.0").initialized());
}

TEST(TrainerKVStore, TrainsToWhatItDoesWithoutAStore) {
  for (const Group& g : sharding_groups())
    for (const optim::Optimizer& o : optimizers())
      for (const char* type : {"local", "device", "nccl"})
        for (const bool update : {false, true}) {
          SCOPED_TRACE(to_string(g) + " " + o.name() + " " + type);
          const Outcome expected = Training(g.contexts(), {}, o, f64).run(3).outcome();
          const Outcome got =
              Training(g.contexts(), through(type, update), o, f64).run(3).outcome();
          expect_close(got.parameters, expected.parameters, 1e-12);
          if (is_host(g[0]) && type != std::string("local")) {
            EXPECT_EQ(got, expected);
          }
        }
}

TEST(TrainerKVStore, SeesWhatTheProgramWritesIntoParameters) {
  for (const auto& pair : pairs()) {
    const nn::Parameter x = two("x", pair);
    const optim::SGD sgd({.learning_rate = 1, .momentum = .5});
    nn::Trainer trainer({{"x", x}}, sgd, through("device"));
    const auto step = [&] {
      backward(x);
      trainer.step(1);
    };
    step();
    x.set_data(full({10}, 100));
    step();  // momentum -2 becomes -3
    for (const Tensor& t : x.list_data()) EXPECT_EQ(values(t), Values(10, 97));
    x.reset_ctx(cpu(0));
    step();  // -1.5 - 1
    EXPECT_EQ(values(x.data()), Values(10, 94.5));
    EXPECT_EQ(trainer.states()[2].second.context(), cpu(0));
    x.cast(f64);  // with states that are new
    step();
    EXPECT_EQ(values(x.data()), Values(10, 93.5));
  }
}

// Else they would be one value of the store.
TEST(TrainerKVStore, TwoParametersOfOneNameAreRefused) {
  const nn::Parameter a = two("a"), b = two("b");
  const optim::SGD sgd({.learning_rate = 1});
  EXPECT_THAT(message_of<Error>([&] {
                nn::Trainer({{"x", a}, {"x", b}}, sgd, through("local"));
              }),
              HasSubstr("two parameters have one name, among x, x"));
  nn::Trainer({{"x", a}, {"y", a}}, sgd, through("local"));  // one that is shared
  nn::Trainer({{"x", a}, {"x", b}}, sgd);
}

TEST(TrainerKVStore, AStoreThatUpdatesOtherwiseIsRefusedBeforeAnythingChanges) {
  for (const bool update : {true, false}) {
    const nn::Parameter a = two("a"), b = two("b");
    const nn::TrainerOptions shared = through("device", update);
    nn::Trainer first({{"a", a}}, optim::SGD({.learning_rate = 1}), shared);
    const auto refused = [&](const char* by) {
      backward(a);
      EXPECT_THAT(message_of<Error>([&] { first.step(1); }),
                  HasSubstr(text_of("its kvstore updates values by ", by)));
      EXPECT_EQ(values(a.data(cpu(1))), Values(10, 0));
    };
    nn::Trainer second({{"b", b}}, optim::SGD({.learning_rate = 100}), {.kvstore = shared.kvstore});
    refused("another optimizer");
    shared.kvstore->set_updater([](const kvstore::Key&, const Tensor&, Tensor& s) { s += 100; });
    refused("an updater");
    shared.kvstore->set_updater({});
    if (update) refused("none");
  }
}

TEST(TrainerKVStore, FrozenAndStaleParametersAreLeftAlone) {
  const nn::Parameter a = two("a"), b = two("b");
  nn::Trainer trainer({{"a", a}, {"b", b}}, optim::SGD({.learning_rate = 1}), through("device"));
  backward(a);
  EXPECT_THAT(message_of<Error>([&] { trainer.step(1); }),
              HasSubstr("Gradient of Parameter `b` on context cpu(0)"));
  EXPECT_EQ(values(a.data(cpu(1))), Values(10, 0));
  trainer.step(1, true);
  b.set_grad_req(GradReq::null);
  backward(a);
  trainer.step(1);
  EXPECT_EQ(values(a.data(cpu(1))), Values(10, -4));
  EXPECT_EQ(values(b.data(cpu(1))), Values(10, 0));
  b.set_grad_req(GradReq::write);
  backward(a);
  backward(b);
  trainer.step(1);
  EXPECT_EQ(values(b.data(cpu(1))), Values(10, -2));
}

TEST(TrainerKVStore, AnUpdateThatFailsCanBeTriedAgain) {
  struct FailsOnce : optim::SGD {
    FailsOnce() : SGD({.learning_rate = 1}) {}
    void update(optim::ParameterGroup& group, double rescale) override {
      if (++calls == 2) throw OutOfMemory("no memory");
      SGD::update(group, rescale);
    }
    int calls = 0;
  };
  const nn::Parameter a = two("a"), b = two("b");
  nn::Trainer trainer({{"a", a}, {"b", b}}, FailsOnce(), through("device"));
  backward(a);
  backward(b);
  EXPECT_THROW(trainer.step(1), OutOfMemory);
  trainer.step(1, true);
  for (const nn::Parameter& p : {a, b})
    for (const Tensor& t : p.list_data()) EXPECT_EQ(values(t), Values(10, -2));
}

TEST(TrainerKVStore, AKeyThatIsRefusedKeepsTheOthersFromTheirUpdate) {
  const nn::Parameter a = two("a"), b = two("b");
  const nn::TrainerOptions options = through("local");
  nn::Trainer trainer({{"a", a}, {"b", b}}, optim::SGD({.learning_rate = 1}), options);
  for (const nn::Parameter& p : {a, b}) backward(p);
  trainer.step(1);
  options.kvstore->set_value("b", zeros({3}));
  for (const nn::Parameter& p : {a, b}) backward(p);
  EXPECT_THROW(trainer.step(1), ShapeError);
  for (const Tensor& t : a.list_data()) EXPECT_EQ(values(t), Values(10, -2));
}

TEST(TrainerKVStore, FilesAreThoseOfATrainerWithoutAStore) {
  const Folder folder;
  const std::string path = folder / "trainer.states";
  const auto options = [](int how) {
    return how == 0   ? nn::TrainerOptions{}
           : how == 1 ? through("device")
                      : nn::TrainerOptions{.zero = 1};
  };
  for (const int from : {0, 1, 2})
    for (const int to : {0, 1, 2}) {
      Training first(hosts(3), options(from)), second(hosts(3), options(to));
      first.run(3);
      first.trainer->save_states(path);
      second.run(3);
      second.trainer->load_states(path);
      EXPECT_EQ(second.trainer->num_update(), 3);
      EXPECT_EQ(second.run(2).outcome(), first.run(2).outcome()) << from << to;
    }
}

TEST(TrainerKVStore, FilesHaveTheStatesOfFrozenParameters) {
  const Folder folder;
  const std::string path = folder / "trainer.states";
  for (const bool from_store : {false, true}) {
    Training first(hosts(2), from_store ? through("device") : nn::TrainerOptions{}),
        second(hosts(2), through("device"));
    first.run(2);
    second.run(2);
    for (Training* t : {&first, &second}) {
      t->net[1].parameter("weight").set_grad_req(GradReq::null);
      t->run(1);
    }
    first.trainer->save_states(path);
    second.trainer = std::make_unique<nn::Trainer>(
        second.net.parameters(), optim::Adam({.learning_rate = .01}), through("device"));
    second.trainer->load_states(path);
    for (Training* t : {&first, &second}) {
      t->net[1].parameter("weight").set_grad_req(GradReq::write);
      t->run(2);
    }
    EXPECT_EQ(second.outcome(), first.outcome());
  }
}

TEST(TrainerKVStore, StatesThatAreRefusedChangeNothing) {
  Training t(hosts(2), through("device"));
  t.net[1].parameter("weight").set_grad_req(GradReq::null);
  t.run(2);
  const NamedTensors own = t.trainer->states();
  NamedTensors given = own;
  given.emplace_back("1.weight/count", array({1}).astype(i64));
  EXPECT_THAT(message_of<FormatError>([&] { t.trainer->set_states(given); }),
              HasSubstr("'1.weight/mean' is missing"));
  EXPECT_EQ(t.trainer->states().size(), own.size());
  t.trainer->set_states(own);
}

TEST(TrainerKVStore, StepsInARecordScope) {
  const nn::Parameter x = two("x");
  nn::Trainer trainer({{"x", x}}, optim::SGD({.learning_rate = 1}), through("device"));
  backward(x);
  const autograd::Record record;
  trainer.step(1);
  EXPECT_EQ(values(x.data(cpu(1))), Values(10, -2));
}

TEST(TrainerKVStore, ATrainerThatCannotBeMadeLeavesTheStoreAlone) {
  const nn::TrainerOptions options = through("device");
  Training t(hosts(1), options);
  t.run(1);
  EXPECT_THROW(nn::Trainer({{"w", two("a")}, {"w", two("b")}}, optim::SGD(), options), Error);
  t.run(1);
}

TEST(TrainerKVStore, ACheckpointGoesOn) {
  const Folder own;
  const std::string folder = own.path;
  Training first(hosts(2), through("device"));
  first.run(3);
  checkpoint::save(folder, {first.net, *first.trainer});
  first.run(2);
  Training second(hosts(2), through("device"));
  second.run(1);
  ASSERT_TRUE(checkpoint::load(folder, {second.net, *second.trainer}));
  second.skip_to(3);
  EXPECT_EQ(second.run(2).outcome(), first.outcome());

  Training other(hosts(2), through("device"), optim::SGD({.momentum = .9}));
  const Outcome before = other.outcome();
  EXPECT_THROW(checkpoint::load(folder, {other.net, *other.trainer}), FormatError);
  EXPECT_EQ(other.outcome(), before);
}

TEST(TrainerKVStore, SaysWhatDoesNotGoTogether) {
  const auto refused = [](const nn::TrainerOptions& o, const char* text) {
    EXPECT_THAT(message_of<ValueError>([&] { nn::Trainer({}, optim::SGD(), o); }), HasSubstr(text));
  };
  refused({.update_on_kvstore = true}, "update_on_kvstore without a kvstore");
  refused({.overlap = true, .kvstore = kvstore::create("device")}, "kvstore with overlap");
  refused({.zero = 1, .kvstore = kvstore::create("device")}, "kvstore with zero");
}

TEST(TrainerKVStore, IsNotCompiled) {
  for (const bool update : {false, true}) {
    const nn::Parameter x = two("x");
    nn::Trainer trainer({{"x", x}}, optim::SGD({.learning_rate = 1}), through("device", update));
    backward(x);
    nn::TrainStep step(
        [&](const Tensor& t) {
          trainer.step(1);
          return t + 0;
        },
        trainer);
    EXPECT_THAT(message_of<CaptureError>([&] { step(ones({1})); }), HasSubstr("kvstore"));
    EXPECT_EQ(values(x.data(cpu(0))), Values(10, 0));
    trainer.step(1);
    EXPECT_EQ(values(x.data(cpu(1))), Values(10, -2));
  }
}

// As with a Trainer that has no store.
TEST(TrainerKVStore, StatesOfWhatWasCastWhileFrozenBeginAnew) {
  for (const auto& [type, anew] : {std::pair("", false), {"local", false}, {"device", true}}) {
    nn::Parameter p("p", {2}, {.init = init::Zero()}), q("q", {2}, {.init = init::Zero()});
    for (const nn::Parameter& each : {p, q}) each.initialize();
    const auto made = [&] {
      nn::TrainerOptions o;
      if (*type) o.kvstore = kvstore::create(type);
      return nn::Trainer({{"p", p}, {"q", q}}, optim::Adam({.learning_rate = .1}), o);
    };
    auto trainer = std::make_unique<nn::Trainer>(made());
    const auto step = [&] {
      for (const nn::Parameter& each : {p, q})
        if (each.grad_req() != GradReq::null) backward(each);
      trainer->step(1);
    };
    for (int i = 0; i < 2; ++i) step();
    p.set_grad_req(GradReq::null);
    step();
    if (anew) {
      auto next = std::make_unique<nn::Trainer>(made());
      next->set_states(trainer->states());
      trainer = std::move(next);
    }
    for (const DType d : {f64, f32}) {
      p.cast(d);
      step();
      made().set_states(trainer->states());
    }
    const double before = values(p.data())[0];
    p.set_grad_req(GradReq::write);
    step();
    EXPECT_NEAR(before - values(p.data())[0], .1, 1e-6) << type;  // as the first
  }
}

}  // namespace
}  // namespace locus::test
