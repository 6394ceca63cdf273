// Steps of replicas that come again: replayed, they are what they were.
#include <locus/nn/step_records.h>

#include <atomic>
#include <functional>
#include <optional>
#include <utility>

#include "tests/groups.h"
#include "tests/training.h"

namespace locus::test {
namespace {

using nn::StepRecords;
using testing::HasSubstr;
using Values = std::vector<double>;

StepRecords::Key key(double rescale = 1) { return {rescale, {true}, false}; }

TEST(StepRecords, OneThatCameOftenIsRecordedAndReplayed) {
  StepRecords records;
  Tensor x = zeros({2});
  int runs = 0;
  const StepRecords::Work work{
      .step = [&] { ++runs, x += 1; }, .left = {}, .counted = {}, .undo = {}};
  for (int i = 1; i <= StepRecords::kBefore + 5; ++i) {
    records.run(key(), work, Caller::here());
    EXPECT_EQ(values(x), Values(2, i));
  }
  EXPECT_EQ(runs, StepRecords::kBefore + 1);
  records.run(key(.5), work, Caller::here());
  EXPECT_EQ(runs, StepRecords::kBefore + 2) << "another one is not that";
  records.run(key(), work, Caller::here());
  EXPECT_EQ(runs, StepRecords::kBefore + 2) << "which is still there";
}

TEST(StepRecords, OneThatCannotBeRecordedIsDoneOnce) {
  StepRecords records;
  Tensor x = zeros({2});
  int step = 0, done = 0;
  const StepRecords::Work work{.step =
                                   [&] {
                                     x += 1;
                                     x.to_vector<float>();
                                     done = step;
                                   },
                               .left = [&] { return done < step; },
                               .counted = {},
                               .undo = {}};
  for (step = 1; step <= StepRecords::kBefore + 3; ++step) records.run(key(), work, Caller::here());
  // The one that was to be recorded had run up to where it reads.
  EXPECT_EQ(values(x), Values(2, StepRecords::kBefore + 4));
}

// A network on some contexts, and what a test has of it.
struct Net {
  explicit Net(const std::vector<Context>& contexts,
               std::shared_ptr<optim::Optimizer> optimizer = std::make_shared<optim::SGD>(
                   optim::SGDOptions{.learning_rate = .1, .momentum = .9}))
      : where(contexts) {
    random::seed(4);
    net.add(nn::Dense(6, nn::relu, {.in_units = 5}), nn::Dense(3, {}, {.in_units = 6}));
    net.initialize(init::Xavier(), where);
    trainer.emplace(net.parameters(), std::move(optimizer));
  }
  void backward(int64_t samples) {
    const Tensors x = split_and_load(random::uniform(-1, 1, {samples, 5}), where,
                                     {.even_split = false}),
                  y = split_and_load(random::randint(0, 3, {samples}), where,
                                     {.even_split = false});
    parallel(where, [&](int k) {
      const auto i = static_cast<size_t>(k);
      Tensor l;
      {
        const autograd::Record record;
        l = loss(net(x[i]), y[i]);
      }
      l.backward();
    });
  }
  void step(int64_t samples = 8) {
    backward(samples);
    trainer->step(samples);
  }
  // All replicas', which are equal.
  Values parameters() const {
    Values all;
    for (const auto& [name, p] : net.parameters()) {
      const Tensors replicas = p.list_data();
      const Values first = values(replicas[0]);
      for (const Tensor& t : replicas) EXPECT_EQ(values(t), first) << name << t.context();
      all.insert(all.end(), first.begin(), first.end());
    }
    return all;
  }
  nn::Parameter first() const { return net.parameters()[0].second; }

