#include "common/program.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <locus/core/context.h>
#include <locus/core/error.h>
#include <locus/core/kernel.h>

#include "common/status.h"
#include "tests/support/contexts.h"
#include "tests/support/folder.h"

namespace examples {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;

// The contexts for --contexts or, if the program runs on one, --context; or the error.
std::string contexts_of(RunsOn runs_on, std::string contexts) {
  Program program("some", "Nothing.", runs_on);
  std::string args[] = {"some", runs_on == RunsOn::one ? "--context" : "--contexts",
                        std::move(contexts)};
  char* argv[] = {args[0].data(), args[1].data(), args[2].data()};
  std::string s;
  program.run(3, argv, [&](const Program& p) {
    try {
      for (const locus::Context c : p.contexts()) s += to_string(c) + ";";
    } catch (const locus::Error& e) {
      s = e.what();
    }
  });
  return s;
}

TEST(Program, RefusesContextsItWouldNotUse) {
  EXPECT_EQ(contexts_of(RunsOn::cpu_and_gpu, "cpu(0),cpu(1),cpu"),
            "--contexts: cpu(0) is given twice; expected each once");
  EXPECT_EQ(contexts_of(RunsOn::cpu_and_gpu, " cpu(0) , cpu(1)"), "cpu(0);cpu(1);");
  EXPECT_EQ(contexts_of(RunsOn::one, "cpu(1)"), "cpu(1);");
  EXPECT_EQ(contexts_of(RunsOn::one, "cpu(0),cpu(1)"),
            "--context: expected a context, such as cpu(0) or gpu(1), got \"cpu(0),cpu(1)\"");
  EXPECT_EQ(contexts_of(RunsOn::two_gpus, "cpu(0)"),
            "--contexts names 0 GPUs and cpu(0); some runs on two, name two different ones");
  LOCUS_NEEDS_ANY_GPUS(1);
  EXPECT_EQ(contexts_of(RunsOn::two_gpus, "gpu(0)"),
            "--contexts names 1 GPU; some runs on two, name two different ones");
}

TEST(Program, PlansAreForContextsOfOneKind) {
  const auto alike = [](std::vector<std::string> args) {
    Program program("some", "Nothing.", RunsOn::cpu_and_gpus);
    args.insert(args.begin(), "some");
    std::vector<char*> argv;
    for (std::string& a : args) argv.push_back(a.data());
    std::string s;
    program.run(static_cast<int>(argv.size()), argv.data(), [&](const Program& p) {
      try {
        for (const locus::Context c : p.alike()) s += to_string(c) + ";";
      } catch (const locus::Error& e) {
        s = e.what();
      }
    });
    return s;
  };
  EXPECT_EQ(alike({"--contexts", "cpu(0),cpu(1)"}), "cpu(0);cpu(1);");
  EXPECT_THAT(alike({"--contexts", "cpu_pinned(0)"}), HasSubstr("is memory for copies; expected"));
  const int gpus = locus::num_gpus();
  EXPECT_EQ(alike({}), gpus > 1 ? "gpu(0);gpu(1);" : gpus > 0 ? "gpu(0);" : "cpu(0);");
  LOCUS_NEEDS_ANY_GPUS(1);
  EXPECT_THAT(alike({"--contexts", "gpu(0),cpu(0)"}),
              testing::AllOf(HasSubstr("--contexts: "), HasSubstr("gpu(0) and cpu(0)"),
                             HasSubstr("different kinds; expected")));
}

TEST(Program, RunsOnWhatThereIs) {
  const auto count = [](RunsOn r) { return Program("some", "Nothing.", r).contexts().size(); };
  const size_t gpus = static_cast<size_t>(locus::num_gpus());
  EXPECT_EQ(count(RunsOn::one), 1);
  EXPECT_EQ(count(RunsOn::cpu_and_gpu), 1 + std::min<size_t>(1, gpus));
  EXPECT_EQ(count(RunsOn::cpu_and_gpus), 1 + std::min<size_t>(2, gpus));
  EXPECT_EQ(count(RunsOn::two_gpus), std::min<size_t>(2, gpus));
}

// The output for a refused command line, or for --help.
std::string said(std::vector<std::string> args) {
  Program program("some", "Nothing.", RunsOn::replicas);
  std::string name = "lenet";
  int n = 3, every = 0;
  bool fast = false;
  program.options()
      .add_option("--model", name, "the network: mlp or lenet")
      ->check(one_of({"mlp", "lenet"}))
      ->capture_default_str();
  CLI::Option* const count = program.options().add_option("--count", n, "products of a round");
  count->check(whole(1, 9))->capture_default_str();
  program.options().add_flag("--fast", fast, "in less time")->needs(count);
  program.options()
      .add_option("--every", every, "rounds of a report (default: none)")
      ->check(whole(1, 9))
      ->needs(count);
  args.insert(args.begin(), "build/some");
  std::vector<char*> argv;
  for (std::string& a : args) argv.push_back(a.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  program.run(static_cast<int>(argv.size()), argv.data(), [](const Program& p) { p.contexts(); });
  const std::string text = testing::internal::GetCapturedStderr();
  return testing::internal::GetCapturedStdout() + text.substr(0, text.find('\n'));
}

TEST(Program, SaysWhatAnOptionTakesAndWhatItGot) {
  EXPECT_EQ(said({"--count", "x"}),
            "some: --count: expected a whole number from 1 to 9, got \"x\"");
  EXPECT_EQ(said({"--count", "1.5"}),
            "some: --count: expected a whole number from 1 to 9, got \"1.5\"");
  EXPECT_EQ(said({"--model", "vgg"}), "some: --model: expected mlp or lenet, got \"vgg\"");
  EXPECT_EQ(said({"--count"}), "some: --count: no value follows; expected products of a round");
  EXPECT_EQ(said({"--out", ""}), "some: --out: given but empty; expected a value, or no --out");
  EXPECT_EQ(said({"--count", "1", "--count", "2"}), "some: --count: expected once, got 2 times");
  EXPECT_EQ(said({"--fast"}),
            "some: --fast: --count is missing; expected --fast together with --count");
  EXPECT_EQ(said({"--count", "1", "--fast=2"}), "some: --fast: a flag; expected no value after it");
  EXPECT_EQ(said({"--context", "cpu(0)"}),
            "some: --context: some has no such option; did you mean --contexts?");
  EXPECT_EQ(said({"--contexts", "tpu"}),
            "some: --contexts: expected a context, such as cpu(0) or gpu(1), got \"tpu\"");
  for (const std::string list : {"cpu(0),,cpu(1)", "cpu(0),", ",cpu(0)", ""})
    for (const auto& args : {std::vector{"--contexts"s, list}, {"--contexts=" + list}})
      EXPECT_EQ(said(args), "some: --contexts: an item of \"" + list + "\" is empty; expected " +
                                "items with a \",\" between them");
  EXPECT_THAT(said({"--contexts", "gpu(999)"}), HasSubstr("some: --contexts: gpu(999): "));
  EXPECT_THAT(said({"--contexts", "cpu(0),cpu_pinned(0)"}),
              HasSubstr("some: --contexts: cpu_pinned(0) is memory for copies; expected "));
}

TEST(Program, NamesAnUnknownOptionBeforeOneThatIsMissing) {
  Program program("some", "Nothing.", RunsOn::replicas);
  std::string file;
  program.options().add_option("--parameters", file, "file to read")->required();
  const auto refusal = [&](std::vector<std::string> args) {
    args.insert(args.begin(), "build/some");
    std::vector<char*> argv;
    for (std::string& a : args) argv.push_back(a.data());
    testing::internal::CaptureStderr();
    EXPECT_EQ(program.run(static_cast<int>(argv.size()), argv.data(), [](const Program&) {}), 2);
    const std::string text = testing::internal::GetCapturedStderr();
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(refusal({"--bogus", "1"}), "some: --bogus: some has no such option");
  EXPECT_EQ(refusal({"--parameter", "a"}),
            "some: --parameter: some has no such option; did you mean --parameters?");
  EXPECT_EQ(refusal({}), "some: --parameters: it is missing; expected the file to read");
}

TEST(Program, HelpTellsRangesDefaultsAndNeeds) {
  const std::string help = said({"--help"});
  EXPECT_THAT(help, HasSubstr("--count N                   products of a round, from 1 to 9 "
                              "(default: 3)\n"));
  EXPECT_THAT(help, HasSubstr("the network: mlp or lenet (default: lenet)\n"));
  EXPECT_THAT(help, HasSubstr("in less time (needs --count)\n"));
  EXPECT_THAT(help, HasSubstr("rounds of a report, from 1 to 9 (default: none; needs --count)\n"));
  size_t longest = 0;
  for (size_t at = 0, end = 0; (end = help.find('\n', at)) != help.npos; at = end + 1)
    longest = std::max(longest, end - at);
  EXPECT_LE(longest, 100u);
}

TEST(Program, TellsOfStagesWhereNobodyWatches) {
  testing::internal::CaptureStderr();
  {
    Status status;
    status.stage("one");
    status.show("one, a part of it");
    status.clear();
    status.stage("two");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "one\ntwo\n");
}

TEST(Program, LeavesNoFolderWhereItWroteNothing) {
  const locus::test::Folder folder;
  const std::filesystem::path out = folder.path / "program_out/deep";
  std::filesystem::remove_all(out.parent_path());
  Program program("some", "Nothing.", RunsOn::one);
  std::string args[] = {"some", "--out", out.string()};
  char* argv[] = {args[0].data(), args[1].data(), args[2].data()};
  EXPECT_EQ(program.run(3, argv,
                        [&](const Program& p) {
                          EXPECT_FALSE(std::filesystem::exists(out.parent_path()));
                          p.write("a.txt", "a");
                        }),
            0);
  EXPECT_TRUE(std::filesystem::exists(out / "a.txt"));
  std::filesystem::remove_all(out.parent_path());
}

TEST(Program, FailsBeforeItMeasuresWhenTheFolderCannotBeMade) {
  Program program("some", "Nothing.", RunsOn::one);
  for (std::string folder : {"/dev/null/out", "/proc/x/out"}) {
    std::string args[] = {"some", "--out", folder};
    char* argv[] = {args[0].data(), args[1].data(), args[2].data()};
    bool measured = false;
    testing::internal::CaptureStderr();
    EXPECT_EQ(program.run(3, argv, [&](const Program&) { measured = true; }), 1);
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("some: --out " + folder + ": cannot be created: "));
    EXPECT_FALSE(measured);
  }
}

}  // namespace
}  // namespace examples
