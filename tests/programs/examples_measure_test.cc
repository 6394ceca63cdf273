#include "common/measure.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <locus/core/error.h>
#include <locus/core/kernel.h>
#include <locus/devices/emulated_link.h>
#include <locus/ops/create.h>
#include <locus/ops/elementwise.h>
#include <locus/ops/matmul.h>

#include "common/svg.h"
#include "common/table.h"
#include "tests/support/contexts.h"

namespace examples {
namespace {

using locus::test::message_of;
using testing::HasSubstr;
using testing::Not;

TEST(Measure, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median({7}), 7);
  EXPECT_THROW(median({}), std::invalid_argument);
}

TEST(Measure, WarmsUpOnceAndRunsAsOftenAsAsked) {
  int calls = 0;
  const Timing t = measure([&] { ++calls; }, {.at_least = 5, .seconds = 0});
  EXPECT_EQ(t.runs, 5);
  EXPECT_EQ(calls, 6);
  calls = 0;
  EXPECT_EQ(measure([&] { ++calls; }, {.at_least = 1, .seconds = 1e9, .at_most = 30}).runs, 30);
  EXPECT_EQ(calls, 31);
}

TEST(Measure, ComparesTimesWithTheirSpreads) {
  const Timing a{.median = 1, .spread = .1}, b{.median = 1.15, .spread = .1};
  EXPECT_FALSE(differ(a, b));
  EXPECT_TRUE(differ(a, {.median = 1.25, .spread = .1}));
  EXPECT_EQ(unsteady_note("cpu(0)", a), "");
  EXPECT_EQ(unsteady_note("cpu(0)", {.median = 1, .spread = .4}),
            "The machine is busy: the spread of cpu(0) is 40 % of its time.");
  EXPECT_EQ(busy_note(2, 2), "");
  EXPECT_EQ(busy_note(5.25, 2),
            "The machine is busy: its load average is 5.2 on 2 cores. Times may be too long.");
}

TEST(Measure, CrossoverIsWhereTheSecondStaysFaster) {
  const std::vector<double> sizes{16, 32, 64};
  EXPECT_EQ(crossover(sizes, {1, 2, 3}, {2, 3, 4}), std::nullopt);
  EXPECT_EQ(crossover(sizes, {2, 3, 4}, {1, 2, 3}), 16);
  // Equal halfway in both logarithms: b/a goes from 2 to 1/2 between 32 and 64.
  EXPECT_NEAR(crossover(sizes, {1, 1, 4}, {2, 2, 2}).value(), 32 * std::sqrt(2.0), 1e-9);
  // b is faster only for a while.
  EXPECT_EQ(crossover(sizes, {2, 2, 2}, {1, 3, 3}), std::nullopt);
  EXPECT_NEAR(crossover(sizes, {2, 1, 4}, {1, 2, 2}).value(), 32 * std::sqrt(2.0), 1e-9);
}

TEST(Measure, TimesHaveThreeDigitsAndAUnit) {
  EXPECT_EQ(time_text(1.5), "1.50 s");
  EXPECT_EQ(time_text(0.0321), "32.1 ms");
  EXPECT_EQ(time_text(456e-6), "456 µs");
  EXPECT_EQ(time_text(7.25e-9), "7.25 ns");
  EXPECT_EQ(time_text(0.99999), "1.00 s");
  EXPECT_EQ(time_text(0), "0 s");
  EXPECT_EQ(tick_text(0.01), "10 ms");
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1048576), "1,048,576");
  EXPECT_EQ(si_text(36.64e9, "B/s"), "36.6 GB/s");
  EXPECT_EQ(si_text(8.334e6, "FLOP/s"), "8.33 MFLOP/s");
  EXPECT_EQ(si_text(4, "B"), "4 B");
  EXPECT_EQ(counted(1, "wait"), "1 wait");
  EXPECT_EQ(counted(2, "wait"), "2 waits");
}

