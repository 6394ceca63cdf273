// What loading does if a part is damaged that the caller leaves out, or if restoring a part fails.
#include <filesystem>
#include <fstream>

#include <locus/core/generator.h>
#include <locus/nn/checkpoint.h>
#include <locus/nn/data.h>
#include <locus/nn/init.h>
#include <locus/nn/layers.h>
#include <locus/ops/create.h>
#include "tests/support/contexts.h"
#include "tests/support/folder.h"

namespace locus {
namespace {

namespace fs = std::filesystem;

class CheckpointRestore : public testing::Test {
 protected:
  CheckpointRestore() { set(1); }
  std::string folder() const { return own_ / "run"; }
  void set(double v) {
    net_.initialize(init::Constant(v), cpu(), {.force_reinit = true});
    before_ = after_ = {v};
  }
  double weight() const { return test::values(net_.parameter("weight").data())[0]; }

  const test::Folder own_;
  nn::Dense net_{1, {}, {.in_units = 2}};
  std::vector<double> before_, after_;
};

TEST_F(CheckpointRestore, ADamagedPartCountsEvenIfTheCallerLeavesItOut) {
  const checkpoint::Part extra("extra", {{"before", &before_}});
  const std::string whole = checkpoint::save(folder(), {net_, extra});
  set(2);
  const std::string damaged = checkpoint::save(folder(), {net_, extra});
  fs::resize_file(fs::path(damaged) / "extra.params", 10);
  set(3);
  const auto loaded = checkpoint::load(folder(), {net_});
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->path, whole);
  ASSERT_EQ(loaded->skipped.size(), 1u);
  EXPECT_THAT(loaded->skipped[0], testing::HasSubstr("extra.params has 10 bytes"));
  EXPECT_EQ(weight(), 1);
}

TEST_F(CheckpointRestore, APartThatDoesNotFitEndsTheSearch) {
  const data::Dataset samples(ones({8, 2}), zeros({8}));
  data::DataLoader twos(samples, {.batch_size = 2}), fours(samples, {.batch_size = 4});
  checkpoint::save(folder(), {net_, twos});
  checkpoint::save(folder(), {net_, fours});
  set(2);
  EXPECT_THROW(checkpoint::load(folder(), {net_, twos}), ValueError);
  EXPECT_EQ(weight(), 2);
  EXPECT_TRUE(checkpoint::load(folder(), {net_, fours}));
  EXPECT_EQ(weight(), 1);
}

TEST_F(CheckpointRestore, PartsBeforeOneThatFailsStayRestored) {
  const auto none = [] { return NamedTensors(); };
  const auto restores = [](bool fails) {
    return [fails](const NamedTensors&, const std::string&) -> std::function<void()> {
      return [fails] {
        if (fails) throw OutOfMemory("of this test");
      };
    };
  };
  const auto parts = [&](bool fails) {
    return checkpoint::Parts{checkpoint::Part("before", {{"numbers", &before_}}),
                             checkpoint::Part("failing", none, restores(fails)),
                             checkpoint::Part("after", {{"numbers", &after_}}), net_};
  };
  checkpoint::save(folder(), parts(false));
  set(2);
  random::seed(7);
  const PhiloxKey key = random::state();
  EXPECT_THROW(checkpoint::load(folder(), parts(true)), OutOfMemory);
  EXPECT_EQ(weight(), 1) << "networks come first";
  EXPECT_EQ(before_[0], 1);
  EXPECT_EQ(after_[0], 2);
  EXPECT_EQ(random::state().seed, key.seed);
  ASSERT_TRUE(checkpoint::load(folder(), parts(false)));
  EXPECT_EQ(after_[0], 1);
}

TEST_F(CheckpointRestore, AGeneratorResumesItsSequence) {
  random::Generator rng(3), other(4);
  random::normal(0, 1, {5});
  rng.normal(0, 1, {5});
  checkpoint::save(folder(), {rng, checkpoint::Part(other).named("other")});
  const auto next = rng.normal(0, 1, {5}).to_vector<float>();
  random::Generator resumed, second;
  ASSERT_TRUE(checkpoint::load(folder(), {resumed, checkpoint::Part(second).named("other")}));
  EXPECT_EQ(resumed.normal(0, 1, {5}).to_vector<float>(), next);
  EXPECT_EQ(second.state().seed, 4u);
}

}  // namespace
}  // namespace locus
