// Programs of host contexts: the compiler that is found, its errors, and loading.
#include <locus/devices/host/compiler.h>
#include <locus/devices/host/host_program.h>

#include <dlfcn.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <locus/core/error.h>
#include <locus/devices/cpu.h>
#include "tests/program/kernel_cache.h"
#include "tests/support/variable.h"

namespace locus::test {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kExport = "extern \"C\" __attribute__((visibility(\"default\"))) ";

class HostCompilerTest : public KernelCacheTest {
 protected:
  // Counts the compiler's runs in runs(): a script that calls it.
  HostCompilerTest() {
    std::ofstream(script_) << "#!/bin/sh\necho run >> '" << folder_ / "runs"
                           << "'\nexec '" << find_host_compiler("test", cpu()).path << "' \"$@\"\n";
    fs::permissions(script_, fs::perms::owner_all);
    counted_.emplace("LOCUS_CXX", script_);
  }
  int runs() const {
    std::ifstream file(folder_ / "runs");
    int n = 0;
    for (std::string line; std::getline(file, line);) ++n;
    return n;
  }
  std::unique_ptr<KernelProgram> build(const ProgramSource& source) {
    return build_on_host(cpu(), source, cache_);
  }
  // The int that the program's function f returns.
  static int call(const KernelProgram& p) {
    const KernelFunction* const f = p.find("f");
    return f ? reinterpret_cast<int (*)()>(f->host)() : -1;
  }
  static ProgramSource returns(int value, const std::string& before = "") {
    return {.name = "kernel",
            .text = before + kExport + "int f() { return " + std::to_string(value) + "; }",
            .functions = {"f"}};
  }

