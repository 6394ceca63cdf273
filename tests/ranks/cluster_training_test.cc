// Ranks that train together. DISABLED tests end the program or are halves of one test.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <iostream>
#include <thread>

#include <locus/core/amp.h>
#include <locus/core/autograd.h>
#include <locus/core/cluster.h>
#include <locus/core/generator.h>
#include <locus/core/io.h>
#include <locus/nn/kvstore.h>
#include <locus/nn/layers.h>
#include <locus/nn/sync_norm.h>
#include <locus/nn/train_step.h>
#include <locus/ops/reduce.h>
#include "tests/ranks/ranks.h"
#include "tests/support/folder.h"

namespace locus::test::ranks {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST_F(ClusterRanks, GiveTheParametersOfOneProcess) {
  for (const auto& [how, expected] : one_process)
    for (const Contexts& where : places()) {
      SCOPED_TRACE(text_of(where.list()[0], " of ", where.size()));
      expect_close(Training(how, where).run(kSteps), expected, tolerance(how.dtype));
    }
}

TEST_F(ClusterRanks, GiveThemWithCompiledStepsToo) {
  expect_close(Training({f64, 0, true}, cpu()).run(kSteps), one_process[{f64}], 1e-12);
}

// Ranks have different numbers of contexts.
TEST_F(ClusterRanks, GiveThemWithShardedStatesToo) {
  std::vector<Contexts> all = places();
  std::vector<Context> own;
  for (int i = 0; i <= cluster::rank() % 2; ++i) own.push_back(cpu(i));
  all.emplace_back(own);
  for (const auto& [how, expected] : one_process)
    for (const Contexts& where : all) {
      const int zero = how.dtype == f32 ? 1 : 2;
      SCOPED_TRACE(text_of(where.list()[0], " of ", where.size(), " zero ", zero));
      expect_close(Training(how, where, {.zero = zero}).run(kSteps), expected,
                   tolerance(how.dtype));
    }
}

TEST_F(ClusterRanks, GiveThemThroughADistStore) {
  const auto store = kvstore::create("dist_device_sync");
  expect_close(Training({f64}, {cpu(0), cpu(1)}, {.kvstore = store}).run(kSteps),
               one_process[{f64}], 1e-12);
  EXPECT_THAT(message_of<ValueError>(
                  [] { Training({f64}, cpu(), {.kvstore = kvstore::create("device")}); }),
              HasSubstr("expected dist_sync or dist_device_sync"));
}

TEST_F(ClusterRanks, GiveTheSameBitsEachTimeAndOnEachRank) {
  const Values once = Training({f32}, cpu()).run(kSteps);
  EXPECT_EQ(Training({f32}, cpu()).run(kSteps), once);
  for (const auto& v : once) {
    const Tensor low = array(v, {cpu(), f64}), high = array(v, {cpu(), f64});
    cluster::all_reduce({low}, ReduceOp::min);
    cluster::all_reduce({high}, ReduceOp::max);
    EXPECT_EQ(values(low), values(high));
  }
  if (cluster::rank() == 0) std::cout << "bits " << hash(once) << std::endl;
}

TEST_F(ClusterRanks, SaveBeforeTheFirstStepAndThenStartEqual) {
  random::seed(7 + static_cast<uint64_t>(cluster::rank()));
  nn::Dense net(2);
  net.initialize(init::Xavier());
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = 0}));
  const auto backward = [&] {
    const autograd::Record record;
    net(ones({1, 3})).sum().backward();
  };
  backward();
  const char* const folder = std::getenv("TEST_FOLDER");
  ASSERT_NE(folder, nullptr) << "TEST_FOLDER: a name that all ranks have";
  checkpoint::save(text_of(folder, "_first"), {net, trainer});
  trainer.step(1);
  const Tensor w = net.parameter("weight").data(), least = w.copyto(cpu());
  cluster::all_reduce({least}, ReduceOp::min);
  EXPECT_EQ(values(w), values(least));
}

