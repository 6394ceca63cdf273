// What ranks must agree on besides their calls, and errors of one rank before a collective.
#include <optional>

#include <locus/core/autograd.h>
#include <locus/devices/pool.h>
#include <locus/ops/sync_norm.h>

#include <locus/core/amp.h>
#include <locus/core/cluster.h>
#include <locus/nn/kvstore.h>
#include <locus/nn/sync_norm.h>
#include <locus/ops/reduce.h>
#include "tests/ranks/ranks.h"
#include "tests/replay/captures.h"

namespace locus::test::ranks {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// One parameter, whose gradient is 1 on each rank.
struct One {
  nn::Parameter x{"x", {2}, {.init = init::Zero()}};
  std::unique_ptr<nn::Trainer> trainer;
  explicit One(double learning_rate = 1) {
    x.initialize();
    trainer = std::make_unique<nn::Trainer>(nn::Parameters{{"x", x}},
                                            optim::SGD({.learning_rate = learning_rate}));
  }
  void backward() const {
    const autograd::Record record;
    x.data().sum().backward();
  }
  double value() const { return values(x.data())[0]; }
};

bool other() { return cluster::rank() == 1; }

TEST_F(ClusterRanks, WhoseStepsAreByOtherNumbersAllThrow) {
  One one;
  nn::Trainer& t = *one.trainer;
  amp::LossScaler scaler({.init_scale = other() ? 4. : 2.});
  const auto all_throw = [&](const char* text, const auto& call) {
    one.backward();
    EXPECT_THAT(message_of<Error>(call), AllOf(HasSubstr("calls differ"), HasSubstr(text)));
    EXPECT_EQ(one.value(), 0);
  };
  const int64_t batch = other() ? 8 : 10;
  all_throw("for step(8) of Trainer ", [&] { t.step(batch); });
  all_throw("for clip_global_norm(1, 8, 1) of Trainer ", [&] { t.clip_global_norm(1, batch); });
  all_throw("for clip_global_norm(3, 1, 1)", [&] { t.clip_global_norm(other() ? 3 : 2, 1); });
  all_throw("for update_if_finite(1, 4) of Trainer ", [&] { scaler.step(t, 1); });
  all_throw("for update(8, 1) of Trainer ", [&] {
    t.allreduce_grads();
    t.update(batch);
  });
  all_throw("for update_if_finite(8, 1) of Trainer ", [&] {
    t.allreduce_grads();
    t.update_if_finite(batch);
  });
  all_throw("learning rate 0.5", [&] {
    if (other()) t.set_learning_rate(.5);
    t.step(1);
  });
  t.set_learning_rate(1);
  one.backward();
  t.step(1);
  EXPECT_EQ(one.value(), -cluster::size());
}

TEST_F(ClusterRanks, WhatOneWritesInPlaceIsNotNoticed) {
  One one;
  const double written = other() ? 1 : 0;
  one.x.data() += written;
  for (int step = 1; step <= 2; ++step) {
    one.backward();
    one.trainer->step(1);
    EXPECT_EQ(one.value(), written - step * cluster::size());
  }
  one.x.set_data(zeros({2}));  // on all ranks: rank 0's values are copied
  one.backward();
  one.trainer->step(1);
  EXPECT_EQ(one.value(), -cluster::size());
}

TEST_F(ClusterRanks, OtherOptionsOfTheOptimizerAreNotCompared) {
  nn::Parameter x("x", {2}, {.init = init::Zero()});
  x.initialize();
  nn::Trainer trainer({{"x", x}}, optim::SGD({.learning_rate = 1, .wd = other() ? .5 : 0}));
  for (int step = 0; step < 2; ++step) {
    {
      const autograd::Record record;
      x.data().sum().backward();
    }
    trainer.step(1);
  }
  const double n = cluster::size();
  EXPECT_EQ(values(x.data())[0], other() ? -n - (n - .5 * n) : -2 * n);
}

TEST_F(ClusterRanks, TrainersThatAreAlikeAreSteppedInOneOrder) {
  One a, b;
  for (const One* const one : {&a, &b}) one->backward();
  One &first = other() ? b : a, &second = other() ? a : b;
  EXPECT_THAT(message_of<Error>([&] { first.trainer->step(1); }), HasSubstr("calls differ"));
  EXPECT_THAT(message_of<Error>([&] { second.trainer->allreduce_grads(); }),
              HasSubstr("calls differ"));
  for (const One* const one : {&a, &b}) {
    one->trainer->step(1);
    EXPECT_EQ(one->value(), -cluster::size());
  }
}

TEST_F(ClusterRanks, StoresAreSetAlikeAndPushedToInOneOrder) {
  const auto a = kvstore::create("dist_sync"), b = kvstore::create("dist_sync");
  const Tensor one = ones({2});
  for (const auto& store : {a, b}) store->init("x", one);
  EXPECT_THAT(message_of<Error>([&] { (other() ? b : a)->push("x", one); }),
              HasSubstr("calls differ"));
  if (other()) a->set_optimizer(std::make_shared<optim::SGD>());
  EXPECT_THAT(message_of<Error>([&] { a->push("x", one); }), HasSubstr("calls differ"));
}

TEST_F(ClusterRanks, AnUpdateThatFailedOnOneIsFoundByTheNextStep) {
  One one;
  bool fails = other(), compared = false;
  one.trainer->set_schedule([&](int64_t) {
    if (fails && std::exchange(compared, true)) throw OutOfMemory("no room");
    return 1.;
  });
  one.backward();
  if (other())
    EXPECT_THROW(one.trainer->step(1), OutOfMemory);
  else
    one.trainer->step(1);
  fails = false;
  const double before = one.value();
  one.backward();
  EXPECT_THAT(message_of<Error>([&] { one.trainer->step(1); }),
              AllOf(HasSubstr("after 1 updates of 1 parameters"), HasSubstr("after 0 updates")));
  EXPECT_EQ(one.value(), before);
}

TEST_F(ClusterRanks, ATrainStepMadeBeforeTheyJoinedTrains) {
  early->net.initialize(init::One());
  early->step(ones({3, 2}), zeros({3, 1}));
  EXPECT_EQ(early->trainer.num_update(), 1);
  const Tensor w = early->net.parameter("weight").data(), least = w.copyto(cpu());
  EXPECT_NE(values(w)[0], 1);
  cluster::all_reduce({least}, ReduceOp::min);
  EXPECT_EQ(values(w), values(least));
}

TEST_F(ClusterRanks, ATrainerMadeBeforeTheyJoinedSumsOverThemToo) {
  backward(early->beside);
  early->overlaps->step(1);
  for (const Tensor& t : early->beside.list_data())
    EXPECT_EQ(values(t), std::vector<double>(2, -2 * cluster::size()));
  backward(early->kept);
  EXPECT_THAT(message_of<ValueError>([] { early->stores->step(1); }),
              HasSubstr("a kvstore 'device' of one process, among"));
}

TEST_F(ClusterRanks, WhatOneFindsWrongInItsPartOfANormAllThrow) {
  const auto said = [](const char* text) {
    return AllOf(HasSubstr(other() ? "" : "rank 1: "), HasSubstr(text));
  };
  const Tensor x = full({3, 2}, cluster::rank()), two = ones({2});
  const autograd::Record record;
  const Tensor mean = other() ? zeros({3}) : zeros({2}), var = ones({2});
  EXPECT_THAT(message_of<ShapeError>([&] { sync_batch_norm({x}, {two}, {two}, {mean}, {var}); }),
              said("running_mean"));
  nn::SyncBatchNorm norm({.in_channels = 2});
  norm.initialize(init::One(), {cpu(0), cpu(1)});
  const Tensor none = zeros({0, 2});
  const auto part = [&](int i) { return (other() ? none : x).as_in_context(cpu(i)); };
  EXPECT_THAT(message_of<ShapeError>([&] {
                norm.on_replicas({part(0), part(1)});
              }),
              said("no elements"));
  nn::SyncBatchNorm here({.in_channels = 2});
  here.initialize();
  EXPECT_THAT(message_of<ShapeError>([&] { here(other() ? ones({3, 5}) : x); }), said("(3,5)"));
  EXPECT_EQ(here(x).shape(), x.shape());
}

// Sums of f16 need f32 memory, which rank 1 lacks.
TEST_F(ClusterRanks, OneWithoutMemoryForACollectiveIsAnErrorOfAll) {
  const Tensor x = ones({1 << 24}, f16);
  MemoryPool& pool = memory_pool(cpu());
  if (other()) pool.set_limit(pool.stats().in_use + (size_t{1} << 25));
  const std::string text = message_of<OutOfMemory>([&] { cluster::all_reduce({x}); });
  pool.set_limit(0);
  EXPECT_THAT(text, AllOf(HasSubstr(other() ? "" : "rank 1: "), HasSubstr("64 MiB requested")));
  EXPECT_EQ(x(Slice(0, 1)).item<float>(), 1);
  cluster::all_reduce({x});
  EXPECT_EQ(x(Slice(0, 1)).item<float>(), cluster::size());
}

TEST_F(ClusterRanks, OneThatHasNoMemoryToGiveAStoreIsAnErrorOfAll) {
  LOCUS_NEEDS_POOL();
  nn::Parameter x("x", {1 << 23}, {.init = init::Zero()});
  x.initialize();
  nn::Trainer trainer({{"x", x}}, optim::SGD({.learning_rate = 1}),
                      {.kvstore = kvstore::create("dist_device_sync")});
  backward(x);
  trainer.step(1);
  backward(x);
  x.data()(Slice()) = 1;  // the store must get this value
  {
    std::optional<Shortage> shortage;
    if (other()) shortage.emplace(cpu(), size_t{1} << 20);
    EXPECT_THAT(message_of<OutOfMemory>([&] { trainer.step(1); }),
                AllOf(HasSubstr(other() ? "" : "rank 1: "), HasSubstr("32 MiB requested")));
  }
  trainer.step(1);
  EXPECT_EQ(x.data()(Slice(0, 1)).item<float>(), 1 - cluster::size());
}

TEST_F(ClusterRanks, OverlapDoesNothing) {
  nn::Parameter x("x", {2}, {.init = init::Zero()});
  x.initialize(init::Zero(), {cpu(0), cpu(1)});
  x.set_grad_req(GradReq::add);
  nn::Trainer trainer({{"x", x}}, optim::SGD({.learning_rate = 1}), {.overlap = true});
  for (int i = 0; i < 2; ++i) backward(x);
  trainer.step(1);
  EXPECT_EQ(values(x.list_data()[1]), std::vector<double>(2, -4 * cluster::size()));
}

TEST_F(ClusterRanks, WhoDoesNotMakeTheTrainerIsFoundAtTheProgramsLine) {
  nn::Parameter x("x", {2}, {.init = init::Zero()});
  x.initialize();
  EXPECT_THAT(message_of<Error>([&] {
                if (other())
                  cluster::barrier();
                else
                  nn::Trainer({{"x", x}}, optim::SGD());
              }),
              AllOf(HasSubstr("calls differ"), HasSubstr("rank 0 called together"),
                    HasSubstr("rank 1 barrier"), HasSubstr(__FILE__),
                    testing::Not(HasSubstr("trainer.cc"))));
}

// If a gradient is infinite on one rank, so is the sum.
TEST_F(ClusterRanks, ALossScalerSkipsOnAllWhatIsInfiniteOnOne) {
  One one;
  amp::LossScaler scaler({.init_scale = 4});
  const auto step = [&](double factor) {
    {
      const autograd::Record record;
      scaler.scale((one.x.data() * factor).sum()).backward();
    }
    const bool updated = scaler.step(*one.trainer, 1);
    scaler.update();
    return updated;
  };
  EXPECT_TRUE(step(1));
  const double before = one.value();
  EXPECT_EQ(before, -cluster::size());
  EXPECT_FALSE(step(other() ? INFINITY : 1));
  EXPECT_EQ(one.value(), before);
  EXPECT_EQ(scaler.loss_scale(), 2);
  EXPECT_EQ(one.trainer->num_update(), 1);
  EXPECT_TRUE(step(1));
  EXPECT_EQ(one.value(), 2 * before);
}

}  // namespace
}  // namespace locus::test::ranks
