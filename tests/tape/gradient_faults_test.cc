// Gradients after a failed sum or pass, and after a sum that is not used yet.
#include <locus/core/accumulate.h>
#include <locus/core/autograd.h>
#include <locus/core/compile.h>
#include <locus/devices/pool.h>
#include <locus/nn/containers.h>
#include <locus/nn/kvstore.h>
#include <locus/nn/pipeline.h>
#include <locus/nn/planned.h>

#include <locus/nn/layers.h>
#include "tests/ranks/groups.h"
#include "tests/replay/captures.h"
#include "tests/train/training.h"

namespace locus::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Values = std::vector<double>;

nn::Parameter zero(const char* name, const Shape& shape, const std::vector<Context>& where) {
  nn::Parameter p(name, shape, {.init = init::Zero()});
  p.initialize(init::Zero(), where);
  return p;
}
std::vector<double> first_of_each(const nn::Parameter& p) {
  std::vector<double> all;
  for (const Tensor& t : p.list_data()) all.push_back(t.reshape({-1})[0].item<double>());
  return all;
}

// The small one is summed before the large one runs out of memory.
TEST(GradientFaults, AfterASumThatFailedHalfwayNothingIsSummedTwice) {
  LOCUS_NEEDS_POOL();
  for (const int zero_stage : {0, 1, 2})
    for (const GradReq req : {GradReq::write, GradReq::add}) {
      SCOPED_TRACE(text_of("zero ", zero_stage, req == GradReq::add ? ", add" : ", write"));
      const nn::Parameter large = zero("large", {10 << 20}, hosts(2)),
                          small = zero("small", {8}, hosts(2));
      for (const nn::Parameter& p : {large, small}) p.set_grad_req(req);
      nn::Trainer trainer({{"large", large}, {"small", small}}, optim::SGD({.learning_rate = 1}),
                          {.zero = zero_stage});
      const auto pass = [&] {
        for (const nn::Parameter& p : {large, small}) backward(p);
      };
      pass();
      {
        const Shortage first(cpu(0), size_t{1} << 20), second(cpu(1), size_t{1} << 20);
        EXPECT_THROW(trainer.step(1), OutOfMemory);
      }
      EXPECT_THAT(message_of<Error>([&] { trainer.step(1); }), HasSubstr("has not been updated"));
      pass();
      trainer.step(1);
      for (const nn::Parameter& p : {large, small})
        EXPECT_EQ(first_of_each(p), Values(2, -2)) << p.name();
    }
}

TEST(GradientFaults, WhatIsRefusedBeforeASumLeavesTheOthers) {
  const nn::Parameter a = zero("a", {2}, hosts(2)), b = zero("b", {2}, hosts(2));
  nn::Trainer trainer({{"a", a}, {"b", b}}, optim::SGD({.learning_rate = 1}));
  backward(a);
  trainer.allreduce_grads();
  const auto replica = [&](size_t i) {
    const autograd::Record record;
    return a.list_data()[i] * 1;
  };
  replica(1).backward();
  backward(b);
  EXPECT_THAT(message_of<Error>([&] { trainer.step(1); }), HasSubstr("are sums already"));
  replica(0).backward();
  trainer.step(1);
  for (const nn::Parameter& p : {a, b}) EXPECT_EQ(first_of_each(p), Values(2, -2)) << p.name();
}

TEST(GradientFaults, AnotherTrainerDoesNotGoByWhatOneRefused) {
  const nn::Parameter p = zero("p", {2}, hosts(2));
  {
    nn::Trainer trainer({{"p", p}}, optim::SGD({.learning_rate = 1}), {.overlap = true});
    backward(p);
    trainer.step(1);
    backward(p);
    EXPECT_THROW(backward(p), Error);
  }
  nn::Trainer other({{"p", p}}, optim::SGD({.learning_rate = 1}));
  EXPECT_THAT(message_of<Error>([&] { other.step(1); }), HasSubstr("has not been updated"));
}

// The gradients on the first two contexts are sums by then.
TEST(GradientFaults, AfterASumThatFailedThoseOfOtherContextsAreUsedToo) {
  LOCUS_NEEDS_POOL();
  for (const int zero_stage : {0, 1}) {
    const nn::Parameter large = zero("large", {10 << 20}, {cpu(2), cpu(3)}),
                        small = zero("small", {8}, hosts(2));
    for (const nn::Parameter& p : {large, small}) p.set_grad_req(GradReq::add);
    nn::Trainer trainer({{"large", large}, {"small", small}}, optim::SGD({.learning_rate = 1}),
                        {.zero = zero_stage});
    for (const nn::Parameter& p : {large, small}) backward(p);
    {
      const Shortage third(cpu(2), size_t{1} << 20), fourth(cpu(3), size_t{1} << 20);
      EXPECT_THROW(trainer.step(1), OutOfMemory);
    }
    for (const Tensor& g : small.list_grad()) EXPECT_EQ(values(g), Values(8, 0));
    for (const nn::Parameter& p : {large, small}) backward(p);
    trainer.step(1);
    EXPECT_EQ(first_of_each(small), Values(2, -2));
    EXPECT_EQ(first_of_each(large), Values(2, -2));
  }
}