TEST(Measure, ErrorsAreRelativeToTheLargestReference) {
  using locus::array;
  EXPECT_EQ(relative_error(array({1.f, 4.f}), array({2.f, 4.f})), 0.25);
  EXPECT_EQ(relative_error(array({0.f}), array({0.f})), 0);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(relative_error(array({nan, 1.f}), array({1.f, 1.f}))));
  EXPECT_NO_THROW(check_error("x", 1e-7, 1e-6));
  EXPECT_THAT(message_of<std::runtime_error>([] { check_error("the sum", 1e-3, 1e-6); }),
              HasSubstr("the sum: the largest relative error against f64 on the CPU is 1.0e-03"));
  EXPECT_THROW(check_error("x", std::nan(""), 1e-6), std::runtime_error);
}

TEST(Measure, TablesAlignNumbersRightAndQuoteCommas) {
  const locus::Context c = locus::cpu();
  Table t({"way", {"time", "seconds"}, {"a run", ""}, {"", "runs"}});
  t.add({"read, then print", time_cell(3.21e-6), "-", "5"}, c);
  t.add({"log", time_cell(0.0123), number_cell(0.25, "{:.1f}"), count_cell(12345)}, c);
  EXPECT_EQ(t.aligned(),
            "way                  time  a run\n"
            "----------------  -------  -----\n"
            "read, then print  3.21 µs      -\n"
            "log               12.3 ms    0.2\n");
  EXPECT_EQ(t.csv(),
            "way,seconds,runs,emulated,modelled\n"
            "\"read, then print\",3.21e-06,5,no,no\n"
            "log,0.0123,12345,no,no\n");
  EXPECT_THROW(t.add({"one"}, c), std::invalid_argument);
}

TEST(Measure, TablesAlignWordsLeftEvenIfTheyBeginWithADigit) {
  Table t({"way", "plan", "error %"});
  t.add({"1F1B", "2 stages over 2 replicas", "+1.0"}, locus::cpu());
  t.add({"GPipe", "on gpu(0)", "-12.5"}, locus::cpu());
  EXPECT_EQ(t.aligned(),
            "way    plan                      error %\n"
            "-----  ------------------------  -------\n"
            "1F1B   2 stages over 2 replicas     +1.0\n"
            "GPipe  on gpu(0)                   -12.5\n");
}

TEST(Measure, TablesAndNamesSayWhatTimesAre) {
  LOCUS_NEEDS_ANY_GPUS(1);
  using namespace locus;
  const auto row_of = [](const std::vector<Context>& c) {
    Table t({"n"});
    t.add({"1"}, c);
    return t.csv().substr(t.csv().find('\n') + 1);
  };
  if (!test::emulated_gpus()) {
    EXPECT_EQ(row_of({cpu(), gpu(0)}), "1,no,no\n");
    EXPECT_EQ(times_note(gpu(0)), "");
    return;
  }
  const auto before = emulated::link_model();
  emulated::set_link_model({});
  EXPECT_EQ(row_of({cpu(), gpu(0)}), "1,yes,no\n");
  EXPECT_EQ(row_of({cpu()}), "1,no,no\n");
  EXPECT_THAT(describe(gpu(0)), HasSubstr(", times of this machine's cores"));
  EXPECT_EQ(emulation_note({cpu(0)}), "");
  EXPECT_EQ(emulation_note({cpu(0), gpu(0)}),
            "Emulated GPUs show the order of work, not its speed. LOCUS_EMULATED_LINK gives them "
            "modelled times.");
  emulated::set_link_model(emulated::LinkModel::parse("peer=1"));
  EXPECT_EQ(row_of({cpu(), gpu(0)}), "1,yes,yes\n");
  EXPECT_THAT(describe(gpu(0)), HasSubstr(", times modelled"));
  EXPECT_EQ(emulation_note({gpu(0)}), "Emulated GPUs show the order of work, not its speed.");
  EXPECT_EQ(
      emulation_note({cpu(0), gpu(0)}),
      "Emulated GPUs show the order of work, not its speed. Times on gpu(0) are modelled, times "
      "on cpu(0) are measured: they do not compare.");
  emulated::set_link_model(before);
}

