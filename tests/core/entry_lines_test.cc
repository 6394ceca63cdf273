// Errors of calls that compute, copy or wait name the caller's line.
#include <cmath>

#include <locus/core/autograd.h>
#include <locus/nn/block.h>
#include <locus/nn/checkpoint.h>
#include <locus/nn/checkpoint/checkpoint_part.h>
#include <locus/nn/clip.h>
#include <locus/nn/containers.h>
#include <locus/nn/data.h>
#include <locus/nn/kvstore.h>
#include <locus/nn/layers.h>
#include <locus/nn/loss.h>
#include <locus/nn/loss_scaler.h>
#include <locus/nn/metric.h>
#include <locus/nn/optimizer.h>
#include <locus/nn/pipeline.h>
#include <locus/nn/planned.h>
#include <locus/nn/prefetch.h>
#include <locus/nn/train_step.h>
#include <locus/nn/trainer.h>
#include <locus/nn/transforms.h>
#include <locus/ops/create.h>
#include <locus/ops/join.h>
#include <locus/ops/matmul.h>
#include "tests/support/contexts.h"
#include "tests/support/expect_line.h"
#include "tests/support/folder.h"

namespace locus::test {
namespace {

class EntryLines : public testing::Test {
 protected:
  nn::Sequential net() const {
    nn::Sequential made;
    made.add(nn::Dense(3));
    made.initialize();
    return made;
  }
  const Tensor x_ = ones({4, 2}), y_ = zeros({4}), wide_ = ones({4, 5});
};

TEST_F(EntryLines, OfTrainers) {
  nn::Sequential net = this->net();
  net(x_);
  nn::Trainer trainer(net.parameters(), optim::SGD());
  EXPECT_NAMES_ITS_LINE(trainer.step(4));
  EXPECT_NAMES_ITS_LINE(trainer.step(0));
  EXPECT_NAMES_ITS_LINE(trainer.update(4));
  EXPECT_NAMES_ITS_LINE(trainer.update_if_finite(4));
  EXPECT_NAMES_ITS_LINE(trainer.clip_global_norm(-1, 4));
  EXPECT_NAMES_ITS_LINE(trainer.set_states({}));
  trainer.set_schedule(optim::FactorScheduler({.step = 1}));
  EXPECT_NAMES_ITS_LINE(trainer.set_learning_rate(.1));
  EXPECT_NAMES_ITS_LINE(trainer.load_states("/nowhere/states"));
  EXPECT_NAMES_ITS_LINE(trainer.save_states("/nowhere/states"));
  EXPECT_NAMES_ITS_LINE(nn::Trainer(net.parameters(), "sdg"));
  EXPECT_NAMES_ITS_LINE(nn::Trainer(net.parameters(), optim::SGD(), {.zero = 9}));
  const nn::Trainer other = std::move(trainer);
  EXPECT_NAMES_ITS_LINE(trainer.step(4));
  EXPECT_NAMES_ITS_LINE(trainer.allreduce_grads());
  EXPECT_NAMES_ITS_LINE(trainer.discard());
  EXPECT_NAMES_ITS_LINE(trainer.set_learning_rate(.1));
  EXPECT_NAMES_ITS_LINE(trainer.set_schedule({}));
  EXPECT_NAMES_ITS_LINE(trainer.states());
}

TEST_F(EntryLines, OfOptimizersAndSchedules) {
  using namespace optim;
  EXPECT_NAMES_ITS_LINE(SGD({.learning_rate = -1}));
  EXPECT_NAMES_ITS_LINE(NAG({.momentum = 1}));
  EXPECT_NAMES_ITS_LINE(Adam({.learning_rate = NAN}));
  EXPECT_NAMES_ITS_LINE(AdamW({.beta1 = 2}));
  EXPECT_NAMES_ITS_LINE(Adamax({.beta2 = 2}));
  EXPECT_NAMES_ITS_LINE(Nadam({.schedule_decay = -1}));
  EXPECT_NAMES_ITS_LINE(RMSProp({.gamma1 = 2}));
  EXPECT_NAMES_ITS_LINE(AdaGrad({.epsilon = -1}));
  EXPECT_NAMES_ITS_LINE(AdaDelta({.rho = 2}));
  EXPECT_NAMES_ITS_LINE(Ftrl({.learning_rate = 0}));
  EXPECT_NAMES_ITS_LINE(Signum({.momentum = 0, .wd_lh = 1}));
  EXPECT_NAMES_ITS_LINE(Lion({.wd = -1}));
  EXPECT_NAMES_ITS_LINE(LAMB({.lower_bound = 2, .upper_bound = 1}));
  EXPECT_NAMES_ITS_LINE(LARS({.eta = -1}));
  EXPECT_NAMES_ITS_LINE(optim::create("sgd", {{"momentum", 1}}));
  EXPECT_NAMES_ITS_LINE(optim::create("sdg"));
  EXPECT_NAMES_ITS_LINE(FactorScheduler({.step = 0}));
  EXPECT_NAMES_ITS_LINE(MultiFactorScheduler({}));
  EXPECT_NAMES_ITS_LINE(PolyScheduler({.pwr = -1}));
  EXPECT_NAMES_ITS_LINE(CosineScheduler({.max_update = 0}));
  EXPECT_NAMES_ITS_LINE(ConstantScheduler({.base_lr = -1}));
}

TEST_F(EntryLines, OfParametersAndTheirGradients) {
  nn::Sequential net = this->net();
  const nn::Parameter weight = net.parameter("0.weight");
  EXPECT_NAMES_ITS_LINE(weight.data());
  EXPECT_NAMES_ITS_LINE(weight.grad());
  EXPECT_NAMES_ITS_LINE(weight.list_data());
  EXPECT_NAMES_ITS_LINE(weight.list_grad());
  EXPECT_NAMES_ITS_LINE(nn::gradients(net));
  const nn::Parameter none;
  EXPECT_NAMES_ITS_LINE(none.zero_grad());
  EXPECT_NAMES_ITS_LINE(clip_global_norm({x_}, -1));
  EXPECT_NAMES_ITS_LINE(clip_to_norm({x_}, y_, 1));
  EXPECT_NAMES_ITS_LINE(clip_value({}, 1));
  EXPECT_NAMES_ITS_LINE(global_norm({}));
  EXPECT_NAMES_ITS_LINE(all_finite({}));
}

TEST_F(EntryLines, OfCompiledSteps) {
  nn::Sequential net = this->net();
  net(x_);
  nn::Trainer trainer(net.parameters(), optim::SGD());
  amp::LossScaler scaler;
  nn::TrainStep plain(net, nn::L2Loss(), trainer);
  nn::TrainStep scaled(net, nn::L2Loss(), trainer, scaler);
  nn::TrainStep own([&](const Tensor&) -> Tensor { throw ValueError("no such step"); }, trainer);
  EXPECT_NAMES_ITS_LINE(plain(wide_, y_));
  EXPECT_NAMES_ITS_LINE(plain(x_, wide_));
  EXPECT_NAMES_ITS_LINE(plain(x_));
  EXPECT_NAMES_ITS_LINE(scaled(wide_, y_));
  EXPECT_NAMES_ITS_LINE(own(x_));
}

TEST_F(EntryLines, OfLossScalers) {
  nn::Sequential net = this->net();
  net(x_);
  nn::Trainer trainer(net.parameters(), optim::SGD());
  amp::LossScaler scaler;
  EXPECT_NAMES_ITS_LINE(scaler.step(trainer, 4));
  EXPECT_NAMES_ITS_LINE(scaler.scale(Tensor()));
}

TEST_F(EntryLines, OfStores) {
  const auto store = kvstore::create("local");
  store->init(3, x_);
  EXPECT_NAMES_ITS_LINE(store->init(3, x_));
  EXPECT_NAMES_ITS_LINE(store->init(kvstore::Keys{5, 6}, Tensors{x_}));
  EXPECT_NAMES_ITS_LINE(store->push(4, x_));
  EXPECT_NAMES_ITS_LINE(store->push(3, wide_));
  EXPECT_NAMES_ITS_LINE(store->push(3, Tensors{wide_}));
  EXPECT_NAMES_ITS_LINE(store->pull(3, wide_));
  EXPECT_NAMES_ITS_LINE(store->pull(3, Tensors{wide_}));
  EXPECT_NAMES_ITS_LINE(store->pushpull(3, Tensors{wide_}));
  EXPECT_NAMES_ITS_LINE(store->broadcast(3, wide_, Tensors{wide_}));
  store->set_optimizer(optim::SGD());
  EXPECT_NAMES_ITS_LINE(store->save_optimizer_states("/nowhere/states"));
  EXPECT_NAMES_ITS_LINE(store->load_optimizer_states("/nowhere/states"));
}

TEST_F(EntryLines, OfCheckpoints) {
  nn::Sequential net = this->net();
  net(x_);
  const checkpoint::Parts parts{net};
  EXPECT_NAMES_ITS_LINE(checkpoint::save("/proc/nowhere", parts));
  const Folder folder;
  checkpoint::save(folder / "all", parts);
  const checkpoint::Parts more{net, checkpoint::Part(net).named("other")};
  EXPECT_NAMES_ITS_LINE(checkpoint::load(folder / "all", more));
}

TEST_F(EntryLines, OfNetworksOverSeveralContexts) {
  nn::Sequential net = this->net();
  net(x_);
  nn::Pipeline pipeline({nn::Dense(3), nn::Dense(2)}, {cpu(0), cpu(1)}, {.microbatches = 3});
  pipeline.initialize();
  EXPECT_NAMES_ITS_LINE(pipeline.forward_backward(x_, y_, nn::L2Loss()));
  EXPECT_NAMES_ITS_LINE(nn::Pipeline({nn::Dense(3)}, {cpu(0), cpu(1)}));
  EXPECT_NAMES_ITS_LINE(nn::Planned(net, nn::Plan()));
  EXPECT_NAMES_ITS_LINE(net.on_replicas({x_, x_}));
  EXPECT_NAMES_ITS_LINE(net.on_replicas({wide_}));
  EXPECT_NAMES_ITS_LINE(split_and_load(x_, {cpu(0), cpu(1), cpu(2)}));
}

TEST_F(EntryLines, OfData) {
  const data::Dataset set(x_, y_);
  EXPECT_NAMES_ITS_LINE(data::Dataset(x_, ones({5})));
  EXPECT_NAMES_ITS_LINE(data::mnist("/nowhere", data::train));
  EXPECT_NAMES_ITS_LINE(data::fashion_mnist("/nowhere", data::test));
  EXPECT_NAMES_ITS_LINE(data::cifar10("/nowhere", data::train));
  EXPECT_NAMES_ITS_LINE(data::read_idx("/nowhere"));
  EXPECT_NAMES_ITS_LINE(data::DataLoader(set, {.batch_size = 0}));
  EXPECT_NAMES_ITS_LINE(data::Prefetcher(set, {.batch_size = 0}));
  EXPECT_NAMES_ITS_LINE(data::Prefetcher(4, data::Decode()));
  const auto fails = [](int64_t) -> data::Sample { throw ValueError("no such sample"); };
  data::Prefetcher failing(4, fails);
  EXPECT_NAMES_ITS_LINE(failing.begin());
  const auto bad = [](const Tensor&, const data::Draw&) -> Tensor { throw ValueError("no"); };
  data::DataLoader loader(set, {.batch_size = 4, .transform = data::Transform(bad)});
  EXPECT_NAMES_ITS_LINE(*loader.begin());
}

TEST_F(EntryLines, OfMetrics) {
  metric::Accuracy accuracy;
  metric::CompositeEvalMetric all;
  all.add(std::make_shared<metric::Accuracy>());
  EXPECT_NAMES_ITS_LINE(accuracy.update(wide_, x_));
  EXPECT_NAMES_ITS_LINE(all.update(wide_, x_));
  EXPECT_NAMES_ITS_LINE(accuracy.update(Tensors{x_}, Tensors{}));
}

TEST_F(EntryLines, OfAnIteratorAtItsEnd) {
  const data::Dataset set(x_, y_);
  data::DataLoader loader(set, {.batch_size = 4});
  auto i = loader.begin();
  EXPECT_EQ((*i).data.shape(), Shape({4, 2}));
  ++i;
  ASSERT_TRUE(i == loader.end());
  EXPECT_THROW(*i, IndexError);
  EXPECT_THROW(++i, IndexError);
  EXPECT_THROW(*data::DataLoader::Iterator(), IndexError);
  data::Prefetcher prefetcher(set, {.batch_size = 4});
  auto p = prefetcher.begin();
  EXPECT_EQ((*p).data.shape(), Shape({4, 2}));
  ++p;
  ASSERT_TRUE(p == prefetcher.end());
  EXPECT_THROW(*p, IndexError);
  EXPECT_THAT(message_of<IndexError>([&] { ++p; }),
              testing::HasSubstr("Prefetcher: ++ of an iterator at the end"));
  EXPECT_THROW(*data::Prefetcher::Iterator(), IndexError);
}

}  // namespace
}  // namespace locus::test
