// Choices between ways to compute: found by time, kept in a file and in checkpoints.
#include <locus/core/tuning.h>

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <locus/core/scratch.h>
#include <locus/locus.h>
#include "tests/contexts.h"

namespace locus {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using tuning::Choices;

const std::vector<std::string> kWays{"ours", "ours 2", "library"};

class Tuning : public testing::Test {
 protected:
  Tuning() : folder_(fs::temp_directory_path() / ("locus_tuning_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
  }
  ~Tuning() override { fs::remove_all(folder_); }
  std::string file() const { return (folder_ / "deep" / "plans.json").string(); }
  std::string written() const {
    std::ostringstream text;
    text << std::ifstream(file()).rdbuf();
    return text.str();
  }
  void write(const std::string& text) const {
    fs::create_directories(fs::path(file()).parent_path());
    std::ofstream(file()) << text;
  }

  const fs::path folder_;
};

auto times(std::vector<double> ms, int* runs = nullptr) {
  return [ms = std::move(ms), runs](size_t i) {
    if (runs) ++*runs;
    return ms[i];
  };
}

TEST_F(Tuning, TheFastestWayIsChosenAndTheFirstOfEquals) {
  Choices choices;
  EXPECT_FALSE(choices.any());
  EXPECT_EQ(choices.find("a"), std::nullopt);
  EXPECT_EQ(choices.fastest("a", kWays, times({3, 1, 2})), "ours 2");
  EXPECT_EQ(choices.fastest("b", kWays, times({2, 2, 2})), "ours");
  EXPECT_EQ(choices.find("a"), "ours 2");
  EXPECT_TRUE(choices.any());
}

TEST_F(Tuning, TheFirstRunOfEachDoesNotCountAndOneSlowRunDoesNotDecide) {
  Choices choices;
  int runs[3] = {};
  const auto ms = [&](size_t i) {
    const int run = runs[i]++;
    if (run == 0) return i == 0 ? 0.5 : 100.0;
    return i == 2 && run == 3 ? 50.0 : 3.0 - static_cast<double>(i);
  };
  EXPECT_EQ(choices.fastest("a", kWays, ms), "library");
  EXPECT_EQ(runs[0], runs[2]);
}

TEST_F(Tuning, WaysWithoutMemoryAreLeftOutUnlessAllAre) {
  Choices choices;
  const auto some = [](size_t i) -> double {
    if (i == 2) throw OutOfMemory("none left");
    return 2.0 - static_cast<double>(i);
  };
  EXPECT_EQ(choices.fastest("a", kWays, some), "ours 2");
  const auto all = [](size_t) -> double { throw OutOfMemory("none left"); };
  EXPECT_THROW(choices.fastest("b", kWays, all), OutOfMemory);
  EXPECT_EQ(choices.find("b"), std::nullopt);
}

TEST_F(Tuning, TheFileIsReadByTheNextProcess) {
  Choices(file()).fastest("a", kWays, times({3, 1, 2}));
  Choices(file()).fastest("b", kWays, times({3, 2, 1}));
  EXPECT_THAT(Choices(file()).table(), ElementsAre(Pair("a", "ours 2"), Pair("b", "library")));
  EXPECT_THAT(tuning::from_json(written(), file()), testing::SizeIs(2));
}

TEST_F(Tuning, WhatAnotherProcessChoseMeanwhileCounts) {
  Choices first(file()), second(file());
  EXPECT_EQ(first.fastest("a", kWays, times({3, 1, 2})), "ours 2");
  EXPECT_EQ(second.fastest("a", kWays, times({1, 2, 3})), "ours 2");
  EXPECT_EQ(second.find("a"), "ours 2");
}

TEST_F(Tuning, ChoicesThatWereSetCountMoreThanTheFileAndStayOutOfIt) {
  Choices(file()).fastest("a", kWays, times({3, 1, 2}));
  Choices choices(file());
  choices.set({{"a", "library"}, {"c", "ours"}});
  EXPECT_EQ(choices.find("a"), "library");
  choices.fastest("b", kWays, times({3, 2, 1}));
  EXPECT_THAT(Choices(file()).table(), ElementsAre(Pair("a", "ours 2"), Pair("b", "library")));
}

TEST_F(Tuning, SeveralProcessesWriteOneFile) {
  constexpr int kProcesses = 4, kKeys = 20;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      Choices choices(file());
      for (int k = 0; k < kKeys; ++k) choices.fastest(text_of(p, ".", k), kWays, times({3, 1, 2}));
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(Choices(file()).table().size(), size_t{kProcesses * kKeys});
}

TEST_F(Tuning, ADamagedFileIsNamed) {
  for (const char* text : {"", "{", "[]", R"({"format": "locus plans", "version": 1})",
                           R"({"format": "locus plans", "version": 1, "choices": {"a": 1}})",
                           R"({"format": "other", "version": 1, "choices": {}})",
                           R"({"format": "locus plans", "version": 2, "choices": {}})"}) {
    write(text);
    EXPECT_THAT(test::message_of<FormatError>([&] { Choices choices(file()); }), HasSubstr(file()))
        << text;
    EXPECT_EQ(written(), text);
  }
}

TEST_F(Tuning, AFileThatCannotBeWrittenIsFoundBeforeAnythingRuns) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "deep") << "not a folder";
  Choices choices(file());
  int runs = 0;
  const auto f = [&] { choices.fastest("a", kWays, times({1, 2, 3}, &runs)); };
  EXPECT_THAT(test::message_of<Error>(f),
              testing::AllOf(HasSubstr("LOCUS_TUNE_FILE"), HasSubstr("plans.json")));
  EXPECT_EQ(runs, 0);
}

TEST_F(Tuning, ACheckpointBringsChoicesBack) {
  tuning::choices().set({{"tuning_test", "ours 2"}});
  std::vector<double> progress{1};
  const checkpoint::Parts parts{{"progress", {{"epoch", &progress}}}};
  const std::string folder = folder_.string();
  checkpoint::save(folder, parts);
  tuning::choices().set({{"tuning_test", "library"}});
  EXPECT_TRUE(checkpoint::load(folder, parts));
  EXPECT_EQ(tuning::choices().find("tuning_test"), "ours 2");
}

TEST_F(Tuning, TimesWorkOnADeviceWithoutKeepingItsMemory) {
  LOCUS_NEEDS_ANY_GPUS(1);
  for (Context c : gpus(num_gpus())) {
    const StreamView s = current_stream(c);
    const Call call{nullptr, nullptr, 0, 0, nullptr, 0, s};
    const size_t before = memory_pool(c).stats().in_use;
    int runs = 0;
    const double ms = tuning::milliseconds(call, [&] {
      const Scratch scratch(call, 4096);
      ++runs;
    });
    EXPECT_GE(ms, 0) << c;
    EXPECT_EQ(runs, 1);
    EXPECT_EQ(memory_pool(c).stats().in_use, before);
  }
}

}  // namespace
}  // namespace locus
