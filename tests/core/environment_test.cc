#include <locus/core/base/environment.h>

#include <locus/ops/environment_names.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <utility>

#include <locus/core/error.h>
#include <locus/ops/register.h>
#include "tests/support/contexts.h"

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

TEST_F(Environment, NamesEveryVariableThatNothingReads) {
  // The test itself may run with such a variable.
  const auto added = [](const char* variable) {
    const std::string before = unread_environment(environment_variables());
    setenv(variable, "on", 1);
    const std::string text = unread_environment(environment_variables());
    unsetenv(variable);
    EXPECT_TRUE(text.starts_with(before)) << text;
    return text.substr(before.size());
  };
  const std::string unread = " is set, but nothing reads it";
  const std::pair<const char*, const char*> near[] = {{"LOCUS_EMULATED_GPU", "LOCUS_EMULATED_GPUS"},
                                                      {"LOCUS_THREADS", "LOCUS_NUM_THREADS"},
                                                      {"LOCUS_SYNK", "LOCUS_SYNC"}};
  for (const auto& [variable, known] : near)
    EXPECT_EQ(added(variable), variable + unread + "; did you mean " + known + "?\n");
  for (const char* far : {"LOCUS_HOME", "LOCUS_TEST_VARIABLE", "LOCUS_"})
    EXPECT_EQ(added(far), far + unread + "\n");
  EXPECT_EQ(added("LOCUST_POOL"), "");
  for (const std::string_view known : environment_variables()) {
    if (std::getenv(known.data()) != nullptr) continue;
    EXPECT_EQ(added(known.data()), "") << known;
  }
}

TEST_F(Environment, ListsEveryVariableOfTheSourceInAllBuilds) {
  namespace fs = std::filesystem;
  const std::regex literal("\"(LOCUS_[A-Z0-9_]+)\"");
  std::set<std::string> read;
  for (const char* room : {"core", "devices", "ops", "nn"})
    for (const auto& entry :
         fs::recursive_directory_iterator(LOCUS_TEST_DATA "/../../" + std::string(room))) {
      const std::string name = entry.path().filename();
      if (!name.ends_with(".cc") || name == "variables.cc") continue;
      std::ifstream file(entry.path());
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      for (std::sregex_iterator at(text.begin(), text.end(), literal), end; at != end; ++at)
        read.insert((*at)[1]);
    }
  const auto listed = environment_variables();
  EXPECT_EQ(read, std::set<std::string>(listed.begin(), listed.end()));
}

TEST_F(Environment, ThePageOfOptionsHasEveryVariable) {
  std::ifstream file(LOCUS_TEST_DATA "/../../scripts/OPTIONS.md");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t table = text.find("## Environment variables");
  ASSERT_NE(table, std::string::npos);
  text = text.substr(table);
  for (const std::string_view variable : environment_variables())
    EXPECT_NE(text.find("`" + std::string(variable) + "`"), std::string::npos) << variable;
}

TEST_F(Environment, AProgramWarnsOnceOnStderr) {
  const std::string command =
      "LOCUS_HOME=1 /proc/" + std::to_string(getpid()) + "/exe --gtest_list_tests 2>&1 > /dev/null";
  FILE* const program = popen(command.c_str(), "r");
  ASSERT_NE(program, nullptr);
  std::string text(4096, '\0');
  text.resize(fread(text.data(), 1, text.size(), program));
  pclose(program);
  const std::string line = "LOCUS_HOME is set, but nothing reads it\n";
  const size_t first = text.find(line);
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find(line, first + 1), std::string::npos) << text;
}

}  // namespace
}  // namespace locus
