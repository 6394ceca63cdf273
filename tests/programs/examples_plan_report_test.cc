// Reports of simulated machines.
#include <regex>

#include <locus/core/kernel.h>
#include <locus/nn/plan.h>
#include "planning/study.h"
#include "tests/support/contexts.h"

namespace locus::test {
namespace {

using namespace planning;
using testing::HasSubstr;
using testing::Not;

Prediction prediction(int replicas, int cut, int microbatches, double seconds) {
  Prediction p;
  p.layout.begins = {0, 2};
  p.layout.replicas = replicas;
  p.layout.cut = cut;
  p.layout.microbatches = microbatches;
  p.seconds = p.compute = seconds;
  p.held = {1e6};
  return p;
}

struct Report {
  std::string text, table, picture;
  explicit Report(const std::vector<Prediction>& all, const char* machine = "1x4 h200")
      : text(explanation(all, Machine::parse(machine), 16, cpu())),
        table(table_of(all, 16, cpu()).csv()),
        picture(planning::picture(all, 16, "title", text)) {}
};

TEST(PlanReport, ComparesWithTheBestPlanOfOneDevice) {
  const Report r({prediction(1, 1, 2, .010), prediction(1, 1, 1, .016), prediction(4, 1, 1, .020)});
  EXPECT_THAT(
      r.text,
      HasSubstr("20.000 ms per step, 2.00 times the samples per second of one GPU, whose "
                "best plan is on gpu(0), 2 microbatches (10.000 ms). The whole batch in one "
                "piece computes for 20.000 ms. "));
  EXPECT_THAT(r.text, Not(HasSubstr("exceed n")));
  EXPECT_THAT(r.picture, HasSubstr("relative to one GPU (on gpu(0), 2 microbatches)<"));
  EXPECT_THAT(r.picture, HasSubstr("linear speed-up"));
}

TEST(PlanReport, OfOneDeviceThereIsNothingToCompare) {
  const Report r({prediction(1, 1, 2, .010)}, "1x1 h200");
  EXPECT_THAT(r.text,
              testing::StartsWith("On 1 GPU, with 16 samples each: the best plan is on gpu(0), 2 "
                                  "microbatches, 10.000 ms per step. Bound by compute"));
  EXPECT_THAT(r.text, Not(HasSubstr("GB/s")));
}

TEST(PlanReport, SaysHowFastAGpuIsTakenToCompute) {
  const std::vector<Prediction> all{prediction(1, 1, 1, .010), prediction(4, 1, 1, .020)};
  EXPECT_THAT(
      Report(all, "1x4 h200, compute 250").text,
      HasSubstr("; a GPU of the machine computes them 250 times as fast. The time of its host to "
                "enqueue them is left out. Links have"));
  EXPECT_THAT(message_of<FormatError>([] { Machine::parse("8x8 h200").check_timed_on(cpu()); }),
              HasSubstr("how many times as fast as cpu(0) one h200 computes a layer"));
  const Machine machine = Machine::parse("8x8 h200, compute 250");
  machine.check_timed_on(cpu());
  EXPECT_EQ(machine.compute_text(cpu()), "computed with layer times of cpu(0), 250 times as fast");
}

TEST(PlanReport, NamesTheDevicesThatTheBestPlanHas) {
  const std::vector<Prediction> all{prediction(1, 1, 1, .010), prediction(4, 1, 1, .020)};
  const std::string whole = Report(all).text, part = Report(all, "2x4 h200, ib 50").text;
  EXPECT_THAT(whole, testing::StartsWith(
                         "On all 4 GPUs, with 16 samples each: the best plan is data over 4"));
  EXPECT_THAT(whole, HasSubstr("395 GB/s within a host, with the"));
  EXPECT_THAT(part, testing::StartsWith("On 4 GPUs, with 16 samples each: "));
  EXPECT_THAT(part, HasSubstr("within a host and 50 GB/s between hosts, with the"));
}

TEST(PlanReport, SaysWhyPlansAreAboveNTimesAsFast) {
  const Report r({prediction(1, 1, 1, .010), prediction(1, 4, 1, .008)});
  EXPECT_THAT(r.text,
              HasSubstr("5.00 times the samples per second of one GPU. Some speed-ups exceed n: "));
  EXPECT_THAT(r.picture, HasSubstr("relative to one GPU<"));
}

TEST(PlanReport, GivesNoFactorWhereOneDeviceHasNoRoom) {
  EXPECT_EQ(base_of({prediction(2, 1, 1, .010)}), nullptr);
  const Report r({prediction(1, 2, 1, .010), prediction(1, 4, 1, .008)});
  EXPECT_THAT(r.text, HasSubstr("8.000 ms per step. One GPU cannot hold the model, "));
  EXPECT_THAT(r.text, Not(HasSubstr("times the samples")));
  EXPECT_THAT(r.table, Not(HasSubstr("1.00")));
  EXPECT_THAT(r.picture, Not(HasSubstr("linear speed-up")));
  EXPECT_THAT(r.picture, HasSubstr(">samples per second<"));
  // 3200 and 8000 a second, between round numbers.
  for (const char* line : {">2,000<", ">5,000<", ">10,000<"})
    EXPECT_THAT(r.picture, HasSubstr(line));
  EXPECT_THAT(r.picture, Not(HasSubstr(">1,000<")));
}

TEST(PlanReport, ComparesMeasuredPlansWithMeasuredOnes) {
  const auto result = [](int replicas, int microbatches, double predicted, double measured) {
    Result r{prediction(replicas, 1, microbatches, predicted), {}};
    r.plan = r.predicted.layout.plan({cpu(0), cpu(1)});
    r.measured = measured;
    return r;
  };
  const Result best = result(2, 1, .010, .020), one = result(1, 1, .012, 0);
  EXPECT_THAT(explanation({best, one}), Not(HasSubstr("times as fast")));
  EXPECT_THAT(explanation({best, result(1, 2, .011, .030), one}),
              HasSubstr("; 1.50 times as fast as on cpu(0), 2 microbatches."));
}

TEST(PlanReport, LongNamesOfPlansStayOnThePage) {
  Result r{prediction(2, 1, 16, .010), {}};
  r.predicted.layout.begins = {0, 1, 2};  // two stages
  r.plan = r.predicted.layout.plan({cpu(0), cpu(1), cpu(2), cpu(3)});
  const std::string name = r.plan.summary(), s = picture({r}, "title", "conditions");
  ASSERT_THAT(name, HasSubstr("2 stages over 2 replicas, 16 microbatches"));
  std::smatch found;
  ASSERT_TRUE(std::regex_search(s, found, std::regex("x=\"([0-9.]+)\"[^>]*\"end\"[^>]*>" + name)));
  // 12 px of a sans-serif font: about 6.3 a letter.
  EXPECT_GT(std::stod(found[1]), 6.3 * static_cast<double>(name.size()) + 20);
}

TEST(PlanReport, OnlyPlansThatFitCountForTheLimitAndAreTheBest) {
  const auto result = [](int microbatches, double seconds, double held) {
    Result r{prediction(1, 1, microbatches, seconds), {}};
    r.predicted.held = {held};
    return r;
  };
  std::vector<Result> all{result(1, .010, 950), result(2, .040, 300), result(4, .030, 200),
                          result(8, .020, 100)};
  choose(all, cpu(), 1000, 2);
  const auto order = [&] {
    std::vector<std::pair<int, std::string>> seen;
    for (const Result& r : all) seen.emplace_back(r.predicted.layout.microbatches, r.not_run);
    return seen;
  };
  using Order = std::vector<std::pair<int, std::string>>;
  EXPECT_EQ(order(), (Order{{8, ""}, {4, ""}, {2, "--limit"}, {1, "it needs 950 B"}}));
  all[1].measured = .015;
  all[0].measured = .025;
  sort(all);
  EXPECT_EQ(order(), (Order{{4, ""}, {8, ""}, {2, "--limit"}, {1, "it needs 950 B"}}));

  for (const Context c : contexts()) {
    const std::string text = message_of<OutOfMemory>([&] { choose(all, c, 50, 2); });
    EXPECT_THAT(text, HasSubstr("needs 100 B of a context that has 50 B"));
    EXPECT_THAT(text, HasSubstr("--batch-size"));
    EXPECT_EQ(text.find("LOCUS_EMULATED_MEMORY") != text.npos, context_info(c).emulated);
  }
}

}  // namespace
}  // namespace locus::test
