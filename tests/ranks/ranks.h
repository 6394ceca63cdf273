// Tests of several ranks. tests/cluster.sh starts this program by mpirun with TEST_RANKS=1; each
// rank runs each test of ClusterRanks.
#pragma once

#include <cstdlib>
#include <map>
#include <string>

#include <locus/core/autograd.h>
#include <locus/core/cluster.h>
#include <locus/core/generator.h>
#include <locus/core/ranks/rank_calls.h>
#include <locus/nn/activation_layers.h>
#include <locus/nn/checkpoint.h>
#include <locus/nn/containers.h>
#include <locus/nn/data.h>
#include <locus/nn/kvstore.h>
#include <locus/nn/layers.h>
#include <locus/nn/sync_norm.h>
#include <locus/nn/train_step.h>
#include <locus/ops/random.h>
#include <locus/ops/reduce.h>
#include "tests/train/training.h"

namespace locus::test::ranks {

using Values = std::vector<std::vector<double>>;

constexpr int kSteps = 100;
constexpr int64_t kBatch = 24;

struct How {
  DType dtype = f64;
  double clip = 0;
  bool compiled = false;
  bool norm = false;  // over all replicas
  friend auto operator<=>(const How&, const How&) = default;
};

// Training of a small network, from values that differ from rank to rank.
class Training {
 public:
  Training(How how, const Contexts& where, const nn::TrainerOptions& options = {})
      : how_(how), where_(where) {
    net_.add(nn::Dense(16, nn::tanh, {.in_units = 8}));
    if (how.norm) net_.add(nn::SyncBatchNorm({.in_channels = 16}));
    net_.add(nn::Dense(4, {}, {.in_units = 16}));
    net_.cast(how.dtype);
    random::seed(3 + static_cast<uint64_t>(cluster::rank()));
    net_.initialize(init::Xavier(), where);
    trainer_ = std::make_unique<nn::Trainer>(
        net_.parameters(), optim::SGD({.learning_rate = .1, .momentum = .9, .wd = 1e-3}), options);
    random::seed(17);
    const Tensor x = random::normal(0, 1, {240, 8}, {cpu(), how.dtype});
    std::vector<int> y(240);
    for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<int>(i * i % 4);
    loader_ =
        std::make_unique<data::DataLoader>(data::Dataset(x, array(y, {cpu(), i32})),
                                           data::LoaderOptions{.batch_size = kBatch,
                                                               .shuffle = true,
                                                               .seed = 9,
                                                               .num_parts = cluster::size(),
                                                               .part_index = cluster::rank()});
  }

  // Trains up to step `steps`.
  Values run(int steps) {
    const nn::SoftmaxCrossEntropyLoss loss;
    nn::TrainStep compiled(net_, loss, *trainer_);
    while (trainer_->num_update() < steps)
      for (const auto& [x, y] : *loader_) {
        if (how_.compiled) {
          compiled(x, y);
          if (trainer_->num_update() == steps) break;
          continue;
        }
        const Tensors xs = split_and_load(x, where_), ys = split_and_load(y, where_);
        Tensors losses;
        {
          const autograd::Record record;
          const Tensors outs = net_.on_replicas(xs);
          for (size_t i = 0; i < xs.size(); ++i) losses.push_back(loss(outs[i], ys[i]));
        }
        autograd::backward(losses);
        if (how_.clip > 0) trainer_->clip_global_norm(how_.clip, kBatch);
        trainer_->step(kBatch);
        if (trainer_->num_update() == steps) break;
      }
    Values all;
    for (const auto& [name, p] : net_.parameters()) {
      all.push_back(values(p.list_data()[0]));
      for (const Tensor& replica : p.list_data()) EXPECT_EQ(values(replica), all.back());
    }
    return all;
  }
  checkpoint::Parts parts() { return {net_, *trainer_, *loader_}; }

 private:
  How how_;
  Contexts where_;
  nn::Sequential net_;
  std::unique_ptr<nn::Trainer> trainer_;
  std::unique_ptr<data::DataLoader> loader_;
};

inline double tolerance(DType d) { return d == f64 ? 1e-12 : 1e-4; }

inline std::string hash(const Values& values) {
  std::string bytes;
  for (const auto& v : values)
    bytes.append(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(double));
  return std::to_string(cluster::hash_of(bytes));
}

// Made before cluster::init().
struct Early {
  nn::Dense net{1, {}, {.in_units = 2}};
  nn::Trainer trainer{net.parameters(), optim::SGD({.learning_rate = .1})};
  nn::TrainStep step{net, nn::L2Loss(), trainer};
  nn::Parameter beside{"beside", {2}, {.init = init::Zero()}},
      kept{"kept", {2}, {.init = init::Zero()}};
  std::unique_ptr<nn::Trainer> overlaps, stores;
  Early() {
    for (const nn::Parameter& p : {beside, kept}) p.initialize(init::Zero(), {cpu(0), cpu(1)});
    const auto sgd = optim::SGD({.learning_rate = 1});
    overlaps = std::make_unique<nn::Trainer>(nn::Parameters{{"p", beside}}, sgd,
                                             nn::TrainerOptions{.overlap = true});
    stores = std::make_unique<nn::Trainer>(
        nn::Parameters{{"p", kept}}, sgd, nn::TrainerOptions{.kvstore = kvstore::create("device")});
  }
};

class ClusterRanks : public testing::Test {
 protected:
  // Computes the results of one process before the process joins the cluster.
  static void SetUpTestSuite() {
    if (!std::getenv("TEST_RANKS")) return;
    for (const How how :
         {How{f32}, How{f64}, How{f64, .05}, How{f32, 0, false, true}, How{f64, 0, false, true}}) {
      Training alone(how, cpu());
      one_process[how] = alone.run(kSteps);
    }
    early = std::make_unique<Early>();
    cluster::init();
  }
  static void TearDownTestSuite() { early.reset(); }
  void SetUp() override {
    if (!std::getenv("TEST_RANKS"))
      GTEST_SKIP() << "needs MPI: tests/cluster.sh starts its ranks by mpirun";
    ASSERT_GE(cluster::size(), 2);
  }
  static inline std::map<How, Values> one_process;
  static inline std::unique_ptr<Early> early;
};

// Contexts that each rank can use here.
inline std::vector<Contexts> places() {
  std::vector<Contexts> all{cpu(), {cpu(0), cpu(1)}};
  for (int n = 1; n * cluster::local_size() <= num_gpus(); ++n)
    all.emplace_back(cluster::contexts(n));
  return all;
}

}  // namespace locus::test::ranks
