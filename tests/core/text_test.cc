#include <limits>

#include <gtest/gtest.h>

#include <locus/core/base/text.h>

namespace locus {
namespace {

TEST(Text, FloatingNumbersAreTheShortestThatReadsBack) {
  EXPECT_EQ(text_of(0.1, " ", 5.0, " ", -1e-9, " ", 0.25f), "0.1 5 -1e-09 0.25");
  EXPECT_EQ(text_of(0.1f, " ", 1. / 3), "0.1 0.3333333333333333");
  EXPECT_EQ(text_of(std::numeric_limits<double>::infinity(), " ", -0.0), "inf -0");
  EXPECT_EQ(text_of(std::numeric_limits<double>::lowest()), "-1.7976931348623157e+308");
}

TEST(Text, ACharacterIsItself) { EXPECT_EQ(text_of('a', ' ', "b"), "a b"); }

TEST(Text, IsTrimmedOfBlanks) {
  EXPECT_EQ(trimmed(" \ta b\r"), "a b");
  EXPECT_EQ(trimmed(" \t "), "");
}

}  // namespace
}  // namespace locus
