// Replicas' gradients summed while backward() runs.
#include <functional>
#include <string>

#include <locus/core/autograd.h>
#include <locus/core/parallel.h>
#include <locus/nn/containers.h>
#include <locus/nn/data.h>
#include <locus/nn/layers.h>
#include <locus/nn/loss.h>
#include <locus/nn/train_step.h>
#include <locus/nn/trainer.h>
#include <locus/ops/random.h>
#include "tests/ranks/groups.h"

namespace locus::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Values = std::vector<double>;

// Two and a half buckets.
struct Net {
  explicit Net(const Group& g, bool overlap) : where(g.contexts()) {
    random::seed(3);
    net.add(nn::Dense(1100, nn::relu, {.in_units = 20}),
            nn::Dense(1050, nn::relu, {.in_units = 1100}), nn::Dense(3, {}, {.in_units = 1050}));
    net.initialize(init::Xavier(), where);
    trainer.emplace(net.parameters(), optim::SGD({.learning_rate = .1, .momentum = .9}),
                    nn::TrainerOptions{.overlap = overlap});
  }
  void load() {
    const auto n = static_cast<int64_t>(where.size());
    x = split_and_load(random::uniform(-1, 1, {2 * n, 20}), where);
    y = split_and_load(random::randint(0, 3, {2 * n}), where);
  }
  Tensor forward_backward(int k) {
    const auto i = static_cast<size_t>(k);
    Tensor l;
    {
      const autograd::Record record;
      l = loss(net(x[i]), y[i]);
    }
    l.backward();
    return l;
  }
  void backward(bool threads) {
    load();
    if (threads) return parallel(where, [&](int i) { forward_backward(i); });
    for (int i = 0; i < static_cast<int>(where.size()); ++i) forward_backward(i);
  }
  void step(bool threads = false) {
    backward(threads);
    trainer->step(2 * static_cast<int64_t>(where.size()));
  }
  Values parameters() const {
    Values all;
    for (const auto& [name, p] : net.parameters())
      for (const Tensor& replica : p.list_data())
        for (const double v : values(replica)) all.push_back(v);
    return all;
  }

  Contexts where;
  nn::Sequential net;
  nn::SoftmaxCrossEntropyLoss loss;
  std::optional<nn::Trainer> trainer;
  Tensors x, y;
};

std::vector<Group> some() {
  std::vector<Group> all{Group(hosts(2)), Group(hosts(3))};
  if (num_gpus() >= 2) all.emplace_back(gpus(2));
  if (num_gpus() >= 4) all.emplace_back(gpus(4));
  return all;
}

TEST(GradientSums, WithOverlapTrainingIsTheSame) {
  for (const Group& g : some()) {
    const auto train = [&](bool overlap, bool threads) {
      Net n(g, overlap);
      for (int step = 0; step < 4; ++step) n.step(threads);
      return n.parameters();
    };
    const Values expected = train(false, false);
    EXPECT_EQ(train(true, false), expected) << to_string(g);
    EXPECT_EQ(train(true, true), expected) << to_string(g);
  }
}

TEST(GradientSums, TheyAreThereBeforeTheStep) {
  for (const Group& g : some()) {
    Net n(g, true);
    n.step();
    n.backward(false);
    for (const auto& [name, p] : n.net.parameters()) {
      const Tensors grads = p.list_grad();
      for (const Tensor& replica : grads) EXPECT_EQ(values(replica), values(grads[0])) << name;
    }
  }
}

TEST(GradientSums, ASecondBackwardInAStepIsAnErrorUpToDiscard) {
  for (const Group& g : some()) {
    Net n(g, true);
    n.step();
    n.load();
    n.forward_backward(0);
    EXPECT_THAT(message_of<Error>([&] { n.forward_backward(0); }),
                AllOf(HasSubstr("Parameter `"), HasSubstr("twice before step()"),
                      HasSubstr("Trainer::discard()")));
    const Values before = n.parameters();
    EXPECT_THAT(message_of<Error>([&] { n.trainer->step(4); }), HasSubstr("twice before step()"));
    EXPECT_THAT(message_of<Error>([&] { n.trainer->update(4); }), HasSubstr("twice before step()"));
    n.trainer->discard();
    EXPECT_THAT(message_of<Error>([&] { n.trainer->step(4); }), HasSubstr("has not been updated"));
    EXPECT_EQ(n.parameters(), before);
    n.step();
    EXPECT_NE(n.parameters(), before);
  }
}

// Training continues after one thread's Error.
TEST(GradientSums, OnThreadsTooTrainingContinuesFromThere) {
  for (const Group& g : some()) {
    Net n(g, true);
    n.step(true);
    n.load();
    const auto too_often = [&](int i) {
      for (int times = 0; times <= (i == 0); ++times) n.forward_backward(i);
    };
    EXPECT_THROW(parallel(n.where, too_often), Error);
    n.trainer->discard();
    n.step(true);
    Net other(g, true);
    other.step(true);
    other.load();
    other.step(true);
    EXPECT_EQ(n.parameters(), other.parameters());
  }
}

TEST(GradientSums, ABatchThatIsDiscardedMakesNoStep) {
  for (const Group& g : some()) {
    Net n(g, true);
    n.step();
    const Values before = n.parameters();
    for (int i = 0; i < 2; ++i) {
      n.backward(false);
      n.trainer->discard();
    }
    EXPECT_THAT(message_of<Error>([&] { n.trainer->step(4); }), HasSubstr("has not been updated"));
    EXPECT_EQ(n.parameters(), before);
    n.step();
    EXPECT_NE(n.parameters(), before);
  }
}

