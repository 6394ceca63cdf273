// What update() does without a sum, what a step refuses, and what a Trainer's states leave out.
#include <locus/core/capture.h>
#include <locus/core/generator.h>
#include <locus/core/transfer_log.h>
#include <locus/nn/checkpoint.h>
#include <locus/nn/layers.h>
#include <locus/nn/train_step.h>
#include "tests/ranks/groups.h"
#include "tests/support/folder.h"
#include "tests/train/training.h"

namespace locus::test {
namespace {

using testing::HasSubstr;

nn::Parameter zero(const std::vector<Context>& where) {
  nn::Parameter p("p", {1}, {.init = init::Zero()});
  p.initialize(init::Zero(), where);
  return p;
}

// The gradient 1 on the first context, 2 on the second.
void backward_apart(const nn::Parameter& p) {
  for (size_t i = 0; i < 2; ++i) {
    Tensor y;
    {
      const autograd::Record record;
      y = p.list_data()[i] * (1. + static_cast<double>(i));
    }
    y.backward();
  }
}

void expect_values(const nn::Parameter& p, const std::vector<double>& expected) {
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(values(p.list_data()[i]), std::vector<double>{expected[i]}) << "replica " << i;
}

TEST(TrainerUpdate, WithoutASumReplicasDifferAndStayDifferent) {
  for (const auto& where : places(2)) {
    const nn::Parameter p = zero(where);
    nn::Trainer trainer({{"p", p}}, optim::SGD({.learning_rate = 1}));
    backward_apart(p);
    trainer.update(1);
    expect_values(p, {-1, -2});
    backward(p);
    trainer.step(1);
    expect_values(p, {-3, -4});
  }
}

TEST(TrainerUpdate, WithoutASumZeroUsesTheOwnersGradientForAllReplicas) {
  for (const auto& where : places(2))
    for (const int stage : {1, 2}) {
      const nn::Parameter p = zero(where);
      nn::Trainer trainer({{"p", p}}, optim::SGD({.learning_rate = 1}), {.zero = stage});
      backward_apart(p);
      trainer.update(1);
      expect_values(p, {-1, -1});
    }
}

// With stage 0 the sum becomes 0. With zero, only the owner had a new gradient.
TEST(TrainerUpdate, ZeroGradAfterTheSumClearsItOrIsAnErrorOfTheStep) {
  for (const auto& where : places(2))
    for (const int stage : {0, 1, 2}) {
      const nn::Parameter p = zero(where);
      nn::Trainer trainer({{"p", p}}, optim::SGD({.learning_rate = 1}), {.zero = stage});
      backward(p);
      trainer.allreduce_grads();
      p.zero_grad();
      if (stage == 0)
        trainer.step(1);
      else
        EXPECT_THAT(message_of<Error>([&] { trainer.step(1); }), HasSubstr("has not been updated"));
      EXPECT_EQ(trainer.num_update(), stage == 0 ? 1 : 0);
      expect_values(p, {0, 0});
    }
}

TEST(TrainerUpdate, ReplicasOnTwoKindsOfDevicesAreRefusedByTheStep) {
  LOCUS_NEEDS_ANY_GPUS(1);
  const nn::Parameter p = zero({cpu(0), gpu(0)}), pinned = zero({cpu(0), cpu_pinned()});
  nn::Trainer trainer({{"p", p}}, optim::SGD({.learning_rate = 1})),
      other({{"p", pinned}}, optim::SGD({.learning_rate = 1}));
  for (const nn::Parameter& each : {p, pinned}) backward(each);
  EXPECT_THAT(message_of<ContextMismatch>([&] { trainer.step(1); }),
              HasSubstr("has replicas on cpu(0) and gpu(0)"));
  expect_values(p, {0, 0});
  other.step(1);
  expect_values(pinned, {-2, -2});
}

TEST(TrainerUpdate, AStepWaitsForNoDevice) {
  LOCUS_NEEDS_ANY_GPUS(2);
  for (const int stage : {0, 1, 2}) {
    const nn::Parameter p = zero(gpus(2));
    nn::Trainer trainer({{"p", p}}, optim::Adam(), {.zero = stage});
    for (int i = 0; i < 2; ++i) {
      backward(p);
      const TransferLog log;
      trainer.step(1);
      if (i == 0) continue;  // the first step makes states
      for (const TransferEntry& e : log.entries()) EXPECT_EQ(e.kind, TransferKind::copy);
    }
    const TransferLog log;
    static_cast<void>(values(p.list_data()[0]));
    EXPECT_FALSE(log.entries().empty()) << "the log sees waits";
  }
}

TEST(TrainerUpdate, WhatTheHostDecidesIsNotCompiled) {
  const Folder folder;
  const nn::Parameter p = zero(hosts(1));
  nn::Trainer trainer({{"p", p}}, optim::Adam());
  backward(p);
  trainer.step(1);
  const NamedTensors states = trainer.states();
  const std::string file = folder / "states";
  trainer.save_states(file);
  const std::vector<std::function<void()>> all{[&] { trainer.update_if_finite(1); },
                                               [&] { trainer.discard(); },
                                               [&] { trainer.states(); },
                                               [&] { trainer.set_states(states); },
                                               [&] { trainer.save_states(file); },
                                               [&] { trainer.load_states(file); }};
  backward(p);
  for (size_t i = 0; i < all.size(); ++i) {
    nn::TrainStep step(
        [&](const Tensor& x) {
          all[i]();
          return x + 0;
        },
        trainer);
    EXPECT_THAT(message_of<CaptureError>([&] { step(ones({1})); }), HasSubstr("being recorded"))
        << i;
  }
  EXPECT_EQ(trainer.num_update(), 1);
  trainer.step(1);  // the gradient is still new
}

TEST(TrainerUpdate, ACaptureRefusesTheNormOfReplicas) {
  LOCUS_NEEDS_ANY_GPUS(2);
  const nn::Parameter p = zero(gpus(2));
  nn::Trainer trainer({{"p", p}}, optim::SGD());
  backward(p);
  trainer.step(1);
  backward(p);
  {
    const Capture capture(gpu(0));
    EXPECT_THAT(message_of<CaptureError>([&] { trainer.clip_global_norm(1, 1); }),
                HasSubstr("Trainer::clip_global_norm"));
  }
  trainer.step(1);
}

TEST(TrainerUpdate, StatesHoldNoLearningRate) {
  const Folder folder;
  const std::string file = folder / "states";
  nn::Parameter p("p", {1}, {.init = init::Zero()});
  p.initialize();
  nn::Trainer saved({{"p", p}}, optim::SGD({.learning_rate = .1, .momentum = .9}));
  saved.set_learning_rate(.5);
  backward(p);
  saved.step(1);
  saved.save_states(file);
  nn::Trainer loaded({{"p", p}}, optim::SGD({.learning_rate = .1, .momentum = .9}));
  loaded.load_states(file);
  EXPECT_EQ(loaded.num_update(), 1);
  EXPECT_EQ(loaded.learning_rate(), .1);
}

TEST(TrainerUpdate, ACheckpointOfATrainerThatMovedIsRefused) {
  const Folder folder;
  nn::Dense layer(1, {}, {.in_units = 2});
  layer.initialize();
  nn::Trainer trainer(layer.parameters(), optim::SGD());
  const checkpoint::Parts parts{layer, trainer};
  const nn::Trainer moved = std::move(trainer);
  EXPECT_THROW(checkpoint::save(folder / "run", parts), Error);
  EXPECT_FALSE(checkpoint::load(folder / "run", {layer}));
}

}  // namespace
}  // namespace locus::test
