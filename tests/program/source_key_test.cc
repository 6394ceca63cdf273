// SHA-256 and the keys of programs.
#include <locus/core/program/digest.h>
#include <locus/core/program/source_key.h>

#include <set>
#include <string>

#include "tests/support/contexts.h"

namespace locus {
namespace {

TEST(Sha256, HasTheStandardsValues) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PadsTextsAroundABlock) {
  EXPECT_EQ(sha256(std::string(55, 'a')),
            "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  EXPECT_EQ(sha256(std::string(56, 'a')),
            "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  EXPECT_EQ(sha256(std::string(64, 'a')),
            "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

TEST(SourceKey, DiffersWithEachField) {
  static constexpr SourceFile kHeaders[] = {{"a.h", "int a;"}, {"b.h", "int b;"}};
  static constexpr SourceFile kOthers[] = {{"a.h", "int a;"}, {"b.h", "int c;"}};
  const ProgramSource base{.name = "k", .text = "int k;", .functions = {"k"}, .options = {"-O1"}};
  std::vector<ProgramSource> sources(10, base);
  sources[1].name = "l";
  sources[2].text = "int l;";
  sources[3].functions = {"k", "l"};
  sources[4].options = {"-O1", "-O2"};
  sources[5].headers = kHeaders;
  sources[6].headers = kOthers;
  sources[7].contract = true;
  sources[8].expressions = {"k"};
  sources[9].code = "int k;";
  std::set<std::string> keys;
  for (const ProgramSource& s : sources) keys.insert(source_key(s));
  EXPECT_EQ(keys.size(), sources.size());
  EXPECT_EQ(source_key(base), source_key(ProgramSource(base)));
}

TEST(SourceKey, KeepsFieldsApart) {
  const ProgramSource one{.name = "k", .text = "", .functions = {"a"}, .options = {"b", "c"}};
  const ProgramSource other{.name = "k", .text = "", .functions = {"a", "b"}, .options = {"c"}};
  EXPECT_NE(source_key(one), source_key(other));
  EXPECT_NE(code_key(one, {"g++", "12"}), code_key(one, {"g++1", "2"}));
}

// The content of such files is not in the key.
TEST(SourceKey, IsEmptyIfOtherFilesAreIncluded) {
  const auto cached = [](const std::string& text, const std::string& option = "-O1") {
    return !code_key({.name = "k", .text = text, .options = {option}}, {"g++"}).empty();
  };
  EXPECT_TRUE(cached("#include <cmath>\nint k;"));
  EXPECT_TRUE(cached("int include; // \"include\""));
  EXPECT_FALSE(cached("int a;\n#include \"mine.h\"\n"));
  EXPECT_FALSE(cached(" #  include\t\"mine.h\"\n"));
  EXPECT_FALSE(cached("#include MINE\n"));
  for (const char* option : {"-I.", "-I", "-include", "-isystem", "-iquote", "--include-path=a"})
    EXPECT_FALSE(cached("#include <mine.h>\n", option)) << option;
}

// Headers of the source are in the key, with what they include.
TEST(SourceKey, KnowsHeadersOfTheSource) {
  static constexpr SourceFile kHeaders[] = {{"mine.h", "#include \"yours.h\""}, {"yours.h", ""}};
  static constexpr SourceFile kOpen[] = {{"mine.h", "#include \"theirs.h\""}};
  const auto cached = [](const std::string& text, std::span<const SourceFile> headers) {
    return !code_key({.name = "k", .text = text, .headers = headers}, {"g++"}).empty();
  };
  EXPECT_TRUE(cached("#include \"mine.h\"\n", kHeaders));
  EXPECT_FALSE(cached("#include \"mine.hpp\"\n", kHeaders));
  EXPECT_FALSE(cached("#include <mine.h>\n", kOpen));
}

}  // namespace
}  // namespace locus
