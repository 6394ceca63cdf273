// Plans as text: round trips, and errors with the line.
#include <locus/nn/plan.h>

#include <filesystem>
#include <fstream>

#include <locus/core/error.h>
#include "tests/ranks/groups.h"
#include "tests/support/folder.h"

namespace locus::test {
namespace {

using nn::Plan, nn::Schedule;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Plan, IsReadAsItIsWritten) {
  Plan data, mixed, cut;
  data.stages = {{0, 3, {gpu(0), gpu(1)}}};
  mixed.stages = {{0, 0, {cpu(0), cpu(2)}}, {1, 6, {cpu(1), cpu(3)}}};
  mixed.microbatches = 8;
  mixed.schedule = Schedule::gpipe;
  cut.stages = {{0, 4, {gpu(0)}}, {5, 6, {gpu(0), gpu(1)}, true}};
  for (const Plan& p : {data, mixed, cut}) {
    const Plan read = Plan::parse(p.text());
    EXPECT_EQ(read, p);
    EXPECT_EQ(read.microbatches, p.microbatches);
    EXPECT_EQ(read.schedule, p.schedule);
    ASSERT_EQ(read.stages.size(), p.stages.size());
    for (size_t s = 0; s < p.stages.size(); ++s) {
      EXPECT_EQ(read.stages[s].first, p.stages[s].first);
      EXPECT_EQ(read.stages[s].last, p.stages[s].last);
      EXPECT_EQ(read.stages[s].contexts, p.stages[s].contexts);
      EXPECT_EQ(read.stages[s].cut, p.stages[s].cut);
    }
  }
  EXPECT_EQ(mixed.text(),
            "plan-1\nmicrobatches 8\nschedule gpipe\nlayers 0 on cpu(0), cpu(2)\n"
            "layers 1-6 on cpu(1), cpu(3)\n");
  EXPECT_FALSE(data == cut);
}

TEST(Plan, SaysWhatItIs) {
  const auto summary = [](const char* text) { return Plan::parse(text).summary(); };
  EXPECT_EQ(summary("plan-1\nlayers 0-3 on cpu"), "on cpu(0)");
  EXPECT_EQ(summary("plan-1\nmicrobatches 4\nlayers 0-3 on cpu"), "on cpu(0), 4 microbatches");
  EXPECT_EQ(summary("plan-1\nlayers 0-3 on gpu(0), gpu(1)"), "data over 2");
  EXPECT_EQ(summary("plan-1\nmicrobatches 4\nlayers 0-1 on gpu\nlayers 2 on gpu:1"),
            "2 stages, 4 microbatches, 1F1B");
  EXPECT_EQ(summary("plan-1\nlayers 0-1 on gpu, gpu:1\nlayers 2 on gpu:2, gpu:3"),
            "2 stages over 2 replicas, 1F1B");
  EXPECT_EQ(summary("plan-1\nlayers 0-1 on gpu\nlayers 2 cut over gpu, gpu:1"), "cut over 2");
}

TEST(Plan, CommentsAndBlanksAreFree) {
  const Plan p = Plan::parse(
      "\n# of two GPUs\n  plan-1 # its version\r\n\nschedule   1F1B\n"
      "layers  0-2  on  gpu ,gpu:1   # both\n\n");
  ASSERT_EQ(p.stages.size(), 1u);
  EXPECT_EQ(p.stages[0].contexts, (std::vector{gpu(0), gpu(1)}));
  EXPECT_EQ(p.stages[0].line, 6);
}

TEST(Plan, BadLinesAreNamed) {
  const auto error = [](const std::string& text) {
    return message_of<FormatError>([&] { Plan::parse(text, "a.plan"); });
  };
  EXPECT_EQ(error("plan-2\nlayers 0 on cpu"), "a.plan:1: \"plan-2\"; expected plan-1, the version");
  EXPECT_EQ(error("plan-1\nlayer 0 on cpu"),
            "a.plan:2: \"layer 0 on cpu\"; expected layers, microbatches or schedule");
  EXPECT_THAT(error(""), HasSubstr("it is empty; expected plan-1"));
  EXPECT_THAT(error("plan-1\n"), HasSubstr("it has no stage"));
  for (const char* line : {"layers",
                           "layers x on cpu",
                           "layers 3-1 on cpu",
                           "layers -1 on cpu",
                           "layers 0-1.5 on cpu",
                           "layers 0-1",
                           "layers 0-1 at cpu",
                           "layers 0 cut cpu",
                           "layers 0 on",
                           "layers 0 on cpu,",
                           "layers 0 on tpu",
                           "layers 0 on cpu cpu",
                           "microbatches",
                           "microbatches 0",
                           "microbatches 2 3",
                           "microbatches 1e3",
                           "microbatches 1048577",
                           "schedule",
                           "schedule 1f1b",
                           "schedule gpipe 1"})
    EXPECT_THAT(error(text_of("plan-1\nlayers 0 on cpu\n\n", line)),
                testing::AllOf(StartsWith("a.plan:4: "), HasSubstr("expected")))
        << line;
  EXPECT_EQ(error("plan-1\nmicrobatches 999999999999999999999\nlayers 0 on cpu"),
            "a.plan:2: \"999999999999999999999\"; expected a whole number from 1 to 1048576");
  EXPECT_EQ(error("plan-1\nlayers 3-99999999999 on cpu"),
            "a.plan:2: \"99999999999\"; expected a whole number from 3 to 2147483647");
  EXPECT_EQ(error("plan-1\nmicrobatches 2\nmicrobatches 2\nlayers 0 on cpu"),
            "a.plan:3: \"microbatches 2\" again; \"microbatches\" is on line 2");
}

TEST(Plan, IsKeptInFiles) {
  const Folder folder;
  const std::filesystem::path file = folder / "a.plan";
  Plan p = Plan::parse("plan-1\nlayers 0-3 on cpu(0), cpu(1)");
  p.save(file.string());
  const Plan read = Plan::load(file.string());
  EXPECT_EQ(read, p);
  EXPECT_EQ(read.source, file.string());
  std::ofstream(file) << "plan-1\nlayers 0-x on cpu";
  EXPECT_THAT(message_of<FormatError>([&] { Plan::load(file.string()); }),
              StartsWith(file.string() + ":2: \"x\""));
  std::filesystem::remove(file);
  for (const auto& unreadable : {file, std::filesystem::temp_directory_path()})
    EXPECT_THAT(message_of<FormatError>([&] { Plan::load(unreadable.string()); }),
                HasSubstr("cannot be read"));
}

// The error of a plan that does not fit four layers.
template <class E = ValueError>
std::string misfit(const std::string& lines) {
  return message_of<E>([&] { Plan::parse("plan-1\n" + lines, "a.plan").check(4); });
}

TEST(Plan, WhatDoesNotFitTheNetworkIsNamed) {
  EXPECT_EQ(
      misfit("layers 0-4 on cpu"),
      "a.plan:2: layers 0-4 on cpu(0): there are layers 0 to 3; expected a plan for these, or "
      "the network that it was made for");
  EXPECT_EQ(misfit("layers 0-2 on cpu"),
            "a.plan:2: layer 3 is in no stage; expected layers 0 to 3");
  EXPECT_THAT(misfit("layers 0-1 on cpu\nlayers 3 on cpu(1)"),
              StartsWith("a.plan:3: layers 3 on cpu(1): layer 2 is in no stage"));
  EXPECT_THAT(misfit("layers 0-2 on cpu\nlayers 2-3 on cpu(1)"),
              StartsWith("a.plan:3: layers 2-3 on cpu(1): layer 2 is in the stage before"));
  EXPECT_THAT(misfit("layers 0-3 on cpu\nlayers 4 on cpu(1)"), StartsWith("a.plan:3: "));
  Plan made;
  made.stages = {{0, 1, {cpu(0)}}};
  EXPECT_EQ(message_of<ValueError>([&] { made.check(4); }),
            "Plan: layer 2 is in no stage; expected layers 0 to 3");
  EXPECT_THROW(Plan().check(1), ValueError);
}

TEST(Plan, WhatDoesNotFitTheMachineIsNamed) {
  for (const char* const lines : {"layers 0-3 on cpu_pinned(0), cpu(0)", "layers 0-3 on cpu_pinned",
                                  "layers 0-3 cut over cpu(0), cpu_pinned(0)"})
    EXPECT_THAT(misfit(lines), HasSubstr("cpu_pinned(0) is memory for copies; expected GPUs"));
  EXPECT_THAT(misfit("layers 0-3 on cpu, cpu(0)"), HasSubstr("cpu(0) is named twice"));
  EXPECT_THAT(misfit("layers 0 on cpu\nlayers 1-3 on cpu"), StartsWith("a.plan:3: "));
  EXPECT_THAT(misfit("layers 0 on cpu, cpu(1)\nlayers 1-3 on cpu(2)"),
              HasSubstr("as many contexts as in the first stage, 2"));
  EXPECT_THAT(misfit("layers 0 on cpu, cpu(1)\nlayers 1-3 cut over cpu, cpu(1)"),
              HasSubstr("expected one context"));
  EXPECT_THAT(misfit("microbatches 2\nlayers 0-3 cut over cpu, cpu(1)"),
              StartsWith("a.plan:2: microbatches 2; expected none where a stage is cut"));
  EXPECT_THAT(misfit<DeviceError>("layers 0-3 on gpu(999)"),
              StartsWith("a.plan:2: layers 0-3 on gpu(999): "));
  if (num_gpus() > 0) {
    EXPECT_THAT(misfit<ContextMismatch>("layers 0-3 on cpu, gpu"), StartsWith("a.plan:2: "));
  }
  // Stages of a cut plan run in turn, so they may share contexts.
  Plan::parse("plan-1\nlayers 0-1 on cpu\nlayers 2-3 cut over cpu, cpu(1)").check(4);
}

TEST(Plan, ABatchGivesEachPartASample) {
  const Plan p = Plan::parse("plan-1\nmicrobatches 3\nlayers 0-3 on cpu, cpu(1)", "a.plan");
  p.check_batch(6);
  EXPECT_EQ(message_of<ValueError>([&] { p.check_batch(5); }),
            "a.plan:2: a batch of 5 samples for 2 replicas of 3 microbatches; expected at least 6, "
            "one each");
  const Plan data = Plan::parse("plan-1\nlayers 0-3 on cpu, cpu(1)", "a.plan");
  EXPECT_THAT(message_of<ValueError>([&] { data.check_batch(1); }), StartsWith("a.plan:2: "));
}

}  // namespace
}  // namespace locus::test
