// The options that programs that measure share.
#include "common/program.h"

#include <algorithm>
#include <string>

#include <locus/core/error.h>
#include <locus/locus.h>

#include "tests/contexts.h"

namespace examples {
namespace {

using testing::HasSubstr;

// What the program makes of --contexts: the list, or the error.
std::string contexts_of(RunsOn runs_on, std::string contexts) {
  Program program("some", "Nothing.", runs_on);
  std::string args[] = {"some", "--contexts", std::move(contexts)};
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
            "--contexts: cpu(0) is there twice; expected each once");
  EXPECT_EQ(contexts_of(RunsOn::cpu_and_gpu, " cpu(0) , cpu(1)"), "cpu(0);cpu(1);");
  EXPECT_EQ(contexts_of(RunsOn::one, "cpu(1)"), "cpu(1);");
  EXPECT_EQ(contexts_of(RunsOn::one, "cpu(0),cpu(1)"),
            "--contexts names 2 contexts; some runs on one, name that");
  EXPECT_EQ(contexts_of(RunsOn::two_gpus, "cpu(0)"),
            "--contexts names 0 GPUs and cpu(0); some runs on two, name two different ones");
  LOCUS_NEEDS_ANY_GPUS(1);
  EXPECT_EQ(contexts_of(RunsOn::two_gpus, "gpu(0)"),
            "--contexts names 1 GPU; some runs on two, name two different ones");
}

TEST(Program, RunsOnWhatThereIs) {
  const auto count = [](RunsOn r) { return Program("some", "Nothing.", r).contexts().size(); };
  const size_t gpus = static_cast<size_t>(locus::num_gpus());
  EXPECT_EQ(count(RunsOn::one), 1);
  EXPECT_EQ(count(RunsOn::cpu_and_gpu), 1 + std::min<size_t>(1, gpus));
  EXPECT_EQ(count(RunsOn::cpu_and_gpus), 1 + std::min<size_t>(2, gpus));
  EXPECT_EQ(count(RunsOn::two_gpus), std::min<size_t>(2, gpus));
}

TEST(Program, FailsBeforeItMeasuresWhenTheFolderCannotBeMade) {
  Program program("some", "Nothing.", RunsOn::one);
  std::string args[] = {"some", "--out", "/dev/null/out"};
  char* argv[] = {args[0].data(), args[1].data(), args[2].data()};
  bool measured = false;
  testing::internal::CaptureStderr();
  EXPECT_EQ(program.run(3, argv, [&](const Program&) { measured = true; }), 1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("some: --out /dev/null/out: cannot be created: "));
  EXPECT_FALSE(measured);
}

}  // namespace
}  // namespace examples