TEST(GradientFaults, ASumThatFailsInBackwardRefusesStepsUpToDiscard) {
  LOCUS_NEEDS_POOL();
  const nn::Parameter p = zero("p", {10 << 20}, hosts(2));
  nn::Trainer trainer({{"p", p}}, optim::SGD({.learning_rate = 1}), {.overlap = true});
  backward(p);
  trainer.step(1);
  Tensors sums;
  {
    const autograd::Record record;
    for (const Tensor& t : p.list_data()) sums.push_back(t.sum());
  }
  sums[0].backward();
  {
    const Shortage first(cpu(0), size_t{1} << 20), second(cpu(1), size_t{1} << 20);
    EXPECT_THROW(sums[1].backward(), OutOfMemory);
  }
  EXPECT_THAT(message_of<Error>([&] { trainer.step(1); }),
              AllOf(HasSubstr("in backward() failed"), HasSubstr("Trainer::discard()")));
  trainer.discard();
  backward(p);
  trainer.step(1);
  EXPECT_EQ(first_of_each(p), Values(2, -4));
}

// Fails on the second context after n updates.
struct FailsOn : optim::Adam {
  explicit FailsOn(int n) : Adam({.learning_rate = .1}), left(n) {}
  void update(optim::ParameterGroup& group, double rescale) override {
    if (group.weights[0].context() == cpu(1) && left-- == 0) throw OutOfMemory("no memory");
    Adam::update(group, rescale);
  }
  int left;
};

// Changes the learning rate before each next step.
TEST(GradientFaults, AReplicaWhoseUpdateFailedIsWhatTheOthersBecame) {
  for (const bool threads : {false, true}) {
    const nn::Parameter p = zero("p", {3}, hosts(2)), same = zero("p", {3}, hosts(2));
    // A single parameter is updated by one thread per context.
    const nn::Parameter q = zero("q", {2}, {cpu(0)});
    nn::Parameters all{{"p", p}};
    if (!threads) all.emplace_back("q", q);
    nn::Trainer trainer(all, FailsOn(1)), right({{"p", same}}, FailsOn(100));
    for (int step = 0; step < 4; ++step) {
      for (const nn::Parameter& each : {p, same}) backward(each);
      if (step % 2 == 0 && !threads) backward(q);
      right.step(1);
      if (step == 1)
        EXPECT_THROW(trainer.step(1, true), OutOfMemory);
      else
        trainer.step(1, true);
      for (const Tensor& t : p.list_data()) EXPECT_EQ(values(t), values(same.data())) << step;
      EXPECT_THAT(message_of<Error>([&] { trainer.step(1); }), HasSubstr("has not been updated"));
      for (nn::Trainer* const t : {&trainer, &right}) t->set_learning_rate(.1 / (step + 2));
    }
    EXPECT_EQ(values(trainer.states()[1].second), values(right.states()[1].second));
  }
}

// Another group is updated between the two halves of a group's update, as another thread might do.
TEST(GradientFaults, AnUpdateThatFailsTakesNothingFromAnothers) {
  struct Stops : optim::Optimizer {
    explicit Stops(std::function<void()> f) : Optimizer("Stops", {.learning_rate = .5}) {
      use<SGDUpdate>(sgd_update, [f](SGDUpdate&, int64_t) { f(); });
    }
  };
  std::function<void()> meanwhile = [] {};
  Stops optimizer([&] { std::exchange(meanwhile, [] {})(); });
  optimizer.set_schedule([](int64_t n) { return 1. / static_cast<double>(n); });
  const auto group = [] { return optim::ParameterGroup{{zeros({2})}, {ones({2})}}; };
  optim::ParameterGroup a = group(), b = group();
  const auto fail = [&](optim::ParameterGroup& failing, const std::function<void()>& before) {
    meanwhile = [&] {
      before();
      throw OutOfMemory("no memory");
    };
    EXPECT_THROW(optimizer.update(failing, 1), OutOfMemory);
  };
  fail(a, [&] { fail(b, [] {}); });  // neither counts
  EXPECT_EQ(optimizer.num_update(), 0);
  fail(a, [&] { optimizer.update(b, 1); });
  EXPECT_EQ(optimizer.num_update(), 1);
  EXPECT_EQ(*a.count, 0);
  EXPECT_EQ(*b.count, 1);
  optimizer.set_schedule({});
  EXPECT_EQ(optimizer.learning_rate(), 1);  // b's
  optimizer.update(a, 1);
  EXPECT_EQ(values(a.weights[0]), values(b.weights[0]));
}

