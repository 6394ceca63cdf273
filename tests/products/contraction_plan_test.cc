// The plans of contractions. All plans give equal values, so no test of values notices a plan that
// copies or launches more than it has to.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include <locus/ops/create.h>
#include <locus/ops/products/contraction_plan.h>
#include <locus/ops/view.h>

namespace locus::test {
namespace {

using detail::AxisLayout, detail::ContractionPlan, detail::Labels, detail::OperandPlan,
    detail::Term;

Labels labels_of(std::string_view letters) { return Labels(letters.begin(), letters.end()); }
std::string letters_of(const Labels& labels) { return std::string(labels.begin(), labels.end()); }

// "batch,axes: rows summed columns", and what happens to an operand.
std::string describe_plan(const ContractionPlan& plan) {
  if (plan.kernel == detail::ProductKernel::multiply) return "multiply";
  std::string text;
  for (const Labels& axis : plan.batch) text += (text.empty() ? "" : ",") + letters_of(axis);
  text +=
      ": " + letters_of(plan.rows) + " " + letters_of(plan.summed) + " " + letters_of(plan.columns);
  if (plan.swapped) text += ", swapped";
  for (const auto& [name, operand] : {std::pair{"left", plan.left}, {"right", plan.right}}) {
    if (!operand.packed.empty())
      text += std::string(", ") + name + " packed " + letters_of(operand.packed);
    if (operand.transposed) text += std::string(", ") + name + " transposed";
  }
  return text;
}

struct Operand {
  std::string_view letters;
  Shape shape;
  std::string_view memory = letters;  // the letters in the order of the strides
};

Term make_term(const Operand& o) {
  std::vector<int64_t> lengths;
  std::vector<int> axes;
  for (const char c : o.memory) lengths.push_back(o.shape[static_cast<int>(o.letters.find(c))]);
  for (const char c : o.letters) axes.push_back(static_cast<int>(o.memory.find(c)));
  return {transpose(zeros(Shape(lengths)), axes), labels_of(o.letters)};
}

std::string plan_of(const Operand& a, const Operand& b, std::string_view result, bool host = true) {
  const Term left = make_term(a), right = make_term(b);
  return describe_plan(
      detail::plan_contraction(AxisLayout(left), AxisLayout(right), labels_of(result), host));
}

TEST(ContractionPlan, OfAProductWithoutASumIsAMultiply) {
  EXPECT_EQ(plan_of({"i", {4}}, {"j", {5}}, "ij"), "multiply");
  EXPECT_EQ(plan_of({"bi", {3, 4}}, {"bj", {3, 5}}, "bij"), "multiply");
}

TEST(ContractionPlan, OfAMatrixProductCopiesNothing) {
  EXPECT_EQ(plan_of({"ij", {4, 6}}, {"jk", {6, 5}}, "ik"), ": i j k");
  EXPECT_EQ(plan_of({"ij", {4, 6}, "ji"}, {"jk", {6, 5}, "kj"}, "ik"), ": i j k");
  EXPECT_EQ(plan_of({"bij", {3, 4, 6}}, {"bjk", {3, 6, 5}}, "bik"), "b: i j k");
  EXPECT_EQ(plan_of({"i", {6}}, {"i", {6}}, ""), ":  i ");
}

TEST(ContractionPlan, RunsTheLastAxisOfTheResultAlongTheColumns) {
  EXPECT_EQ(plan_of({"ij", {4, 6}}, {"jk", {6, 5}}, "ki"), ": k j i, swapped");
}

TEST(ContractionPlan, JoinsLabelsThatAreOneAxisInMemory) {
  EXPECT_EQ(plan_of({"ijk", {4, 6, 7}}, {"jkl", {6, 7, 5}}, "il"), ": i jk l");
  EXPECT_EQ(plan_of({"ijk", {4, 6, 7}}, {"kl", {7, 5}}, "ijl"), ": ij k l");
  EXPECT_EQ(plan_of({"ijk", {4, 6, 7}, "kji"}, {"kl", {7, 5}}, "ijl"), ": ji k l");
}

TEST(ContractionPlan, SumsInTheOrderOfTheLargerOperand) {
  EXPECT_EQ(plan_of({"ijk", {40, 6, 7}}, {"kjl", {7, 6, 5}}, "il"), ": i jk l");
  EXPECT_EQ(plan_of({"ijk", {4, 6, 7}}, {"kjl", {7, 6, 50}}, "il"), ": i kj l");
}

TEST(ContractionPlan, MovesAnOuterAxisToTheBatchInPlaceOfACopy) {
  const Operand a{"iaj", {64, 2, 64}}, b{"ak", {2, 64}};
  EXPECT_EQ(plan_of(a, b, "ijk"), "i: j a k");
  EXPECT_EQ(plan_of({"iaj", {4, 2, 4}}, {"ak", {2, 4}}, "ijk"),
            ": ij a k, left transposed");  // too small
}

// Attention scores: heads lie inside of positions, so the batch bh is no single axis.
TEST(ContractionPlan, PacksABatchOnAGpuIfThatSavesLaunches) {
  const auto scores = [](int64_t batch, bool host) {
    return plan_of({"bqhd", {batch, 5, 4, 6}}, {"bkhd", {batch, 7, 4, 6}}, "bhqk", host);
  };
  EXPECT_EQ(scores(8, true), "b,h: q d k");
  EXPECT_EQ(scores(8, false), "b,h: q d k, left packed bhqd, right packed bhkd");
  EXPECT_EQ(scores(2, false), "b,h: q d k");
}

}  // namespace
}  // namespace locus::test
