// Null pointers in values that a program builds are refused by the call that takes the value.
#include <locus/core/generator.h>
#include <locus/nn/containers.h>
#include <locus/nn/kvstore.h>
#include <locus/nn/layers.h>
#include <locus/nn/optimizer.h>
#include <locus/nn/pipeline.h>
#include <locus/ops/create.h>
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::HasSubstr;

TEST(NullPointers, AmongStages) {
  nn::Pipeline::Stages stages(nn::Dense(2), nn::Dense(2));
  stages.list[1] = nullptr;
  EXPECT_THAT(message_of<ValueError>([&] {
                nn::Pipeline(stages, {cpu(0), cpu(1)});
              }),
              HasSubstr("stage 1 is a null pointer"));
}

TEST(NullPointers, AsTheCountOfUpdates) {
  const Tensor w = ones({2});
  optim::ParameterGroup group{.weights = {w}, .gradients = {ones({2})}, .count = nullptr};
  optim::SGD sgd;
  EXPECT_THAT(message_of<ValueError>([&] { sgd.update(group, 1); }),
              HasSubstr("SGD: the group's count is a null pointer"));
  EXPECT_EQ(values(w), (std::vector<double>{1, 1}));
}

TEST(NullPointers, AmongDraws) {
  const random::Draws draws{std::make_shared<PhiloxKey>(), nullptr};
  EXPECT_THAT(message_of<ValueError>([&] { const random::RepeatDraws repeat(draws); }),
              HasSubstr("draw 1 of 2 is a null pointer"));
  EXPECT_FALSE(random::notes_or_repeats());
}

TEST(NullPointers, AsAKey) {
  EXPECT_THAT(message_of<ValueError>([] { kvstore::Key(static_cast<const char*>(nullptr)); }),
              HasSubstr("kvstore::Key: a null pointer"));
}

}  // namespace
}  // namespace locus::test