TEST_F(ClusterRanks, StartEqualAgainAfterNewValues) {
  random::seed(7 + static_cast<uint64_t>(cluster::rank()));
  nn::Dense net(2, {}, {.in_units = 3});
  net.initialize(init::Xavier());
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = 0}));
  const Folder folder;
  net.save_parameters(folder / "first");
  const auto step = [&] {
    {
      const autograd::Record record;
      net(ones({1, 3})).sum().backward();
    }
    trainer.step(1);
    const Tensor w = net.parameter("weight").data(), least = w.copyto(cpu());
    cluster::all_reduce({least}, ReduceOp::min);
    EXPECT_EQ(values(w), values(least));
    return values(w);
  };
  const auto first = step();
  net.initialize(init::Xavier(), cpu(), {.force_reinit = true});
  EXPECT_NE(step(), first);
  net.parameter("weight").set_data(full({2, 3}, cluster::rank()));
  EXPECT_EQ(step(), std::vector<double>(6, 0));
  if (cluster::rank() == 0) net.load_parameters(folder / "first");
  EXPECT_THAT(message_of<Error>(step),
              AllOf(HasSubstr("calls differ"), HasSubstr("the values of weight")));
  if (cluster::rank() != 0) net.parameter("weight").set_data(ones({2, 3}));
  if (cluster::rank() != 0) net.parameter("bias").set_data(ones({2}));
  EXPECT_EQ(step(), first);
}

TEST_F(ClusterRanks, NameTheParameterThatDiffers) {
  nn::Parameters all;
  for (int i = 0; i < 100; ++i) {
    const std::string name = text_of("layer", i, ".weight");
    all.emplace_back(name, nn::Parameter(name, {1}, {.init = init::Zero()}));
    all.back().second.initialize();
  }
  nn::Trainer trainer(all, optim::SGD({.learning_rate = 1}));
  for (const auto& [name, p] : all) {
    const autograd::Record record;
    if (cluster::rank() != 1 || name != "layer57.weight") p.data().sum().backward();
  }
  EXPECT_THAT(message_of<Error>([&] { trainer.step(1, true); }),
              AllOf(HasSubstr("differ, rank 1 from rank 0, in function or purpose"),
                    HasSubstr("for step(1) of Trainer "),
                    HasSubstr(", SGD, learning rate 1, after 0 updates of 100 parameters: "
                              "the gradients of layer0.weight, layer1.weight, layer2.weight, "
                              "layer3.weight, layer4.weight, ... 95 more ("),
                    HasSubstr("and rank 1 "), HasSubstr("100 parameters, without layer57.weight: "),
                    HasSubstr("expected the same call on every rank")));
}

TEST_F(ClusterRanks, NormsThatTheyRunInAnotherOrderAreAnErrorOfAll) {
  const bool other = cluster::rank() == 1;
  nn::SyncBatchNorm a({.in_channels = 2}), b({.in_channels = 2});
  for (nn::SyncBatchNorm* norm : {&a, &b}) norm->initialize();
  const Tensor x = full({3, 2}, cluster::rank());
  x.attach_grad();
  Tensor of_a, of_b;
  {
    const autograd::Record record;
    EXPECT_THAT(message_of<Error>([&] { (other ? b : a)(x); }),
                AllOf(HasSubstr("calls differ"), HasSubstr("for SyncBatchNorm number ")));
    of_a = a(x).sum(), of_b = b(x).sum();
  }
  EXPECT_THAT(message_of<Error>([&] { (other ? of_b : of_a).backward(); }),
              AllOf(HasSubstr("calls differ"), HasSubstr(", its gradient")));
}

TEST_F(ClusterRanks, RefuseToBeCompiled) {
  nn::Parameter x("x", {2}, {.init = init::Zero()});
  x.initialize();
  nn::Trainer trainer({{"x", x}}, optim::SGD({.learning_rate = 1}));
  nn::TrainStep step(
      [&](const Tensor& t) {
        Tensor l;
        {
          const autograd::Record record;
          l = x.data() * t;
        }
        l.backward();
        trainer.step(1);
        return l;
      },
      trainer);
  EXPECT_THAT(message_of<CaptureError>([&] { step(ones({2})); }),
              HasSubstr("Trainer::allreduce_grads"));
}

