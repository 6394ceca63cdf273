// The grammar of kernels' parameters, and what a body's tokens tell.
#include <locus/ops/jit/parameters.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <locus/core/error.h>

namespace locus::jit {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(KernelParameters, ListsHaveTypesAndNames) {
  const Parameters all = parse_parameters("k", " T x,raw  float32 y ,\n long long z_1", false);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].letter, "T");
  EXPECT_EQ(all[0].name, "x");
  EXPECT_FALSE(all[0].raw);
  EXPECT_FALSE(all[0].written);
  EXPECT_TRUE(all[1].raw);
  EXPECT_EQ(all[1].letter, "");
  EXPECT_EQ(all[1].dtype, f32);
  EXPECT_EQ(all[1].text, "raw float32 y");
  EXPECT_EQ(all[2].dtype, i64);
  EXPECT_EQ(all[2].name, "z_1");
  EXPECT_TRUE(parse_parameters("k", "T x", true)[0].written);
  EXPECT_THAT(parse_parameters("k", "", false), IsEmpty());
  EXPECT_THAT(parse_parameters("k", " \n", false), IsEmpty());
}

TEST(KernelParameters, PointersAreWrittenUnlessConst) {
  const Parameters all =
      parse_pointers("k", "int *x, const float* y, double const * __restrict__ z, bool b");
  ASSERT_EQ(all.size(), 4u);
  EXPECT_TRUE(all[0].pointer && all[0].raw && all[0].written);
  EXPECT_TRUE(all[1].pointer && !all[1].written);
  EXPECT_TRUE(all[2].pointer && !all[2].written);
  EXPECT_EQ(all[2].dtype, f64);
  EXPECT_FALSE(all[3].pointer);
  EXPECT_EQ(all[3].dtype, bool_);
}

TEST(KernelParameters, TokensLeaveOutComments) {
  EXPECT_THAT(tokens_of("a+=b1/* i */ // _ind\n== 'i' \"_ind\\\"\"; 1.5f"),
              ElementsAre("a", "+=", "b1", "==", "'i'", "\"_ind\\\"\"", ";", "1", ".", "5f"));
  EXPECT_THAT(tokens_of("/* open"), IsEmpty());
  EXPECT_THAT(tokens_of("// last"), IsEmpty());
  EXPECT_TRUE(names(tokens_of("x[i]"), "i"));
  EXPECT_FALSE(names(tokens_of("x[ii] /* i */"), "i"));
}

std::vector<bool> outputs_set(const char* body) {
  Parameters all = parse_parameters("k", "T x", false);
  for (const Parameter& p : parse_parameters("k", "T y, T z", true)) all.push_back(p);
  std::vector<bool> set = set_first(tokens_of(body), all);
  set.erase(set.begin());
  return set;
}

TEST(KernelParameters, OutputsThatTheBodySetsFirst) {
  EXPECT_THAT(outputs_set("y = x; z = y;"), ElementsAre(true, true));
  EXPECT_THAT(outputs_set("T t = x ? 1 : 2; y = t > 0 ? t : -t; z += 1;"),
              ElementsAre(true, false));
  EXPECT_THAT(outputs_set("if (x) y = 1; z = 2;"), ElementsAre(false, false));
  EXPECT_THAT(outputs_set("y = 1; if (x) z = 2;"), ElementsAre(true, false));
  EXPECT_THAT(outputs_set("y = y + x; z = 1;"), ElementsAre(false, true));
  EXPECT_THAT(outputs_set("y = z; z = 1;"), ElementsAre(true, false));
  EXPECT_THAT(outputs_set("return; y = 1;"), ElementsAre(false, false));
  EXPECT_THAT(outputs_set("{ y = 1; }"), ElementsAre(false, false));
  EXPECT_THAT(outputs_set("x == 1 && (y = 1); z == 1;"), ElementsAre(false, false));
  EXPECT_THAT(outputs_set("y = 1"), ElementsAre(false, false));  // does not compile
  EXPECT_THAT(outputs_set("auto f = [&] { y = 1; }; z = 1;"), ElementsAre(false, false));
}

}  // namespace
}  // namespace locus::jit
