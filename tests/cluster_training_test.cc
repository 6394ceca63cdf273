// Ranks that train together. Tests that are DISABLED end the program, or are halves of one test.
#include <csignal>
#include <filesystem>
#include <iostream>
#include <thread>

#include "tests/ranks.h"

namespace locus::test::ranks {
namespace {

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

// Each over its own contexts, of which not all ranks have as many.
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
  const char* const type = "dist_device_sync";
  for (const bool update : {false, true})
    expect_close(Training({f64}, {cpu(0), cpu(1)},
                          {.kvstore = kvstore::create(type), .update_on_kvstore = update})
                     .run(kSteps),
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
  const char* const folder = std::getenv("LOCUS_TEST_FOLDER");
  ASSERT_NE(folder, nullptr) << "LOCUS_TEST_FOLDER: a name that all ranks have";
  checkpoint::save(text_of(folder, "_first"), {net, trainer});
  trainer.step(1);
  const Tensor w = net.parameter("weight").data(), least = w.copyto(cpu());
  cluster::all_reduce({least}, ReduceOp::min);
  EXPECT_EQ(values(w), values(least));
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

TEST_F(ClusterRanks, ABadBatchSizeOfOneIsAnErrorOfAll) {
  nn::Parameter x("x", {2}, {.init = init::Zero()});
  x.initialize();
  nn::Trainer trainer({{"x", x}}, optim::SGD({.learning_rate = 1}));
  const int64_t mine = cluster::rank() == 1 ? 0 : 1;
  for (const bool clip : {false, true}) {
    {
      const autograd::Record record;
      x.data().sum().backward();
    }
    EXPECT_THAT(message_of<ValueError>([&] {
                  clip ? static_cast<void>(trainer.clip_global_norm(1, mine)) : trainer.step(mine);
                }),
                HasSubstr("batch_size 0"));
    EXPECT_EQ(values(x.data()), std::vector<double>(2, 0));
  }
}

// Gradients of one parameter are never added to those of another that is like it.
TEST_F(ClusterRanks, WhoHaveGradientsOfOtherParametersAllThrow) {
  const auto store = [] { return kvstore::create("dist_device_sync"); };
  for (const int how : {0, 1, 2}) {
    nn::Parameter a("a", {2}, {.init = init::Zero()}), b("b", {2}, {.init = init::Zero()});
    for (const nn::Parameter* p : {&a, &b}) p->initialize();
    nn::TrainerOptions options;
    if (how > 0) options = {.kvstore = store(), .update_on_kvstore = how == 1};
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

// Halves: LOCUS_TEST_FOLDER is where the first leaves what the second goes on from.
TEST_F(ClusterRanks, DISABLED_SaveHalfWay) {
  Training training({f64}, cpu());
  training.run(kSteps / 2 + 3);
  const std::string path = checkpoint::save(std::getenv("LOCUS_TEST_FOLDER"), training.parts());
  EXPECT_TRUE(std::filesystem::exists(path)) << path;
}
TEST_F(ClusterRanks, DISABLED_GoOnFromHalfWay) {
  Training training({f64}, cpu());
  ASSERT_TRUE(checkpoint::load(std::getenv("LOCUS_TEST_FOLDER"), training.parts()));
  expect_close(training.run(kSteps), one_process[{f64}], tolerance(f64));
}

TEST_F(ClusterRanks, WhatOneCannotPutInPlaceIsAnErrorOfAll) {
  const char* const folder = std::getenv("LOCUS_TEST_FOLDER");
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

// Ends of one rank; the others train on.
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
}

}  // namespace
}  // namespace locus::test::ranks
