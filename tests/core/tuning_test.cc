// Choices between ways to compute: measured, and kept in a file and in checkpoints.
#include <locus/core/tuning.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <locus/core/base/lru.h>
#include <locus/core/base/text.h>
#include <locus/core/compile.h>
#include <locus/core/device.h>
#include <locus/core/kernel.h>
#include <locus/core/op.h>
#include <locus/core/scratch.h>
#include <locus/core/stream.h>
#include <locus/nn/checkpoint.h>
#include <locus/nn/checkpoint/checkpoint_part.h>
#include <locus/ops/create.h>
#include "tests/support/contexts.h"
#include "tests/support/folder.h"

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
  std::string file() const { return (folder_ / "deep" / "choices.json").string(); }
  std::string written() const {
    std::ostringstream text;
    text << std::ifstream(file()).rdbuf();
    return text.str();
  }
  void write(const std::string& text) const {
    fs::create_directories(fs::path(file()).parent_path());
    std::ofstream(file()) << text;
  }

  const test::Folder own_;
  const fs::path folder_ = own_.path;
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

TEST_F(Tuning, ThreadsMeasureAKeyOnceAndOneAfterTheOther) {
  Choices choices;
  std::atomic<int> runs{0}, at_once{0}, most{0};
  const auto ms = [&](size_t i) {
    ++runs;
    most = std::max(most.load(), ++at_once);
    std::this_thread::yield();
    --at_once;
    return static_cast<double>(i);
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] { choices.fastest(t % 2 ? "a" : "b", kWays, ms); });
  for (std::thread& t : threads) t.join();
  int once = 0;
  Choices().fastest("a", kWays, times({1, 2, 3}, &once));
  EXPECT_EQ(runs, 2 * once);
  EXPECT_EQ(most, 1);
}

TEST_F(Tuning, AKeysTextIsMadeOnceUntilChoicesChange) {
  Choices choices;
  tuning::Lookup<std::array<int64_t, 1>, size_t, HashNumbers> lookup(choices);
  int texts = 0;
  const auto find = [&](int64_t key) {
    return lookup.find(
        {key},
        [&] {
          ++texts;
          return std::to_string(key);
        },
        [](const std::string& way) { return way.size(); });
  };
  choices.set({{"1", "abc"}});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(find(1), 3u);
    EXPECT_EQ(find(2), std::nullopt);
  }
  EXPECT_EQ(texts, 2);
  choices.set({{"2", "ab"}});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(find(1), 3u);
    EXPECT_EQ(find(2), 2u);
  }
  EXPECT_EQ(texts, 4);
}

// Writes the lengths of the chosen ways' names for two keys.
void lengths_kernel(const Call& call) {
  for (int i = 0; i < 2; ++i)
    call.out[0].as<float>()[i] = static_cast<float>(tuning::kept<size_t>(
        [&] { return tuning::choices().find(text_of("tuning_test ", i)).value_or("").size(); }));
}
DType lengths_infer(std::span<const Meta> in, const NoAttrs&, std::span<Meta> out) {
  out[0] = in[0];
  return f32;
}
const Op& lengths_op() {
  static const Op& op = OpDef<>("lengths_of_ways", {"x"})
                            .infer<&lengths_infer>()
                            .no_gradient("it is of a test")
                            .no_samples("it is of a test")
                            .kernel(DeviceType::cpu, f32, &lengths_kernel);
  return op;
}

TEST_F(Tuning, ARecordedCallKeepsTheWaysThatItRanInFirst) {
  using Lengths = std::vector<float>;
  const tuning::Table first{{"tuning_test 0", "a"}, {"tuning_test 1", "bc"}};
  tuning::choices().set(first);
  const Tensor x = zeros({2});
  Compiled f([](const Tensors& in) { return Tensors{invoke(lengths_op(), {in[0]})}; });
  EXPECT_EQ(f({x})[0].to_vector<float>(), (Lengths{1, 2}));
  tuning::choices().set({{"tuning_test 0", "abc"}, {"tuning_test 1", ""}});
  EXPECT_EQ(invoke(lengths_op(), {x}).to_vector<float>(), (Lengths{3, 0}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f({x})[0].to_vector<float>(), (Lengths{1, 2}));
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
  for (const char* text : {"", "{", "[]", R"({"format": "locus choices", "version": 1})",
                           R"({"format": "locus choices", "version": 1, "choices": {"a": 1}})",
                           R"({"format": "other", "version": 1, "choices": {}})",
                           R"({"format": "locus choices", "version": 2, "choices": {}})"}) {
    write(text);
    EXPECT_THAT(test::message_of<FormatError>([&] { Choices choices(file()); }), HasSubstr(file()))
        << text;
    EXPECT_EQ(written(), text);
  }
}

TEST_F(Tuning, AFileThatCannotBeReadIsNotTakenForNone) {
  fs::create_directories(fs::path(file()).parent_path());
  fs::create_symlink(file(), file());
  EXPECT_THAT(test::message_of<Error>([&] { Choices choices(file()); }),
              HasSubstr("cannot read " + file()));
}

TEST_F(Tuning, AFileThatIsNoneIsNeitherReadNorReplaced) {
  fs::create_directories(file());
  for (const std::string& name : {file(), std::string("/dev/null")})
    EXPECT_THAT(test::message_of<Error>([&] { Choices choices(name); }),
                testing::AllOf(HasSubstr("cannot read " + name), HasSubstr("LOCUS_TUNE_FILE")));
}

TEST_F(Tuning, AFileThatCannotBeWrittenIsFoundBeforeAnythingRuns) {
  std::ofstream(folder_ / "deep") << "not a folder";
  Choices choices(file());
  int runs = 0;
  const auto f = [&] { choices.fastest("a", kWays, times({1, 2, 3}, &runs)); };
  EXPECT_THAT(test::message_of<Error>(f),
              testing::AllOf(HasSubstr("LOCUS_TUNE_FILE"), HasSubstr("choices.json")));
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
    wait_all();
    memory_pool(c).release_cached();  // also blocks that earlier tests freed
    const size_t before = memory_pool(c).stats().in_use;
    int runs = 0;
    const tuning::Timed timed(call, [&] {
      const Scratch scratch(call, 4096);
      ++runs;
    });
    EXPECT_GE(timed.milliseconds(), 0) << c;
    EXPECT_EQ(runs, 1);
    EXPECT_EQ(memory_pool(c).stats().in_use, before);
  }
}

}  // namespace
}  // namespace locus
