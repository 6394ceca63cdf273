// The training programs on several ranks (tests/ranks/ranks.h).
#include <csignal>

#include <unistd.h>

#include <locus/core/cluster.h>
#include <locus/core/generator.h>
#include <locus/nn/containers.h>
#include "tests/ranks/ranks.h"
#include "training/digits.h"
#include "training/models.h"
#include "training/options.h"

namespace locus::test::ranks {
namespace {

TEST_F(ClusterRanks, HaveTheStatisticsOfOneResNet) {
  const int64_t n = 2 * cluster::size(), mine = 2 * cluster::rank();
  const Tensor x = sample_values(cpu(), f32, {n, 3, 8, 8}) + 2;
  const auto statistics = [](nn::Sequential net, const Tensor& batch) {
    random::seed(4);
    net.initialize(init::Xavier());
    const autograd::TrainMode train;
    net(batch);
    Values all;
    for (const auto& [name, p] : net.parameters())
      if (name.find("running") != name.npos) all.push_back(values(p.data()));
    return all;
  };
  const Values one = statistics(training::resnet(1), x);
  EXPECT_FALSE(one.empty());
  expect_close(statistics(training::resnet(1, true), x(Slice(mine, mine + 2))), one, 1e-4);
}

TEST_F(ClusterRanks, AreNotGivenOneGpu) {
  if (num_gpus() > 0 && num_gpus() < cluster::size())
    GTEST_SKIP() << "needs a GPU for each of " << cluster::size() << " ranks, or none";
  training::Options options;
  EXPECT_NO_THROW(training::choose_context(options));
  if (num_gpus() == 0) GTEST_SKIP() << "needs a GPU";
  options.context = "gpu(0)";
  EXPECT_THAT(message_of<Error>([&] { training::choose_context(options); }),
              testing::HasSubstr("each rank has a GPU of its own"));
}

// Longer than LOCUS_CLUSTER_TIMEOUT.
TEST_F(ClusterRanks, DISABLED_OneReadsItsDataForLong) {
  if (cluster::rank() == 1) {
    std::signal(SIGALRM, [](int) { ::sleep(5); });
    ::ualarm(100000, 0);
  }
  EXPECT_EQ(training::load_digits("", 1).train.size(), 20000);
  training::Options options;
  options.context = "cpu(0)";
  EXPECT_EQ(training::choose_context(options), cpu(0));
}

}  // namespace
}  // namespace locus::test::ranks