  std::vector<Context> where;
  nn::Sequential net;
  nn::SoftmaxCrossEntropyLoss loss;
  std::optional<nn::Trainer> trainer;
};

// That `program` leaves the same with replays and without: whoever listens hears of each call.
void expect_same(const std::function<Values()>& program, const std::string& what) {
  const Values replayed = program();
  const TransferLog as_they_are;
  EXPECT_EQ(replayed, program()) << what;
}

// A Trainer's, on emulated GPUs, too.
struct TrainerReplays : testing::Test {
  TrainerReplays() { StepRecords::anywhere = true; }
  ~TrainerReplays() override { StepRecords::anywhere = false; }
};

TEST_F(TrainerReplays, TrainingIsBitForBitWhatItIsAsItRuns) {
  LOCUS_NEEDS_ANY_GPUS(2);
  for (const std::string name : {"sgd", "nag", "adam", "adamw", "rmsprop", "lamb", "lars", "ftrl"})
    for (int n = 2; n <= std::min(num_gpus(), 3); ++n)
      expect_same(
          [&] {
            Net net(gpus(n), optim::create(name));
            // The last batch of an epoch is smaller.
            for (int i = 0; i < 36; ++i) net.step(i % 4 == 3 ? 3 : 8);
            return net.parameters();
          },
          name);
}

TEST_F(TrainerReplays, OneThatCameOftenIsRecorded) {
  LOCUS_NEEDS_ANY_GPUS(2);
  static int recorded;
  struct Own final : optim::Optimizer {
    Own() : Optimizer("Own", {}) {
      use<SGDUpdate>(sgd_update, [](auto&, int64_t) { recorded += capture::active() ? 1 : 0; });
    }
  };
  recorded = 0;
  Net net(gpus(2), std::make_shared<Own>());
  for (int i = 0; i < StepRecords::kBefore; ++i) net.step();
  EXPECT_EQ(recorded, 0);
  net.step();
  const int once = recorded;
  EXPECT_GE(once, 2) << "of each GPU";
  for (int i = 0; i < 5; ++i) net.step();
  EXPECT_EQ(recorded, once);
}

TEST_F(TrainerReplays, WhatChangesInBetweenIsGoneBy) {
  LOCUS_NEEDS_ANY_GPUS(2);
  const std::vector<std::pair<std::string, std::function<void(Net&)>>> changes{
      {"a multiplier", [](Net& n) { n.first().set_lr_mult(.25); }},
      {"a learning rate", [](Net& n) { n.trainer->set_learning_rate(.03); }},
      {"values", [](Net& n) { n.first().set_data(ones(n.first().shape())); }},
      {"no gradient", [](Net& n) { n.first().set_grad_req(GradReq::null); }},
      {"gradients that add",
       [](Net& n) {
         for (const auto& [name, p] : n.net.parameters()) p.set_grad_req(GradReq::add);
       }},
      {"a gradient's place",
       [](Net& n) {
         for (const Tensor& t : n.first().list_data()) t.attach_grad(zeros(t.shape(), t.context()));
       }},
      {"contexts",
       [](Net& n) {
         n.net.reset_ctx(n.where = {gpu(1), gpu(0)});
       }},
      {"the states",
       [](Net& n) {
         NamedTensors states = n.trainer->states();
         for (auto& [name, t] : states) t = t.copyto(cpu());
         n.step();
         n.trainer->set_states(states);
       }},
      {"sums by themselves",
       [](Net& n) {
         n.backward(8);
         n.trainer->allreduce_grads();
         n.trainer->step(8);
       }},
      {"clipped ones",
       [](Net& n) {
         n.backward(8);
         n.trainer->clip_global_norm(.01, 8);
         n.trainer->step(8);
       }},
      {"a step that leaves some out",
       [](Net& n) {
         n.backward(8);
         for (const Tensor& t : n.first().list_data()) autograd::mark_used(t);
         n.trainer->step(8, true);
       }},
      {"a trainer that moved", [](Net& n) { n.trainer = nn::Trainer(std::move(*n.trainer)); }},
  };
  for (const auto& [what, change] : changes)
    expect_same(
        [&] {
          Net net(gpus(2));
          for (int i = 0; i < 14; ++i) net.step();
          for (int round = 0; round < 3; ++round) {
            change(net);
            for (int i = 0; i < 12; ++i) net.step();
          }
          return net.parameters();
        },
        what);
}

TEST_F(TrainerReplays, AScheduleIsAskedAsOftenAndMayFail) {
  LOCUS_NEEDS_ANY_GPUS(2);
  expect_same(
      [] {
        Net net(gpus(2));
        std::vector<int64_t> asked;
        bool fails = false;
        const Tensor factor = ones({1}, gpu(0));
        net.trainer->set_schedule([&](int64_t n) {
          if (fails) throw ValueError("no rate");
          asked.push_back(n);
          return .1 / static_cast<double>(n) * factor.item<double>();
        });
        for (int i = 0; i < 20; ++i) {
          net.backward(8);
          if ((fails = i % 5 == 3)) {
            EXPECT_THROW(net.trainer->step(8), ValueError);
          }
          fails = false;
          net.trainer->step(8);
        }
        std::vector<int64_t> twice;
        for (int64_t n = 1; n <= 20; ++n) twice.insert(twice.end(), 2, n);
        EXPECT_EQ(asked, twice);
        EXPECT_EQ(net.trainer->num_update(), 20);
        return net.parameters();
      },
      "a schedule");
}

// SGD that fails at will when all rates of a replay have been asked for.
struct Failing final : optim::Optimizer {
  Failing() : Optimizer("Failing", {.learning_rate = .1}) {
    use<SGDUpdate>(sgd_update, [](auto&, int64_t) {
      if (on_last && --left == 0) on_last();
    });
  }
  static inline std::function<void()> on_last;
  static inline int left = 0;
};

// As where a GPU fails when others have begun, by whatever error: what these did is undone, and the
// step can be made anew.
TEST_F(TrainerReplays, AReplayThatFailsHalfwayLeavesTheParametersAsTheyWere) {
  LOCUS_NEEDS_ANY_GPUS(2);
  for (const bool memory : {false, true}) {
    Net net(gpus(2), std::make_shared<Failing>());
    for (int i = 0; i < 14; ++i) net.step();
    const Values before = net.parameters();
    net.backward(8);
    Failing::left = 2;
    Failing::on_last = [&] {
      Tensor begun = net.first().data(gpu(0));
      begun *= 3;
      if (memory) throw OutOfMemory("no room to launch");
      throw DeviceError("no room to launch");
    };
    EXPECT_THAT(message_of<Error>([&] { net.trainer->step(8); }), HasSubstr("no room"));
    Failing::on_last = nullptr;
    EXPECT_EQ(net.parameters(), before);
    EXPECT_EQ(net.trainer->num_update(), 14);
    EXPECT_THAT(message_of<Error>([&] { net.trainer->step(8); }), HasSubstr("has not been updated"))
        << "its gradients are used";
    for (int i = 0; i < 14; ++i) net.step();
    EXPECT_NE(net.parameters(), before);
    EXPECT_EQ(net.trainer->num_update(), 28);
  }
}

TEST_F(TrainerReplays, ADeviceErrorOfAScheduleComesBeforeAnythingIsDone) {
  LOCUS_NEEDS_ANY_GPUS(2);
  Net net(gpus(2));
  bool fails = false;
  net.trainer->set_schedule([&](int64_t) {
    if (fails) throw DeviceError("no rate");
    return .1;
  });
  for (int i = 0; i < 14; ++i) net.step();
  net.backward(8);
  fails = true;
  EXPECT_THROW(net.trainer->step(8), DeviceError);
  fails = false;
  net.trainer->step(8);
  EXPECT_EQ(net.trainer->num_update(), 15);
}

// Gradients of a sum that failed are used: nothing is left to be done, and nothing was.
TEST(StepRecords, OneThatFailsWhileItIsRecordedIsNotTakenForDone) {
  StepRecords records;
  bool fails = false;
  const StepRecords::Work work{.step =
                                   [&] {
                                     if (fails) throw OutOfMemory("no room");
                                   },
                               .left = [] { return false; },
                               .counted = [] { return false; },
                               .undo = {}};
  for (int i = 0; i < StepRecords::kBefore; ++i) records.run(key(), work, Caller::here());
  fails = true;
  EXPECT_THROW(records.run(key(), work, Caller::here()), OutOfMemory);
}

TEST_F(TrainerReplays, AnUpdateOfTheProgramsOwnIsCalledEachTime) {
  LOCUS_NEEDS_ANY_GPUS(2);
  struct Counting final : optim::SGD {
    Counting() : SGD({.learning_rate = .1}) {}
    void update(optim::ParameterGroup& group, double rescale) override {
      ++updates;
      SGD::update(group, rescale);
    }
    std::atomic<int> updates{0};
  };
  const auto optimizer = std::make_shared<Counting>();
  Net net(gpus(2), optimizer);
  for (int i = 0; i < 15; ++i) net.step();
  EXPECT_EQ(optimizer->updates, 30);
}

TEST_F(TrainerReplays, AnOptimizerThatWasAssignedIsGoneBy) {
  LOCUS_NEEDS_ANY_GPUS(2);
  expect_same(
      [] {
        const auto optimizer = std::make_shared<optim::SGD>(optim::SGDOptions{.learning_rate = .1});
        Net net(gpus(2), optimizer);
        for (int i = 0; i < 14; ++i) net.step();
        *optimizer = optim::SGD({.learning_rate = .1, .wd = .2, .clip_gradient = .01});
        for (int i = 0; i < 14; ++i) net.step();
        return net.parameters();
      },
      "another one");
}

TEST_F(TrainerReplays, ACopyOfATrainerHasItsOwn) {
  LOCUS_NEEDS_ANY_GPUS(2);
  expect_same(
      [] {
        Net net(gpus(2));
        for (int i = 0; i < 14; ++i) net.step();
        nn::Trainer copy = *net.trainer;
        net.backward(8);
        for (const Tensor& t : net.first().list_data()) autograd::mark_used(t);
        copy.step(8, true);
        for (int i = 0; i < 24; ++i) {
          net.backward(8);
          (i % 2 == 0 ? *net.trainer : copy).step(8);
        }
        Values all = net.parameters();
        for (const nn::Trainer* const t : {&*net.trainer, &copy})
          all.push_back(static_cast<double>(t->num_update()));
        return all;
      },
      "a copy");
}

TEST_F(TrainerReplays, WhatWasRecordedOfOldWeightsIsRefused) {
  LOCUS_NEEDS_ANY_GPUS(2);
  Net net(gpus(2));
  for (int i = 0; i < 14; ++i) net.step();
  Tensor l;
  {
    const autograd::Record record;
    l = net.net(ones({1, 5}, gpu(0)));
  }
  net.step();
  EXPECT_THAT(message_of<Error>([&] { l.backward(); }), HasSubstr("in place"));
}

}  // namespace
}  // namespace locus::test