TEST(GradientFaults, NothingIsAddedToASum) {
  for (const std::vector<Context>& pair : places(2))
    for (const bool scope : {false, true}) {
      std::optional<autograd::Accumulate> accumulate;
      if (scope) accumulate.emplace();
      const nn::Parameter p = zero("p", {3}, pair);
      if (!scope) p.set_grad_req(GradReq::add);
      nn::Trainer trainer({{"p", p}}, optim::SGD({.learning_rate = 1}));
      backward(p);
      trainer.clip_global_norm(100, 1);
      EXPECT_THAT(message_of<Error>([&] { backward(p); }),
                  AllOf(HasSubstr("f32(3,) on " + to_string(pair[0])), HasSubstr("is a sum over"),
                        HasSubstr("Trainer::step(), update() or discard()")));
      trainer.step(1);  // the sum is unchanged
      EXPECT_EQ(first_of_each(p), Values(2, -2));
      p.zero_grad();
      backward(p);
      trainer.allreduce_grads();
      p.zero_grad();
      backward(p);
      trainer.step(1);
      EXPECT_EQ(first_of_each(p), Values(2, -4));
    }
}

TEST(GradientFaults, NorIsAnythingByWhatIsCompiled) {
  for (const std::vector<Context>& pair : places(2)) {
    const nn::Parameter p = zero("p", {3}, pair);
    p.set_grad_req(GradReq::add);
    nn::Trainer trainer({{"p", p}}, optim::SGD({.learning_rate = 1}));
    const auto compiled = [&](bool zeroes) {
      return Compiled([p, zeroes](const Tensors& in) {
        if (zeroes) p.zero_grad();
        backward(p);
        return Tensors{in[0] + 1};
      });
    };
    const Tensors in{ones({1})};
    Compiled adds = compiled(false), begins = compiled(true);
    adds(in);
    trainer.allreduce_grads();
    EXPECT_THAT(message_of<Error>([&] { adds(in); }), HasSubstr("is a sum over"));
    trainer.step(1);
    p.zero_grad();
    for (int i = 0; i < 2; ++i) adds(in);
    trainer.step(1);
    EXPECT_EQ(first_of_each(p), Values(2, -6));
    for (int i = 0; i < 3; ++i) {
      begins(in);
      trainer.allreduce_grads();
    }
    trainer.step(1);
    EXPECT_EQ(first_of_each(p), Values(2, -8));
  }
}

TEST(GradientFaults, OnOneContextNothingIsASum) {
  for (const Context c : contexts()) {
    const nn::Parameter p = zero("p", {3}, {c});
    p.set_grad_req(GradReq::add);
    nn::Trainer trainer({{"p", p}}, optim::SGD({.learning_rate = 1}));
    for (int i = 0; i < 3; ++i) {
      backward(p);
      trainer.allreduce_grads();
    }
    trainer.step(1);
    EXPECT_EQ(first_of_each(p), Values{-3});
  }
}

nn::TrainerOptions through(const char* type) { return {.kvstore = kvstore::create(type)}; }

TEST(GradientFaults, ThroughAStoreOneReplicasBackwardAfterTheSumIsAnError) {
  for (const auto& pair : places(2)) {
    const nn::Parameter x = zero("x", {10}, pair);
    nn::Trainer trainer({{"x", x}}, optim::SGD({.learning_rate = 1}), through("device"));
    backward(x);
    trainer.allreduce_grads();
    Tensor y;
    {
      const autograd::Record record;
      y = x.list_data()[1] * 3;
    }
    y.backward();
    EXPECT_THAT(message_of<Error>([&] { trainer.step(1); }),
                AllOf(HasSubstr("the gradients of Parameter `x` are sums already"),
                      HasSubstr(text_of("has written the gradient on ", pair[1], " since"))));
    for (const Tensor& t : x.list_data()) EXPECT_EQ(values(t), Values(10, 0));
    backward(x);
    trainer.step(1);
    for (const Tensor& t : x.list_data()) EXPECT_EQ(values(t), Values(10, -2));
  }
}

