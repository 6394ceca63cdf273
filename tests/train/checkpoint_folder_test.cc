// Which files savers leave in a checkpoint folder.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include <locus/nn/activation_layers.h>
#include <locus/nn/checkpoint.h>
#include <locus/nn/containers.h>
#include <locus/nn/layers.h>
#include "tests/support/contexts.h"
#include "tests/support/folder.h"

namespace locus {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

nn::Sequential network() {
  nn::Sequential net;
  net.add(nn::Dense(3, nn::relu, {.in_units = 2}));
  return net;
}

class CheckpointFolder : public testing::Test {
 protected:
  std::string folder() const { return folder_.string(); }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& e : fs::directory_iterator(folder_)) all.push_back(e.path().filename());
    std::ranges::sort(all);
    return all;
  }

  const test::Folder own_;
  const fs::path folder_ = own_ / "run";
};

TEST_F(CheckpointFolder, TheNewestStayAndWhatWasLeftHalfIsSwept) {
  nn::Sequential net = network();
  net.initialize();
  for (int i = 0; i < 4; ++i) checkpoint::save(folder(), {net}, {.keep = 2});
  char host[256];
  gethostname(host, sizeof host);
  const std::string draft = ".checkpoint-000009-" + std::string(host) + "-";
  fs::create_directories(folder_ / (draft + "2147483646"));
  EXPECT_EQ(checkpoint::save(folder(), {net}, {.keep = 3}), folder_ / "checkpoint-000005");
  EXPECT_THAT(names(), ElementsAre("checkpoint-000003", "checkpoint-000004", "checkpoint-000005"));
  EXPECT_THROW(checkpoint::save(folder(), {net}, {.keep = 0}), ValueError);
}

TEST_F(CheckpointFolder, DraftsOfOtherHostsStay) {
  nn::Sequential net = network();
  net.initialize();
  const char* const theirs = ".checkpoint-000009-another.host-2147483646";
  fs::create_directories(folder_ / theirs);
  checkpoint::save(folder(), {net});
  EXPECT_THAT(names(), ElementsAre(theirs, "checkpoint-000001"));
}

TEST_F(CheckpointFolder, FoldersOfOthersStay) {
  nn::Sequential net = network();
  net.initialize();
  for (const char* name : {"checkpoint-500", "checkpoint-18446744073709551615"}) {
    fs::create_directories(folder_ / name);
    std::ofstream(folder_ / name / "pytorch_model.bin") << "theirs";
  }
  for (int i = 0; i < 4; ++i) checkpoint::save(folder(), {net}, {.keep = 2});
  EXPECT_THAT(names(), ElementsAre("checkpoint-000503", "checkpoint-000504",
                                   "checkpoint-18446744073709551615", "checkpoint-500"));
  EXPECT_TRUE(fs::exists(folder_ / "checkpoint-500" / "pytorch_model.bin"));
}

TEST_F(CheckpointFolder, SaversIntoOneFolderTakeTurns) {
  constexpr int kSavers = 4, kEach = 5;
  std::vector<std::thread> savers;
  std::atomic<int> written = 0;
  for (int i = 0; i < kSavers; ++i)
    savers.emplace_back([&] {
      nn::Sequential net = network();
      net.initialize();
      for (int k = 0; k < kEach; ++k) {
        checkpoint::save(folder(), {net}, {.keep = 100});
        ++written;
      }
    });
  for (std::thread& t : savers) t.join();
  EXPECT_EQ(written, kSavers * kEach);
  EXPECT_EQ(names().size(), size_t{kSavers * kEach});
}

}  // namespace
}  // namespace locus