TEST(GradientSums, ABatchIsDiscardedAlsoWhereSomeReplicasWereReplaced) {
  for (const Group& g : some()) {
    const auto train = [&](bool overlap) {
      Net n(g, overlap);
      n.step();
      n.net.parameters()[0].second.reset_ctx(n.where);
      n.backward(false);
      n.trainer->discard();
      EXPECT_THAT(message_of<Error>([&] { n.trainer->step(4); }),
                  HasSubstr("has not been updated"));
      for (int i = 0; i < 2; ++i) n.step();
      return n.parameters();
    };
    EXPECT_EQ(train(true), train(false)) << to_string(g);
  }
}

TEST(GradientSums, NewMultipliersLeaveThoseThatAreUnderWay) {
  for (const Group& g : some()) {
    Net n(g, true);
    n.step();
    n.load();
    n.forward_backward(0);
    n.net.parameters()[0].second.set_lr_mult(.5);
    n.trainer->states();  // applies the new multipliers
    for (int i = 1; i < g.size(); ++i) n.forward_backward(i);
    for (const auto& [name, p] : n.net.parameters()) {
      const Tensors grads = p.list_grad();
      for (const Tensor& replica : grads) EXPECT_EQ(values(replica), values(grads[0])) << name;
    }
  }
}

TEST(GradientSums, OneReplicasBackwardAfterTheSumIsAnError) {
  for (const Group& g : some()) {
    Net n(g, false);
    n.backward(false);
    n.trainer->allreduce_grads();
    n.forward_backward(1);
    const Values before = n.parameters();
    EXPECT_THAT(message_of<Error>([&] { n.trainer->step(4); }),
                AllOf(HasSubstr("are sums already"),
                      HasSubstr("written the gradient on " + to_string(g[1]))));
    EXPECT_EQ(n.parameters(), before);
    n.step();
    EXPECT_NE(n.parameters(), before);
  }
}

TEST(GradientSums, WithOverlapGradientsAreNotAddedUp) {
  const Group g(hosts(2));
  Net n(g, true);
  for (const auto& [name, p] : n.net.parameters()) p.set_grad_req(GradReq::add);
  n.load();
  for (int i = 0; i < 2; ++i) n.forward_backward(i);
  EXPECT_THAT(message_of<Error>([&] { n.trainer->step(4); }),
              AllOf(HasSubstr("adds up its gradients"), HasSubstr("grad_req write")));
}

TEST(GradientSums, ALayerThatAStepLeavesOutIsSkipped) {
  for (const Group& g : some()) {
    const auto train = [&](bool overlap) {
      Net n(g, overlap);
      for (int step = 0; step < 4; ++step) {
        n.load();
        for (size_t i = 0; i < n.where.size(); ++i) {
          Tensor l;
          {
            const autograd::Record record;
            const Tensor h = n.net[0](n.x[i]);
            l = step % 2 ? h.sum() : n.loss(n.net[2](n.net[1](h)), n.y[i]);
          }
          l.backward();
        }
        n.trainer->step(8, true);
      }
      return n.parameters();
    };
    EXPECT_EQ(train(true), train(false)) << to_string(g);
  }
}

TEST(GradientSums, ContinueWithNewContextsAndEndWithTheTrainer) {
  LOCUS_NEEDS_ANY_GPUS(2);
  Net n(Group(hosts(2)), true);
  for (int i = 0; i < 2; ++i) n.step();
  n.where = gpus(2);
  n.net.reset_ctx(n.where);
  for (int i = 0; i < 2; ++i) n.step();
  n.backward(false);
  const Tensors grads = n.net.parameters()[0].second.list_grad();
  EXPECT_EQ(values(grads[0]), values(grads[1]));
  n.trainer.reset();
  n.backward(false);
  n.backward(false);  // no trainer counts them
}

TEST(GradientSums, ATrainerThatEndsLeavesThoseOfItsSuccessor) {
  for (const Group& g : some()) {
    Net n(g, true);
    n.step();
    nn::Trainer next(n.net.parameters(), optim::SGD({.learning_rate = .1}), {.overlap = true});
    n.backward(false);
    next.step(2 * g.size());
    n.trainer.reset();
    n.backward(false);
    for (const auto& [name, p] : n.net.parameters()) {
      const Tensors grads = p.list_grad();
      for (const Tensor& replica : grads) EXPECT_EQ(values(replica), values(grads[0])) << name;
    }
  }
}

TEST(GradientSums, ACompiledStepIsTheSame) {
  for (const Group& g : some()) {
    if (g[0].type == DeviceType::cpu && g.size() > 2) continue;
    Net eager(g, true);
    for (int i = 0; i < 4; ++i) eager.step();
    Net n(g, true);
    nn::TrainStep step(
        [&](const Tensors& in) {
          const auto half = static_cast<ptrdiff_t>(in.size() / 2);
          n.x.assign(in.begin(), in.begin() + half);
          n.y.assign(in.begin() + half, in.end());
          Tensor l;
          for (int i = 0; i < g.size(); ++i) l = n.forward_backward(i);
          n.trainer->step(2 * g.size());
          return l;
        },
        *n.trainer);
    Net again(g, true);  // draws the same numbers
    for (int i = 0; i < 4; ++i) {
      again.load();
      Tensors in = again.x;
      in.insert(in.end(), again.y.begin(), again.y.end());
      step(in);
    }
    EXPECT_EQ(n.parameters(), eager.parameters()) << to_string(g);
  }
}

TEST(GradientSums, WhatHasValuesIsSummedSoFromTheFirstStepOn) {
  for (const Group& g : some()) {
    Net n(g, true);
    n.load();
    n.forward_backward(0);
    EXPECT_THAT(message_of<Error>([&] { n.forward_backward(0); }),
                HasSubstr("twice before step()"));
  }
}

}  // namespace
}  // namespace locus::test
