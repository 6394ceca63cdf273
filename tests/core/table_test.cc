#include <locus/core/base/table.h>

#include <gtest/gtest.h>

namespace locus {
namespace {

using Lines = std::vector<std::string>;

TEST(TableLines, AlignsEachColumn) {
  EXPECT_EQ(table_lines({{"op", "bytes"}, {"multiply", "8"}, {"exp", "4096"}}, "lr"),
            (Lines{"op        bytes", "multiply      8", "exp        4096"}));
}

TEST(TableLines, CountsCharactersRatherThanBytes) {
  EXPECT_EQ(table_lines({{"25 µs", "copy"}, {"1.5 ms", "wait"}}, "rl"),
            (Lines{" 25 µs  copy", "1.5 ms  wait"}));
}

TEST(TableLines, EndWithoutBlanks) {
  EXPECT_EQ(table_lines({{"a", "long"}, {"b", ""}}, "ll"), (Lines{"a  long", "b"}));
}

TEST(MemoryText, HasFourDigitsAndAUnit) {
  EXPECT_EQ(memory_text(12), "12 B");
  EXPECT_EQ(memory_text(1881145), "1.794 MiB");
}

}  // namespace
}  // namespace locus