// One replica has no sum.
TEST(GradientFaults, ThroughAStoreOneContextsGradientIsNoSumEither) {
  const nn::Parameter x = zero("x", {10}, hosts(1));
  x.set_grad_req(GradReq::add);
  nn::Trainer trainer({{"x", x}}, optim::SGD({.learning_rate = 1}), through("local"));
  for (int i = 0; i < 2; ++i) {
    backward(x);
    trainer.allreduce_grads();
  }
  trainer.step(1);
  EXPECT_EQ(values(x.data()), Values(10, -2));
}

nn::Sequential layers() {
  nn::Sequential net;
  net.add(nn::Dense(6, nn::relu, {.in_units = 3}), nn::Dense(2, {}, {.in_units = 6}));
  return net;
}
const nn::SoftmaxCrossEntropyLoss loss;
Tensor batch() { return ones({8, 3}); }
Tensor labels() { return zeros({8}, {cpu(), i32}); }
// As loss, but the n-th call on this context fails.
auto failing(int n, Context where = cpu(1)) {
  return [n, where, calls = std::make_shared<int>(0)](const Tensor& out, const Tensor& label) {
    if (out.context() == where && ++*calls == n) throw Error("no loss");
    return loss(out, label);
  };
}
std::vector<Values> gradients_of(const nn::Block& net) {
  std::vector<Values> all;
  for (const auto& [name, p] : net.parameters())
    for (const Tensor& g : p.list_grad()) all.push_back(values(g));
  return all;
}
void add_up(const nn::Block& net) {
  for (const auto& [name, p] : net.parameters()) p.set_grad_req(GradReq::add);
}

void expect_anew(auto& net, int fails, const std::vector<Values>& expected) {
  EXPECT_THROW(net.forward_backward(batch(), labels(), failing(fails)), Error);
  net.forward_backward(batch(), labels(), loss);
  EXPECT_EQ(gradients_of(net), expected);
}

TEST(GradientFaults, APipelineThatFailedBeginsItsSumAnew) {
  const nn::Sequential net = layers();
  nn::Pipeline pipe({net.slice(0, 1), net.slice(1, 2)}, hosts(2), {4});
  pipe.initialize(init::Xavier());
  pipe.forward_backward(batch(), labels(), loss);
  const std::vector<Values> expected = gradients_of(pipe);
  add_up(pipe);
  expect_anew(pipe, 3, expected);
  pipe.zero_grad();
  for (const auto& [name, p] : pipe.parameters()) p.set_grad_req(GradReq::write);
  const autograd::Accumulate accumulate;
  expect_anew(pipe, 3, expected);
}

TEST(GradientFaults, AllReplicasOfAPlanBeginTheirSumsAnew) {
  nn::Planned net(layers(), nn::Plan::parse("plan-1\nmicrobatches 2\nlayers 0-1 on cpu(0), "
                                            "cpu(1)"));
  net.initialize(init::Xavier());
  net.forward_backward(batch(), labels(), loss);
  const std::vector<Values> expected = gradients_of(net);
  add_up(net);
  expect_anew(net, 2, expected);
}

TEST(GradientFaults, ACutPlanThatFailedHalfwayLeavesStaleGradients) {
  nn::Planned net(layers(), nn::Plan::parse("plan-1\nlayers 0-1 cut over cpu(0), cpu(1)"));
  net.initialize(init::Xavier());
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = 1}));
  net.forward_backward(batch(), labels(), loss);
  trainer.step(8);
  const auto weights = [&] {
    std::vector<Values> all;
    for (const auto& [name, p] : net.parameters()) all.push_back(values(p.data()));
    return all;
  };
  const std::vector<Values> before = weights();
  // Gradients with hooks are written at once.
  for (const auto& [name, p] : net.parameters())
    autograd::set_grad_hook(p.data(), [first = name.starts_with("0.")] {
      if (first) throw Error("halfway");
    });
  EXPECT_THROW(net.forward_backward(batch(), labels(), loss), Error);
  trainer.step(8, true);
  EXPECT_EQ(weights(), before);
}

TEST(GradientFaults, OverlapWithMicrobatchesIsNamed) {
  nn::Planned net(layers(), nn::Plan::parse("plan-1\nmicrobatches 2\nlayers 0-1 on cpu(0), "
                                            "cpu(1)"));
  net.initialize(init::Xavier());
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = 1}), {.overlap = true});
  EXPECT_THAT(message_of<Error>([&] { net.forward_backward(batch(), labels(), loss); }),
              AllOf(HasSubstr("one backward() a step"), HasSubstr("microbatches"),
                    HasSubstr("without overlap")));
}

}  // namespace
}  // namespace locus::test
