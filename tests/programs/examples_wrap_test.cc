#include "common/wrap.h"

#include <gmock/gmock.h>

#include "common/svg.h"

namespace examples {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Wrap, CountsCharactersAndKeepsLineEnds) {
  EXPECT_EQ(characters("5 µs ± 1"), 8u);
  EXPECT_THAT(wrapped("one two three", 7), ElementsAre("one two", "three"));
  EXPECT_THAT(wrapped("one µ± two", 6), ElementsAre("one µ±", "two"));
  EXPECT_THAT(wrapped("one\n\ntwo\n", 80), ElementsAre("one", "", "two"));
  EXPECT_THAT(wrapped("alonelongword a", 5), ElementsAre("alonelongword", "a"));
}

TEST(Wrap, LinesKeepTheIndent) {
  EXPECT_THAT(wrapped("  one two three\nfour", 8),
              ElementsAre("  one", "  two", "  three", "four"));
}

TEST(Wrap, PrintsAtMost80ColumnsIntoAFile) {
  testing::internal::CaptureStdout();
  print_text(std::string(79, 'x') + " y");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), std::string(79, 'x') + "\ny\n");
}

TEST(Svg, AWideSpreadIsCutOffWithAnArrow) {
  EXPECT_EQ(svg::end_with_spreads(10, 11), 11);
  EXPECT_EQ(svg::end_with_spreads(10, 50), 13);
  EXPECT_EQ(svg::end_with_spreads(10, 9), 10);
  const svg::TimeAxis axis(0, 100, 10);
  const auto [whole, end] = svg::spread(axis, 4, 6, 0);
  EXPECT_EQ(end, 60);
  EXPECT_THAT(whole, Not(HasSubstr("y1=\"-7.0\"")));
  const auto [cut, cut_end] = svg::spread(axis, 4, 60, 0);
  EXPECT_EQ(cut_end, 100);
  EXPECT_THAT(cut, HasSubstr("y1=\"-7.0\""));
}

}  // namespace
}  // namespace examples