TEST_F(ClusterRanks, ABadNumberOfOneIsAnErrorOfAll) {
  nn::Parameter x("x", {2}, {.init = init::Zero()});
  x.initialize();
  nn::Trainer trainer({{"x", x}}, optim::SGD({.learning_rate = 1}));
  amp::LossScaler scaler;
  const bool bad = cluster::rank() == 1;
  const auto backward = [&] {
    const autograd::Record record;
    x.data().sum().backward();
  };
  const auto all_throw = [&](const char* text, const auto& call) {
    backward();
    EXPECT_THAT(message_of<ValueError>(call), HasSubstr(text));
    EXPECT_EQ(values(x.data()), std::vector<double>(2, 0));
  };
  all_throw("batch_size 0", [&] { trainer.step(bad ? 0 : 1); });
  all_throw("batch_size 0", [&] { trainer.clip_global_norm(1, bad ? 0 : 1); });
  all_throw("max_norm -1", [&] { trainer.clip_global_norm(bad ? -1 : 1, 1); });
  all_throw("batch_size 0", [&] { scaler.step(trainer, bad ? 0 : 1); });
  backward();
  trainer.step(1);
  EXPECT_EQ(values(x.data()), std::vector<double>(2, -cluster::size()));
}

// If a step fails while ranks copy their start values, the gradients remain to be summed.
TEST_F(ClusterRanks, AFailureToStartEqualCanBeRetried) {
  nn::Parameter x("x", {2}, {.init = init::Zero()});
  nn::Trainer trainer({{"x", x}}, optim::SGD({.learning_rate = 1}));
  x.initialize(init::Zero(), {cpu(0), cpu(1)});
  for (const Tensor& replica : x.list_data()) {
    const autograd::Record record;
    replica.sum().backward();
  }
  EXPECT_THROW(trainer.step(cluster::rank() == 1 ? 0 : 1), ValueError);
  trainer.step(1);
  EXPECT_EQ(values(x.list_data()[1]), std::vector<double>(2, -2 * cluster::size()));
}

TEST_F(ClusterRanks, ATrainerThatIsMadeNamesTheProgramsLine) {
  nn::Parameter x("x", {cluster::rank() == 1 ? 3 : 2}, {.init = init::Zero()});
  x.initialize();
  EXPECT_THAT(message_of<ShapeError>([&] {
                nn::Trainer({{"x", x}}, optim::SGD());
              }),
              testing::AllOf(HasSubstr(__FILE__), testing::Not(HasSubstr("trainer.cc"))));
}

TEST_F(ClusterRanks, WhatOneFindsWrongInAnUpdateOrANewTrainerAllThrow) {
  const bool other = cluster::rank() == 1;
  nn::Parameter x("x", {2}, {.init = init::Zero()}),
      wide("x", {other ? 3 : 2}, {.init = init::Zero()});
  x.initialize();
  wide.initialize();
  nn::Trainer trainer({{"x", x}}, optim::SGD({.learning_rate = 1}));
  {
    const autograd::Record record;
    x.data().sum().backward();
  }
  trainer.allreduce_grads();
  const auto with_rank = HasSubstr(other ? "" : "rank 1: ");
  EXPECT_THAT(message_of<ValueError>([&] { trainer.update(other ? 0 : 1); }), with_rank);
  EXPECT_THAT(message_of<ValueError>([&] { trainer.update_if_finite(other ? 0 : 1); }), with_rank);
  EXPECT_EQ(values(x.data()), std::vector<double>(2, 0));
  trainer.update(1);
  EXPECT_EQ(values(x.data()), std::vector<double>(2, -cluster::size()));

  const auto store = kvstore::create("dist_sync");
  const auto make = [&](const nn::Parameter& p, int zero) {
    nn::Trainer({{"x", p}}, optim::SGD(), {.zero = zero, .kvstore = store});
  };
  EXPECT_THAT(message_of<ValueError>([&] { make(x, other ? 3 : 0); }), with_rank);
  EXPECT_THROW(make(wide, 0), ShapeError);
  EXPECT_EQ(store->optimizer(), nullptr);
  make(x, 0);
}

