// A Trainer that sums gradients with a KVStore, and a KVStore that updates without a Trainer.
#include <locus/core/autograd.h>
#include <locus/nn/kvstore.h>

#include <locus/nn/checkpoint.h>
#include <locus/nn/train_step.h>
#include "tests/support/folder.h"
#include "tests/train/sharded.h"

namespace locus::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Values = std::vector<double>;

nn::TrainerOptions through(const char* type) { return {.kvstore = kvstore::create(type)}; }
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

TEST(TrainerKVStore, SumsThroughTheStoreAndUpdatesHere) {
  for (const auto& pair : pairs())
    for (const char* type : {"local", "device", "nccl", "dist_sync"}) {
      SCOPED_TRACE(type);
      const nn::Parameter x = two("x", pair);
      const optim::SGD sgd({.learning_rate = 1, .momentum = .5});
      nn::Trainer trainer({{"x", x}}, sgd, through(type));
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
    x.cast(f64);  // with new states
    step();
    EXPECT_EQ(values(x.data()), Values(10, 93.5));
  }
}

// They would share one value of the store.
TEST(TrainerKVStore, TwoParametersOfOneNameAreRefused) {
  const nn::Parameter a = two("a"), b = two("b");
  const optim::SGD sgd({.learning_rate = 1});
  EXPECT_THAT(message_of<Error>([&] {
                nn::Trainer({{"x", a}, {"x", b}}, sgd, through("local"));
              }),
              HasSubstr("two parameters have one name, among x, x"));
  nn::Trainer({{"x", a}, {"y", a}}, sgd, through("local"));  // a shared parameter
  nn::Trainer({{"x", a}, {"x", b}}, sgd);
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

TEST(TrainerKVStore, ACheckpointContinues) {
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

TEST(TrainerKVStore, TrainsToWhatItDoesWithoutAStore) {
  for (const Group& g : sharding_groups())
    for (const optim::Optimizer& o : optimizers())
      for (const char* type : {"local", "device", "nccl"}) {
        SCOPED_TRACE(to_string(g) + " " + o.name() + " " + type);
        const Outcome expected = Training(g.contexts(), {}, o, f64).run(3).outcome();
        const Outcome got = Training(g.contexts(), through(type), o, f64).run(3).outcome();
        expect_close(got.parameters, expected.parameters, 1e-12);
        if (is_host(g[0]) && type != std::string("local")) {
          EXPECT_EQ(got, expected);
        }
      }
}

TEST(TrainerKVStore, AStoreThatUpdatesIsRefusedBeforeAnythingChanges) {
  const nn::Parameter a = two("a");
  const nn::TrainerOptions options = through("device");
  nn::Trainer trainer({{"a", a}}, optim::SGD({.learning_rate = 1}), options);
  const auto refused = [&](const char* by) {
    backward(a);
    EXPECT_THAT(message_of<Error>([&] { trainer.step(1); }),
                HasSubstr(text_of("its kvstore updates values by an ", by)));
    EXPECT_EQ(values(a.data(cpu(1))), Values(10, 0));
  };
  options.kvstore->set_optimizer(optim::SGD({.learning_rate = 100}));
  refused("optimizer");
  options.kvstore->set_updater([](const kvstore::Key&, const Tensor&, Tensor& s) { s += 100; });
  refused("updater");
  options.kvstore->set_updater({});
  trainer.step(1);
  EXPECT_EQ(values(a.data(cpu(1))), Values(10, -2));
}

TEST(TrainerKVStore, SaysWhatDoesNotGoTogether) {
  const auto refused = [](const nn::TrainerOptions& o, const char* text) {
    EXPECT_THAT(message_of<ValueError>([&] { nn::Trainer({}, optim::SGD(), o); }), HasSubstr(text));
  };
  for (const auto& store : {std::shared_ptr<kvstore::KVStore>(), kvstore::create("device")}) {
    refused({.kvstore = store, .update_on_kvstore = true}, "KVStore::set_optimizer()");
    refused({.kvstore = store, .update_on_kvstore = true}, "KVStore::pushpull()");
  }
  refused({.overlap = true, .kvstore = kvstore::create("device")}, "kvstore with overlap");
  refused({.zero = 1, .kvstore = kvstore::create("device")}, "kvstore with zero");
}

TEST(TrainerKVStore, IsNotCompiled) {
  const nn::Parameter x = two("x");
  nn::Trainer trainer({{"x", x}}, optim::SGD({.learning_rate = 1}), through("device"));
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

// Replaces a trainer that updates on its store.
TEST(KVStoreWithoutATrainer, UpdatesTheReplicasOfANetworkAsATrainerDoes) {
  for (const auto& pair : pairs())
    for (const optim::Optimizer& o : optimizers())
      for (const char* type : {"local", "device", "nccl", "dist_sync"}) {
        SCOPED_TRACE(text_of(pair[0], " ", o.name(), " ", type));
        const Outcome expected = Training(pair, {}, o, f64).run(3).outcome();
        Training t(pair, {}, o, f64);
        const auto kv = kvstore::create(type);
        kv->set_optimizer(std::make_shared<optim::Optimizer>(o), 1. / 12);
        for (const auto& [name, p] : t.net.parameters()) kv->init(name, p.list_data()[0]);
        for (int i = 0; i < 3; ++i) {
          t.backward();
          for (const auto& [name, p] : t.net.parameters())
            kv->pushpull(name, p.list_grad(), p.list_data());
        }
        expect_close(t.outcome().parameters, expected.parameters, 1e-12);
      }
}

}  // namespace
}  // namespace locus::test
