// The LOCUS_* variables of the environment.
#include <locus/core/environment.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>

#include <locus/core/error.h>
#include <locus/ops/register.h>
#include "tests/contexts.h"

namespace locus {
namespace {

class Environment : public testing::Test {
 protected:
  ~Environment() override { unsetenv(kName); }
  void set(const char* value) { setenv(kName, value, 1); }
  static constexpr const char* kName = "LOCUS_TEST_VARIABLE";
};

TEST_F(Environment, ReadsNumbersBytesAndChoices) {
  EXPECT_FALSE(environment_number(kName, 0, 9));
  set("7");
  EXPECT_EQ(environment_number(kName, 0, 9), 7);
  set("512M");
  EXPECT_EQ(environment_bytes(kName), size_t{512} << 20);
  set("65536");
  EXPECT_EQ(environment_bytes(kName), size_t{65536});
  set("off");
  EXPECT_EQ(environment_choice(kName, {"on", "off"}), size_t{1});
}

TEST_F(Environment, RefusesNonsenseNamingVariableAndValue) {
  for (const char* value : {"two", "2x", "-1", "10", " 2", "99999999999999999999"}) {
    set(value);
    const std::string text = test::message_of<Error>([] { (void)environment_number(kName, 0, 9); });
    EXPECT_NE(text.find(kName), std::string::npos) << text;
    EXPECT_NE(text.find(value), std::string::npos) << text;
  }
  for (const char* value : {"0", "M", "5T", "1MM", "-5", "99999999999G"}) {
    set(value);
    EXPECT_THROW((void)environment_bytes(kName), Error) << value;
  }
  set("of");
  EXPECT_THROW((void)environment_choice(kName, {"on", "off"}), Error);
}

TEST_F(Environment, NamesVariablesThatNothingReads) {
  set("1");
  EXPECT_NE(unknown_environment().find("LOCUS_TEST_VARIABLE of the environment; it reads LOCUS_"),
            std::string::npos);
  setenv("LOCUS_EMULATED_GPU", "4", 1);
  setenv("LOCUS_THREADS", "2", 1);
  const std::string text = unknown_environment();
  unsetenv("LOCUS_EMULATED_GPU");
  unsetenv("LOCUS_THREADS");
  EXPECT_NE(text.find("Locus does not read LOCUS_EMULATED_GPU of the environment; did you mean "
                      "LOCUS_EMULATED_GPUS?\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("did you mean LOCUS_NUM_THREADS?"), std::string::npos) << text;
  setenv("LOCUS_CHECK_THIS", "1", 1);
  declare_environment({"LOCUS_CHECK_THIS"});
  EXPECT_EQ(unknown_environment().find("read LOCUS_CHECK_THIS"), std::string::npos);
  unsetenv("LOCUS_CHECK_THIS");
}

TEST_F(Environment, EveryVariableOfTheSourceIsDeclared) {
  namespace fs = std::filesystem;
  const std::regex literal("\"(LOCUS_[A-Z0-9_]+)\"");
  std::set<std::string> read;
  for (const char* room : {"core", "devices", "ops", "nn"})
    for (const auto& entry :
         fs::recursive_directory_iterator(LOCUS_TEST_DATA "/../../" + std::string(room))) {
      const std::string name = entry.path().filename();
#ifndef LOCUS_WITH_CUDA
      if (name.starts_with("cuda_")) continue;
#endif
      if (!name.ends_with(".cc") || name == "environment.cc") continue;
      std::ifstream file(entry.path());
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      for (std::sregex_iterator at(text.begin(), text.end(), literal), end; at != end; ++at)
        read.insert((*at)[1]);
    }
  EXPECT_GE(read.size(), 10u);
  for (const std::string& name : read) setenv(name.c_str(), "", 0);
  const std::string unknown = unknown_environment();
  for (const std::string& name : read) {
    EXPECT_EQ(unknown.find("read " + name + " "), std::string::npos) << unknown;
    if (std::string_view(std::getenv(name.c_str())).empty()) unsetenv(name.c_str());
  }
}

TEST_F(Environment, AProgramWarnsOnceOnStderr) {
  const std::string command = "LOCUS_EMULATED_GPU=1 /proc/" + std::to_string(getpid()) +
                              "/exe --gtest_list_tests 2>&1 > /dev/null";
  FILE* const program = popen(command.c_str(), "r");
  ASSERT_NE(program, nullptr);
  std::string text(4096, '\0');
  text.resize(fread(text.data(), 1, text.size(), program));
  pclose(program);
  const size_t first = text.find("LOCUS_EMULATED_GPU of");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("LOCUS_EMULATED_GPU of", first + 1), std::string::npos) << text;
}

}  // namespace
}  // namespace locus