  const std::string script_ = folder_ / "counted_compiler";
  std::optional<Variable> counted_;
  KernelCache cache_{path_, kLarge};
};

TEST_F(HostCompilerTest, CompilesOnceAndThenReadsTheCache) {
  EXPECT_EQ(call(*build(returns(1))), 1);
  EXPECT_EQ(call(*build(returns(1))), 1);
  EXPECT_EQ(runs(), 1);
  EXPECT_EQ(call(*build(returns(2))), 2);
  EXPECT_EQ(runs(), 2);
  KernelCache of_another_process(path_, kLarge);
  EXPECT_EQ(call(*build_on_host(cpu(1), returns(1), of_another_process)), 1);
  EXPECT_EQ(runs(), 2);
}

TEST_F(HostCompilerTest, CompilesADamagedFileAgain) {
  build(returns(1));
  fs::resize_file(code_files(path_).at(0), 1000);
  testing::internal::CaptureStderr();
  EXPECT_EQ(call(*build(returns(1))), 1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("is damaged"));
  EXPECT_EQ(runs(), 2);
}

TEST_F(HostCompilerTest, AnotherCompilerDoesNotGetItsCode) {
  build(returns(1));
  std::ofstream(script_, std::ios::app) << "# a new version\n";
  build(returns(1));
  EXPECT_EQ(runs(), 2);
}

TEST_F(HostCompilerTest, LoadsManyProgramsAtOnce) {
  std::vector<std::unique_ptr<KernelProgram>> programs;
  const std::string code = *cache_.get("code", [&] {
    return compile_on_host(find_host_compiler("test", cpu()), returns(7), cpu());
  });
  // Each is a library of its own, with its own variables.
  const ProgramSource counts{.name = "counts",
                             .text = "static int n; " + kExport + "int f() { return ++n; }",
                             .functions = {"f"}};
  for (int i = 0; i < 20; ++i) programs.push_back(build(counts));
  for (int turn = 1; turn <= 2; ++turn)
    for (const auto& p : programs) EXPECT_EQ(call(*p), turn);
}

TEST_F(HostCompilerTest, LoadsFromAFileIfMemoryCannotBeExecuted) {
  const std::string code = compile_on_host(find_host_compiler("test", cpu()), returns(3), cpu());
  const Variable folder("TMPDIR", folder_.path);
  for (const LoadFrom from : {LoadFrom::memory, LoadFrom::file}) {
    void* const library = load_library("kernel", code, from);
    int (*const f)() = reinterpret_cast<int (*)()>(dlsym(library, "f"));
    ASSERT_NE(f, nullptr);
    EXPECT_EQ(f(), 3);
  }
  EXPECT_THAT(message_of<Error>([&] { load_library("kernel", "no code"); }),
              HasSubstr("kernel: the compiled code cannot be loaded"));
  EXPECT_TRUE(code_files(folder_.path).empty());
  for (const auto& entry : fs::directory_iterator(folder_.path))
    EXPECT_THAT(entry.path().filename().string(), Not(testing::StartsWith("locus-")));
}

// --- What is compiled.

TEST_F(HostCompilerTest, IncludesTheHeadersOfTheSource) {
  static constexpr SourceFile kHeaders[] = {{"locus/test/five.h", "#include <locus/two.h>\n"},
                                            {"locus/two.h", "constexpr int two = 2;\n"}};
  ProgramSource source = returns(0);
  source.text = "#include <locus/test/five.h>\n" + kExport + "int f() { return two; }";
  source.headers = kHeaders;
  EXPECT_EQ(call(*build(source)), 2);
}

TEST_F(HostCompilerTest, PassesOptionsAfterItsOwn) {
  ProgramSource source = returns(0);
  source.text = kExport + "int f() { return VALUE; }";
  source.options = {"-DVALUE=4", "-std=c++17"};
  EXPECT_EQ(call(*build(source)), 4);
  source.options = {"-DVALUE=__cplusplus/100", "-std=c++17"};
  EXPECT_EQ(call(*build(source)), 2017);
}

// x * y + z in one rounding differs from two roundings here.
TEST_F(HostCompilerTest, ContractsOnlyIfAsked) {
  if (cpu_isa() == Isa::base) GTEST_SKIP() << "needs fused multiply-add (x86-64-v3)";
  ProgramSource source{.name = "fma",
                       .text = kExport + "float f(float x, float y, float z) { return x * y + z; }",
                       .functions = {"f"}};
  const auto run = [&] {
    const auto p = build(source);
    return reinterpret_cast<float (*)(float, float, float)>(p->find("f")->host)(
        1 + 0x1p-12f, 1 + 0x1p-12f, -1 - 0x1p-11f);
  };
  EXPECT_EQ(run(), 0);
  source.contract = true;
  EXPECT_EQ(run(), 0x1p-24f);
}

TEST_F(HostCompilerTest, KeepsDenormalsAndInfinities) {
  ProgramSource source{.name = "half",
                       .text = kExport + "float f(float x) { return x / 2; }" + kExport +
                               "bool g(float x) { return x != x; }",
                       .functions = {"f", "g"}};
  const auto p = build(source);
  const auto half = reinterpret_cast<float (*)(float)>(p->find("f")->host);
  EXPECT_EQ(half(0x1p-140f), 0x1p-141f);
  EXPECT_TRUE(reinterpret_cast<bool (*)(float)>(p->find("g")->host)(half(NAN)));
}

TEST_F(HostCompilerTest, DoesNotCacheCodeThatIncludesOtherFiles) {
  const std::string header = folder_ / "mine.h";
  ProgramSource source = returns(0);
  source.text = "#include \"" + header + "\"\n" + kExport + "int f() { return mine; }";
  for (const int value : {5, 6}) {
    std::ofstream(header) << "constexpr int mine = " << value << ";\n";
    EXPECT_EQ(call(*build(source)), value);
  }
  EXPECT_TRUE(code_files(path_).empty());
}

TEST_F(HostCompilerTest, FindsOnlyTheFunctionsOfTheSource) {
  ProgramSource source = returns(1);
  source.text += kExport + "int g() { return 2; }";
  const auto p = build(source);
  EXPECT_NE(p->find("f"), nullptr);
  EXPECT_EQ(p->find("g"), nullptr);
  EXPECT_EQ(p->find(""), nullptr);
}

TEST_F(HostCompilerTest, ReadsNothingOfTheWorkingFolder) {
  const fs::path before = fs::current_path();
  fs::create_directory(folder_ / "work");
  fs::current_path(folder_ / "work");
  std::ofstream("cmath") << "#error a trap\n";
  ProgramSource source = returns(1, "#include <cmath>\n");
  EXPECT_EQ(call(*build(source)), 1);
  EXPECT_EQ(std::distance(fs::directory_iterator("."), {}), 1);  // and writes nothing there
  fs::current_path(before);
}

// --- Errors.

TEST_F(HostCompilerTest, ErrorsNameTheUsersLines) {
  ProgramSource source = returns(1, "int a;\nint b = yy;\n");
  const std::string text = message_of<SourceError>([&] { build(source); });
  EXPECT_THAT(text, HasSubstr("kernel: does not compile for cpu(0):\n"));
  EXPECT_THAT(text, HasSubstr("\nkernel:2:9: error: "));
  EXPECT_THAT(text, HasSubstr("yy"));
  EXPECT_THAT(text, Not(HasSubstr("program.cc")));
  EXPECT_THAT(text, Not(HasSubstr("/locus-")));
  EXPECT_TRUE(code_files(path_).empty());
  // A generator's own lines count, too.
  source.text = "int a;\n#line 1 \"sqdiff\"\nz = x;\n#line 1 \"(generated)\"\n";
  EXPECT_THAT(message_of<SourceError>([&] { build(source); }), HasSubstr("\nsqdiff:1:1: error: "));
}

TEST_F(HostCompilerTest, TakesAnyName) {
  ProgramSource source = returns(1, "int b = yy;\n");
  source.name = "a \"b\\ \n../c";
  EXPECT_THAT(message_of<SourceError>([&] { build(source); }), HasSubstr(":1:9: error: "));
  source.text = returns(8).text;
  EXPECT_EQ(call(*build(source)), 8);
}

TEST_F(HostCompilerTest, RefusesWhatIsNotDefined) {
  ProgramSource source = returns(1);
  source.text = "int g();\n" + kExport + "int f() { return g(); }";
  EXPECT_THAT(message_of<SourceError>([&] { build(source); }),
              testing::ContainsRegex("undefined (reference|symbol)"));
}

TEST_F(HostCompilerTest, NamesAFunctionThatIsMissing) {
  ProgramSource source = returns(1);
  source.functions.push_back("g");
  EXPECT_THAT(message_of<SourceError>([&] { build(source); }),
              HasSubstr("kernel: compiled for cpu(0), but has no function g; expected extern"));
}

TEST_F(HostCompilerTest, ShortensLongMessages) {
  const ProgramSource source = returns(1, "#error " + std::string(50000, 'x') + "\n");
  const std::string error = message_of<SourceError>([&] { build(source); });
  EXPECT_LT(error.size(), 20000u);
  EXPECT_THAT(error, testing::EndsWith("..."));
}

TEST_F(HostCompilerTest, WithoutACompilerSaysWhatWasTried) {
  {
    const Variable cxx("LOCUS_CXX", "/nonexistent");
    EXPECT_EQ(message_of<UnsupportedOnContext>([&] { build(returns(1)); }),
              "kernel: cpu(0) compiles kernels with a C++ compiler, and none was found: "
              "LOCUS_CXX=/nonexistent is no program; expected a C++ compiler");
  }
  EXPECT_EQ(call(*build(returns(1))), 1);  // it may be installed later
  for (const std::string& no_program : {folder_.path.string(), folder_ / "runs"}) {
    const Variable cxx("LOCUS_CXX", no_program);
    EXPECT_THROW(build(returns(1)), UnsupportedOnContext) << no_program;
  }
}

TEST_F(HostCompilerTest, LooksForANameInPath) {
  const Variable path("PATH", text_of("nowhere::", folder_.path.string(), ":/usr/bin:/bin"));
  const Variable cxx("LOCUS_CXX", "counted_compiler");
  EXPECT_EQ(find_host_compiler("test", cpu()).path, script_);
  const Variable other("LOCUS_CXX", "no_such_compiler");
  EXPECT_THROW(find_host_compiler("test", cpu()), UnsupportedOnContext);
}

TEST_F(HostCompilerTest, TakesTheCompilerOfTheBuildByDefault) {
  const Variable cxx("LOCUS_CXX", "");
  if (!fs::exists(built_compiler())) GTEST_SKIP() << "needs " << built_compiler();
  EXPECT_EQ(find_host_compiler("test", cpu()).path, built_compiler());
}

TEST_F(HostCompilerTest, ReportsACompilerThatIsNone) {
  const auto with = [&](const std::string& commands) {
    const std::string path = folder_ / "other";
    std::ofstream(path) << commands;
    fs::permissions(path, fs::perms::owner_all);
    const Variable cxx("LOCUS_CXX", path);
    return message_of<Error>([&] { build(returns(1)); });
  };
  EXPECT_THAT(with("#!/bin/sh\nexit 0\n"),
              HasSubstr("other made no shared library; set LOCUS_CXX"));
  EXPECT_THAT(with("#!/bin/sh\necho a reason; kill -9 $$\n"),
              HasSubstr("other was stopped by signal 9:\na reason"));
  EXPECT_THAT(with("no program"), HasSubstr("cannot run the compiler"));
}

TEST_F(HostCompilerTest, ReportsAFolderThatCannotBeWritten) {
  const Variable folder("TMPDIR", folder_ / "missing");
  EXPECT_THAT(message_of<Error>([&] { build(returns(1)); }),
              HasSubstr("kernel: cannot make a folder in " + folder_ / "missing"));
}

TEST_F(HostCompilerTest, LeavesNoFiles) {
  fs::create_directory(folder_ / "tmp");
  const Variable folder("TMPDIR", folder_ / "tmp");
  build(returns(1));
  EXPECT_THROW(build(returns(1, "int b = yy;\n")), SourceError);
  EXPECT_TRUE(fs::is_empty(folder_ / "tmp"));
}

TEST_F(HostCompilerTest, WorksIfTheProgramIgnoresItsChildren) {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(call(*build(returns(1))), 1);
  EXPECT_THROW(build(returns(1, "int b = yy;\n")), SourceError);
  std::signal(SIGCHLD, before);
}

TEST_F(HostCompilerTest, FastMathOfAProgramDoesNotFlushDenormalsOfOthers) {
  ProgramSource source = returns(1);
  source.options = {"-ffast-math"};
  EXPECT_EQ(call(*build(source)), 1);
  volatile float small = 1e-40f;
  EXPECT_GT(small * .5f, 0);
}

}  // namespace
}  // namespace locus::test
