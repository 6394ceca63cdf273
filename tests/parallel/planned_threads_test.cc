// Planned networks: the threads of replicas, and errors on one of them.
#include <locus/nn/planned.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

#include <locus/core/autograd.h>
#include <locus/core/stream.h>
#include <locus/nn/layers.h>
#include <locus/nn/loss.h>
#include <locus/nn/train_step.h>
#include "tests/support/contexts.h"
#include "tests/train/training.h"

namespace locus::test {
namespace {

using nn::Plan, nn::Planned;
using testing::HasSubstr;

constexpr const char* kTwo = "plan-1\nlayers 0 on cpu(0), cpu(1)";

// A Dense, by a plan. Loss functions see the calls of each replica.
class PlannedThreads : public testing::Test {
 protected:
  struct Seen {
    Context current;
    std::thread::id thread;
  };

  Planned made(const char* plan) const {
    nn::Sequential layers;
    layers.add(nn::Dense(2, {}, {.in_units = 3}));
    Planned net(layers, Plan::parse(plan));
    net.initialize(init::One());
    return net;
  }
  nn::LossFunction noting() {
    return [this](const Tensor& out, const Tensor& label) {
      const std::lock_guard lock(mutex_);
      seen_.push_back({current_context(), std::this_thread::get_id()});
      return loss_(out, label);
    };
  }
  std::vector<Seen> seen() { return std::exchange(seen_, {}); }

  const Tensor x_ = ones({4, 3}), y_ = zeros({4}, {cpu(), i32});
  const nn::SoftmaxCrossEntropyLoss loss_;
  std::mutex mutex_;
  std::vector<Seen> seen_;
};

TEST_F(PlannedThreads, EachReplicaHasAThreadAndItsContext) {
  Planned net = made(kTwo);
  for (const bool scoped : {false, true}) {
    std::optional<StreamScope> scope;
    const Stream stream(cpu(0));
    if (scoped) scope.emplace(stream);
    net.forward_backward(x_, y_, noting());
    std::vector<Seen> calls = seen();
    ASSERT_EQ(calls.size(), 2u);
    if (calls[0].current != cpu(0)) std::swap(calls[0], calls[1]);
    EXPECT_EQ(calls[0].current, cpu(0));
    EXPECT_EQ(calls[1].current, cpu(1));
    EXPECT_EQ(calls[0].thread == std::this_thread::get_id(), !scoped);
    EXPECT_NE(calls[1].thread, std::this_thread::get_id());
  }
}

TEST_F(PlannedThreads, TheCallingThreadWorksForAllWhileACallIsRecordedAndForOneReplica) {
  Planned two = made(kTwo), one = made("plan-1\nlayers 0 on cpu(1)"),
          cut = made("plan-1\nlayers 0 cut over cpu(0), cpu(1)");
  const ContextScope scope(cpu(2));
  nn::Trainer trainer(two.parameters(), optim::SGD({.learning_rate = .1}));
  nn::TrainStep step(
      [&](const Tensor& x, const Tensor& y) { return two.forward_backward(x, y, noting()); },
      trainer);
  const auto check = [&](size_t calls) {
    const std::vector<Seen> all = seen();
    EXPECT_EQ(all.size(), calls);
    for (const Seen& s : all) {
      EXPECT_EQ(s.current, cpu(2));
      EXPECT_EQ(s.thread, std::this_thread::get_id());
    }
  };
  step(x_, y_);
  check(2);
  step(x_, y_);
  check(0);  // a replay
  one.forward_backward(x_, y_, noting());
  check(1);
  cut.forward_backward(x_, y_, noting());
  check(1);
}

TEST_F(PlannedThreads, AnErrorOfOneReplicaLeavesAllGradientsStaleAndSumsZero) {
  Planned net = made(kTwo);
  for (const auto& [name, p] : net.parameters()) p.set_grad_req(GradReq::add);
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = .1}));
  std::atomic<int> calls{0};
  const auto failing = [&](std::vector<Context> where) {
    return [&, where](const Tensor& out, const Tensor& label) {
      ++calls;
      for (const Context c : where)
        if (c == current_context()) throw Error("no loss on ", c);
      return loss_(out, label);
    };
  };
  for (const auto& [where, named] : {std::pair(std::vector{cpu(1)}, "no loss on cpu(1)"),
                                     std::pair(std::vector{cpu(1), cpu(0)}, "no loss on cpu(0)")}) {
    calls = 0;
    EXPECT_THAT(message_of<Error>([&] { net.forward_backward(x_, y_, failing(where)); }),
                HasSubstr(named));
    EXPECT_EQ(calls, 2) << "one replica did not finish";
    for (const auto& [name, p] : net.parameters())
      for (const Tensor& t : p.list_data()) {
        EXPECT_FALSE(autograd::fresh_grad(t)) << name;
        EXPECT_EQ(values(t.grad()), std::vector<double>(static_cast<size_t>(t.size()), 0));
      }
    EXPECT_THAT(message_of<Error>([&] { trainer.step(4); }), HasSubstr("has not been updated"));
  }
  net.forward_backward(x_, y_, loss_);
  trainer.step(4);
}

}  // namespace
}  // namespace locus::test
