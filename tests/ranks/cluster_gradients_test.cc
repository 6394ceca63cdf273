// Gradients and replicas of all ranks after one rank failed.
#include <deque>
#include <functional>

#include <locus/devices/pool.h>

#include <locus/core/cluster.h>
#include "tests/ranks/ranks.h"
#include "tests/replay/captures.h"

namespace locus::test::ranks {
namespace {

using testing::AllOf;
using testing::HasSubstr;

bool other() { return cluster::rank() == 1; }

// Two replicas on each rank, whose gradients are 1.
struct Two {
  nn::Parameter x{"x", {2}, {.init = init::Zero()}};
  std::unique_ptr<nn::Trainer> trainer;
  explicit Two(GradReq req, int zero = 0) {
    x.initialize(init::Zero(), {cpu(0), cpu(1)});
    x.set_grad_req(req);
    trainer =
        std::make_unique<nn::Trainer>(nn::Parameters{{"x", x}}, optim::SGD({.learning_rate = 1}),
                                      nn::TrainerOptions{.zero = zero});
  }
  void expect(double each) const {
    for (const Tensor& t : x.list_data())
      EXPECT_EQ(values(t), std::vector<double>(2, each * 2 * cluster::size()));
  }
};

TEST_F(ClusterRanks, AStepThatOneRefusesLeavesGradientsOnAll) {
  for (const GradReq req : {GradReq::write, GradReq::add})
    for (const int zero : {0, 1}) {
      const Two two(req, zero);
      nn::Trainer& t = *two.trainer;
      const auto refused = [&] {
        EXPECT_THROW(t.step(other() ? 0 : 1), ValueError);
        EXPECT_THROW(t.clip_global_norm(other() ? -1 : 1, 1), ValueError);
      };
      backward(two.x);
      refused();
      if (req == GradReq::add) backward(two.x);
      t.step(1);
      two.expect(req == GradReq::add ? -2 : -1);
    }
}

TEST_F(ClusterRanks, OfASumThatOneHasNoMemoryForNothingIsLeft) {
  LOCUS_NEEDS_POOL();
  for (const int zero : {0, 1}) {
    nn::Parameter large("large", {10 << 20}, {.init = init::Zero()});
    large.initialize(init::Zero(), {cpu(2), cpu(3)});
    large.set_grad_req(GradReq::add);
    const Two two(GradReq::add);
    nn::Trainer t({{"large", large}, {"x", two.x}}, optim::SGD({.learning_rate = 1}),
                  {.zero = zero});
    const auto pass = [&] {
      for (const nn::Parameter& p : {large, two.x}) backward(p);
    };
    pass();
    {
      std::deque<Shortage> shortages;
      for (const Context c : {cpu(2), cpu(3)})
        if (other()) shortages.emplace_back(c, size_t{1} << 20);
      EXPECT_THROW(t.step(1), OutOfMemory);
    }
    pass();
    t.step(1);
    two.expect(-1);
    EXPECT_EQ(values(large.list_data()[1].reshape({-1})(Slice(0, 1)))[0], -2 * cluster::size());
  }
}

TEST_F(ClusterRanks, AnUpdateOfOtherParametersIsAnErrorOnAll) {
  const Two two(GradReq::write);
  nn::Trainer& t = *two.trainer;
  const std::function<void()> updates[] = {[&] { t.update(1, true); }, [&] { t.step(1, true); },
                                           [&] { t.clip_global_norm(1, 1); }};
  for (const auto& update : updates) {
    backward(two.x);
    t.allreduce_grads();
    if (other()) t.discard();
    EXPECT_THAT(message_of<Error>(update),
                AllOf(HasSubstr("calls differ"), HasSubstr("without x")));
    two.expect(0);
  }
}

TEST_F(ClusterRanks, AllDiscardAlsoWhatOneHasNotInitialized) {
  nn::Parameter x("x", {2}, {.init = init::Zero()});
  nn::Trainer t({{"x", x}}, optim::SGD({.learning_rate = 1}));
  if (!other()) {
    x.initialize(init::Zero(), {cpu(0), cpu(1)});
    backward(x);
  }
  t.discard();
  if (other()) x.initialize(init::Zero(), {cpu(0), cpu(1)});
  EXPECT_THAT(message_of<Error>([&] { t.step(1); }), HasSubstr("has not been updated"));
  backward(x);
  t.step(1);
  EXPECT_EQ(values(x.list_data()[1]), std::vector<double>(2, -2 * cluster::size()));
}

TEST_F(ClusterRanks, AStepByOtherMultipliersIsAnErrorOnAll) {
  const Two two(GradReq::write);
  if (other()) two.x.set_lr_mult(.5);
  backward(two.x);
  EXPECT_THAT(message_of<Error>([&] { two.trainer->step(1); }),
              AllOf(HasSubstr("calls differ"), HasSubstr("multipliers x by 0.5 and 1")));
  two.expect(0);
  two.x.set_lr_mult(1);
  two.trainer->step(1);
  two.expect(-1);
}

TEST_F(ClusterRanks, TensorsThatShareAContextShareItOnAll) {
  const auto on = [](int third) {
    return Tensors{ones({2}, cpu(0)), ones({2}, cpu(1)), ones({2}, cpu(third))};
  };
  EXPECT_THAT(message_of<ContextMismatch>([&] { cluster::all_reduce(on(other() ? 2 : 1)); }),
              HasSubstr("kinds or number of contexts"));
  EXPECT_THAT(message_of<ShapeError>([&] { cluster::all_reduce(on(other() ? 0 : 1)); }),
              HasSubstr("shapes or shared contexts"));
}

}  // namespace
}  // namespace locus::test::ranks
