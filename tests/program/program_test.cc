// compile_program: one program for a source on a context, on any context.
#include <locus/core/program.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <locus/core/device.h>
#include <locus/core/error.h>
#include <locus/ops/kernel/source.h>
#include "tests/devices/fake_device.h"
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using testing::HasSubstr;

const std::string kExport = "extern \"C\" __attribute__((visibility(\"default\"))) ";

ProgramSource doubles(const std::string& name) {
  return {.name = name,
          .text = kExport + "void f(int* x) { *x *= 2; }  // " + name,
          .functions = {"f"}};
}

std::vector<Context> host_contexts() {
  std::vector<Context> list = {cpu(0), cpu(1)};
  if (emulated_gpus()) list.push_back(gpu(0));
  return list;
}

TEST(Program, RunsOnHostContextsAndEmulatedGpus) {
  for (const Context c : host_contexts()) {
    const KernelProgram& p = *compile_program(c, doubles("doubles"));
    int x = 21;
    reinterpret_cast<void (*)(int*)>(p.find("f")->host)(&x);
    EXPECT_EQ(x, 42) << c;
    EXPECT_EQ(p.find("g"), nullptr);
  }
}

TEST(Program, IsOneForEachSourceAndContext) {
  const KernelProgram& p = *compile_program(cpu(0), doubles("one"));
  EXPECT_EQ(&p, compile_program(cpu(0), doubles("one")));
  EXPECT_NE(&p, compile_program(cpu(0), doubles("two")));
  EXPECT_NE(&p, compile_program(cpu(1), doubles("one")));
}

TEST(Program, ThreadsThatAskAtOnceGetOne) {
  std::atomic<const KernelProgram*> programs[8] = {};
  std::vector<std::thread> threads;
  for (auto& p : programs)
    threads.emplace_back([&p] { p = compile_program(cpu(0), doubles("threads")); });
  for (std::thread& t : threads) t.join();
  for (const auto& p : programs) EXPECT_EQ(p, programs[0]);
}

TEST(Program, MayFailSeveralTimes) {
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(message_of<SourceError>(
                    [] { compile_program(cpu(0), {.name = "broken", .text = "int a = yy;"}); }),
                HasSubstr("broken:1:9: error:"));
}

TEST(Program, NamesTheContextOfAnError) {
  for (const Context c : host_contexts())
    EXPECT_THAT(message_of<SourceError>(
                    [c] { compile_program(c, {.name = "broken", .text = "int a = zz;"}); }),
                HasSubstr(text_of("broken: does not compile for ", c)));
}

TEST(Program, DoesNotLaunchOnAHostContext) {
  const KernelFunction& f = *compile_program(cpu(0), doubles("launch"))->find("f");
  EXPECT_THAT(message_of<Error>([&] { f.launch({cpu(0)}, {}, nullptr, 0); }),
              HasSubstr("cpu(0) launches no functions of programs"));
  EXPECT_THAT(message_of<Error>([&] { f.counters({cpu(0)}, 1); }),
              HasSubstr("cpu(0) has no counters"));
}

TEST(Program, NeedsADeviceThatCompiles) {
  FakeDevice device;
  EXPECT_THAT(message_of<UnsupportedOnContext>([&] { device.build(doubles("k")); }),
              HasSubstr("k: this type of device compiles no kernels at run time"));
}

// The formulas of eager kernels, from the library's own text.
TEST(Program, CallsFormulas) {
  const ProgramSource source{
      .name = "formulas",
      .text = "#include <locus/ops/elementwise/activation_kernel.h>\n" + kExport +
              "void f(float* x) { *x = locus::formula::Softplus().apply(*x); }",
      .functions = {"f"},
      .headers = formula_source()};
  for (const Context c : host_contexts()) {
    float x = 0;
    reinterpret_cast<void (*)(float*)>(compile_program(c, source)->find("f")->host)(&x);
    EXPECT_FLOAT_EQ(x, 0.693147181f) << c;
  }
}

}  // namespace
}  // namespace locus::test
