// The training programs' networks and options.
#include <fstream>

#include <locus/nn/block.h>
#include <locus/nn/clip.h>
#include <locus/nn/containers.h>
#include <locus/nn/data.h>
#include <locus/nn/layers.h>
#include <locus/nn/schedule.h>
#include <locus/ops/create.h>
#include "common/measure.h"
#include "tests/support/contexts.h"
#include "tests/support/folder.h"
#include "training/classes.h"
#include "training/models.h"
#include "training/options.h"

namespace locus::test {
namespace {

int64_t parameters(const nn::Block& net) {
  int64_t n = 0;
  for (const Tensor& g : nn::gradients(net)) n += g.size();
  return n;
}

TEST(TrainingModels, AreThoseOfTheirPapers) {
  nn::Sequential lenet = training::lenet(), small = training::resnet(3),
                 large = training::resnet18();
  for (nn::Sequential* net : {&lenet, &small, &large}) net->initialize();
  EXPECT_EQ(lenet(zeros({2, 1, 28, 28})).shape(), (Shape{2, 10}));
  EXPECT_EQ(parameters(lenet), 431080);
  EXPECT_EQ(small(zeros({2, 3, 32, 32})).shape(), (Shape{2, 10}));
  EXPECT_EQ(parameters(small),
            269722 + 16 * 32 + 32 * 64 + 2 * (32 + 64));  // with 1x1 convolutions
  EXPECT_EQ(large(zeros({2, 3, 64, 64})).shape(), (Shape{2, 1000}));
  EXPECT_EQ(nn::gradients(large).size(), 62u);
  EXPECT_EQ(parameters(large), 11689512);  // torchvision's
}

TEST(TrainingClassifier, NamesItsPlanAndAllOfItsContexts) {
  const Folder folder;
  const std::string plan = (folder.path / "two.plan").string();
  std::ofstream(plan) << "plan-1\nlayers 0-1 on cpu(0), cpu(1)\n";
  const data::Dataset set = data::ArrayDataset(zeros({4, 6}), zeros({4}));
  const auto where = [&](const std::string& file) {
    nn::Sequential net;
    net.add(nn::Dense(4), nn::Dense(3));
    training::Options o;
    o.plan = file;
    o.context = "cpu(0)";
    o.batch_size = 4;
    testing::internal::CaptureStdout();
    const training::Classifier classifier({.program = "some",
                                           .network = "net",
                                           .data = "data",
                                           .net = net,
                                           .train = set,
                                           .test = set},
                                          o);
    testing::internal::GetCapturedStdout();
    return classifier.where();
  };
  EXPECT_EQ(where(plan), "data over 2; " + examples::describe(std::vector{cpu(0), cpu(1)}));
  EXPECT_EQ(where(""), examples::describe(cpu(0)));
}

TEST(TrainingOptions, SeveralProcessesThatWouldTrainAloneAreRefused) {
  const training::Options alone;
  training::join(alone);
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  EXPECT_THAT(message_of<Error>([&] { training::join(alone); }),
              testing::AllOf(testing::HasSubstr("started 4 of these"),
                             testing::HasSubstr("expected --distributed")));
  unsetenv("OMPI_COMM_WORLD_SIZE");
}

TEST(TrainingOptions, SchedulesRiseToTheRateAndFallFromIt) {
  training::Options o;
  o.lr = 1, o.warmup = 10;
  const auto rates = [&](const char* schedule, std::vector<int64_t> updates) {
    o.schedule = schedule;
    const optim::LRScheduler f = training::make_schedule(o, 100);
    std::vector<double> all;
    for (const int64_t n : updates) all.push_back(f(n));
    return all;
  };
  EXPECT_THAT(rates("constant", {1, 5, 10, 100}), testing::ElementsAre(.1, .5, 1, 1));
  EXPECT_THAT(rates("steps", {1, 10, 50, 51, 75, 76, 100}),
              testing::Pointwise(testing::DoubleEq(), {.1, 1., 1., .1, .1, .01, .01}));
  const std::vector<double> cosine = rates("cosine", {1, 10, 55, 100});
  EXPECT_EQ(cosine[0], .1);
  EXPECT_EQ(cosine[1], 1);
  EXPECT_NEAR(cosine[2], .5, 1e-12);
  EXPECT_NEAR(cosine[3], 0, 1e-12);
  o.warmup = 100;
  EXPECT_THAT(message_of<ValueError>([&] { training::make_schedule(o, 100); }),
              testing::HasSubstr("--warmup 100: expected less than the run's 100 steps"));
  o.warmup = 0;
  for (const int64_t steps : {1, 2, 3}) {
    o.schedule = "steps";
    EXPECT_EQ(training::make_schedule(o, steps)(1), 1);
  }
}

}  // namespace
}  // namespace locus::test