// Gradients of one parameter are never added to those of another.
TEST_F(ClusterRanks, WhoHaveGradientsOfOtherParametersAllThrow) {
  const auto store = [] { return kvstore::create("dist_device_sync"); };
  for (const bool how : {false, true}) {
    nn::Parameter a("a", {2}, {.init = init::Zero()}), b("b", {2}, {.init = init::Zero()});
    for (const nn::Parameter* p : {&a, &b}) p->initialize();
    nn::TrainerOptions options;
    if (how) options.kvstore = store();
    nn::Trainer trainer({{"a", a}, {"b", b}}, optim::SGD({.learning_rate = 1}), options);
    const auto step = [&](const std::vector<nn::Parameter>& mine) {
      for (const nn::Parameter& p : mine) {
        const autograd::Record record;
        p.data().sum().backward();
      }
      trainer.step(1, true);
    };
    const bool other = cluster::rank() == 1;
    using All = std::vector<nn::Parameter>;
    step({});
    EXPECT_THAT(message_of<Error>([&] { step(other ? All{} : All{a}); }), HasSubstr("calls differ"))
        << how;
    EXPECT_THAT(message_of<Error>([&] { step(other ? All{b} : All{a}); }),
                HasSubstr("calls differ"))
        << how;
    for (const nn::Parameter& p : {a, b}) EXPECT_EQ(values(p.data())[0], 0) << how;
    step({a, b});
    for (const nn::Parameter& p : {a, b}) EXPECT_EQ(values(p.data())[0], -cluster::size()) << how;
  }
}

// Halves: the first writes to TEST_FOLDER, the second continues from there.
TEST_F(ClusterRanks, DISABLED_SaveHalfWay) {
  Training training({f64}, cpu());
  training.run(kSteps / 2 + 3);
  const std::string path = checkpoint::save(std::getenv("TEST_FOLDER"), training.parts());
  EXPECT_TRUE(std::filesystem::exists(path)) << path;
}
TEST_F(ClusterRanks, DISABLED_GoOnFromHalfWay) {
  Training training({f64}, cpu());
  ASSERT_TRUE(checkpoint::load(std::getenv("TEST_FOLDER"), training.parts()));
  expect_close(training.run(kSteps), one_process[{f64}], tolerance(f64));
}

TEST_F(ClusterRanks, WhatOneCannotPutInPlaceIsAnErrorOfAll) {
  const char* const folder = std::getenv("TEST_FOLDER");
  const std::string here = text_of(folder, "-put");
  bool fails = false;
  const checkpoint::Part part(
      "part",
      [] {
        return NamedTensors{{"x", ones({1})}};
      },
      [&](const NamedTensors&, const std::string&) -> std::function<void()> {
        return [&] {
          if (fails) throw OutOfMemory("no room");
        };
      });
  checkpoint::save(here, {part});
  EXPECT_TRUE(checkpoint::load(here, {part}));
  fails = cluster::rank() == 1;
  EXPECT_THAT(message_of<OutOfMemory>([&] { checkpoint::load(here, {part}); }),
              HasSubstr(fails ? "no room" : "rank 1: no room"));
  cluster::barrier();
}

// Rank 1 ends at the step; the others train on.
void train_until(int step, const std::function<void()>& end) {
  Training training({f64}, cpu());
  for (int s = 1; s < 1000000; ++s) {
    if (s == step && cluster::rank() == 1) end();
    training.run(s);
  }
}
TEST_F(ClusterRanks, DISABLED_OneIsKilled) {
  train_until(20, [] { std::raise(SIGKILL); });
}
TEST_F(ClusterRanks, DISABLED_OneThrows) {
  train_until(20, [] { throw ValueError("what rank 1 threw"); });
}
TEST_F(ClusterRanks, DISABLED_AChildThrows) {
  if (cluster::rank() == 1) {
    const pid_t child = fork();
    if (child == 0) std::terminate();
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
  }
  cluster::barrier();
}
TEST_F(ClusterRanks, DISABLED_OneExits) {
  train_until(20, [] { std::exit(3); });
}
TEST_F(ClusterRanks, DISABLED_OneLeavesEarly) {
  train_until(20, [] { std::exit(0); });
}
TEST_F(ClusterRanks, DISABLED_OneHangs) {  // rank 0 in another run
  const auto hangs = cluster::size() == 2 ? 0 : 1;
  if (cluster::rank() == hangs) std::this_thread::sleep_for(std::chrono::seconds(15));
  EXPECT_THAT(message_of<DeviceError>([] { cluster::barrier(); }),
              HasSubstr("rank " + std::to_string(hangs) + " did not"));
  EXPECT_THAT(message_of<DeviceError>([] { cluster::all_reduce({ones({2})}); }),
              HasSubstr("has failed before"));
  EXPECT_THAT(message_of<DeviceError>([] { cluster::all_reduce({Tensor()}); }),
              HasSubstr("has failed before"));
}

}  // namespace
}  // namespace locus::test::ranks