TEST(Measure, ProductsAreCheckedAgainstF64) {
  using namespace locus;
  const Tensor a = arange(64).reshape({16, 4}), b = ones({4, 3}), product = dot(a, b);
  EXPECT_EQ(check_product("small", a, b, product), 0);
  product(8, 1) += 1;
  EXPECT_THAT(message_of<std::runtime_error>([&] { check_product("small", a, b, product); }),
              HasSubstr("small: the largest relative error"));
}

TEST(Svg, AxesAreLinearOrLogarithmicAndCutOff) {
  const svg::Axis linear{10, 20}, logarithmic{1, 100, true};
  EXPECT_EQ(linear.position(15), 0.5);
  EXPECT_EQ(linear.position(25), 1);
  EXPECT_DOUBLE_EQ(logarithmic.position(10), 0.5);
  EXPECT_EQ(logarithmic.position(0.1), 0);
}

TEST(Svg, ParagraphsWrapAndEscape) {
  const auto [text, height] = svg::paragraph(0, 0, "one two\nx < y & z", 5);
  EXPECT_EQ(height, 80);  // one, two, x < y, & z
  EXPECT_THAT(text, HasSubstr(">one<"));
  EXPECT_THAT(text, HasSubstr("x &lt; y"));
  EXPECT_THAT(text, HasSubstr("&amp; z"));
}

TEST(Svg, LabelsCanBeReadOnTheirColor) {
  EXPECT_STREQ(svg::ink_on(svg::kBlue), "#ffffff");
  EXPECT_STREQ(svg::ink_on(svg::kPaleBlue), svg::kInk);
  EXPECT_EQ(svg::paler("#000000"), "#8c8c8c");
  EXPECT_STREQ(svg::ink_on(svg::paler(svg::kBlue)), svg::kInk);
}

TEST(Svg, LogarithmicBarsKeepSmallValuesVisible) {
  // A scale of 400 from 1 µs: 2 µs is at 0.3 of 6 powers of ten, 1 s at 6.
  const std::string s = svg::bars(0, 0, 570, 0, {{"a", 2e-6, ""}, {"b", 1, ""}}, true);
  EXPECT_THAT(s, HasSubstr("width=\"20.07\""));
  EXPECT_THAT(s, HasSubstr("width=\"400.00\""));
  EXPECT_THAT(s, HasSubstr(">1 ms<"));
  EXPECT_THAT(svg::bars(0, 0, 570, 0, {{"a", 2e-6, ""}, {"b", 1, ""}}), Not(HasSubstr(">1 ms<")));
}

TEST(Svg, TimelinesLabelSpansOrTheRoomBehindThem) {
  const std::string s = svg::timeline(0, 0, 200, 0, {"gpu(0)", "gpu(1)"},
                                      {{0, 0, 1, "long", svg::kBlue, "a < b"},
                                       {0, 1, 1.1, "short"},
                                       {0, 1.2, 1.3, "behind"},
                                       {1, 1.9, 2, "end"},
                                       {1, 0, .05, "a"},
                                       {1, .05, .1, "b"}},
                                      2);
  EXPECT_THAT(s, HasSubstr(">long<"));
  EXPECT_THAT(s, HasSubstr("<text x=\"132.0\""));  // "behind", at 1.3 s
  EXPECT_THAT(s, HasSubstr(">behind<"));
  EXPECT_THAT(s, HasSubstr(">b<"));
  for (const char* none : {">a<", ">end<"}) EXPECT_THAT(s, Not(HasSubstr(none)));
  EXPECT_THAT(s, HasSubstr("<title>a &lt; b</title>"));
  EXPECT_THAT(s, Not(HasSubstr(">short<")));
  EXPECT_THAT(s, HasSubstr(">500 ms<"));
}

}  // namespace
}  // namespace examples
