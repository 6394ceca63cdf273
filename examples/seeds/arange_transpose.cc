// Times each part of arange(n).reshape(1000, -1).T * 2 on every context.
//   arange_transpose --out out
// Reshape and transpose are views, which move nothing; they are timed for n and for 1000 numbers.
// The product keeps the transposed order and writes its result in memory order. It is timed beside
// one without a transpose.
#include <set>
#include <stdexcept>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "common/program.h"
#include "common/wrap.h"

using namespace locus;
using namespace examples;

namespace {

constexpr int64_t kRows = 1000;

// Compares some values with f32 arithmetic.
void check(const Tensor& result, Context c, int64_t n) {
  const Shape expected{n / kRows, kRows};
  if (result.shape() != expected)
    throw std::runtime_error(fmt::format("{}: the shape is wrong", to_string(c)));
  for (const int64_t i : {int64_t{0}, n / kRows / 2, n / kRows - 1}) {
    for (const int64_t j : {int64_t{0}, kRows / 3, kRows - 1}) {
      const float want = static_cast<float>(j * (n / kRows) + i) * 2;
      const float got = result(i, j).item<float>();
      if (got != want)
        throw std::runtime_error(
            fmt::format("{}: element ({}, {}) is {}; expected {}", to_string(c), i, j, got, want));
    }
  }
}

// The measurements of one context.
struct Result {
  Context context;
  int64_t n = 0;
  double views = 0, few_views = 0;        // of n numbers, and of kRows
  Timing transposed = {}, straight = {};  // times 2
  double few = 0;                         // times 2, of kRows numbers
};

std::string explain(const Result& r) {
  const double ratio = r.transposed.median / r.straight.median;
  const std::string n = count_text(static_cast<double>(r.n));
  std::string s = fmt::format(
      "On {}, reshape and T take {}{}. The product takes {} transposed and {} straight: {}. ",
      to_string(r.context), time_text(r.views),
      r.n == kRows ? ""
                   : fmt::format(" for {} numbers and {} for 1,000", n, time_text(r.few_views)),
      time_text(r.transposed.median), time_text(r.straight.median),
      !differ(r.transposed, r.straight) ? "no difference beyond the spread"
      : ratio > 0.85 && ratio < 1.15    ? "the order does not matter, because the result keeps it"
                                        : fmt::format("{:.2f} times as long", ratio));
  if (r.n == kRows) return s + "At this size most of it is the cost of a call, not of memory. ";
  return s + fmt::format(
                 "For 1,000 numbers it takes {}: for {} {} the cost of memory. ", time_text(r.few),
                 n,
                 r.transposed.median > 5 * r.few ? "most of the time is" : "little of the time is");
}

void run(const Program& program, int64_t size) {
  const std::vector<Context> contexts = program.contexts();
  program.print_machine(contexts);
  Table table({"context", "n", "part", {"time", "seconds"}, {"GB/s", "gb_per_second"}});
  std::vector<svg::Bar> bars;
  std::string first_use, explanation;
  std::set<int64_t> sizes;
  for (const Context c : contexts) {
    const int64_t wanted = size > 0 ? size : real_gpu(c) ? 100'000'000 : 10'000'000;
    const int64_t n = wanted / kRows * kRows;
    sizes.insert(n);
    const double bytes = 4 * static_cast<double>(n);
    Tensor line, view, few_view, result;
    Result r{.context = c, .n = n};
    const auto add = [&](const std::string& part, double moved, const std::function<void()>& f) {
      const Timing t = measure(f);
      const double rate = moved / t.median / 1e9;
      table.add({to_string(c), count_cell(static_cast<double>(n)), part, time_cell(t.median),
                 moved > 0 ? number_cell(rate, "{:.3g}") : Cell("-", "")},
                c);
      bars.push_back({to_string(c) + ": " + part, t.median,
                      moved > 0 ? time_text(t.median) + ", " + si_text(moved / t.median, "B/s")
                                : time_text(t.median),
                      part == "everything" ? svg::kBlue : svg::kPaleBlue});
      return t;
    };
    add("arange", bytes, [&] {
      line = arange(static_cast<double>(n), c);
      line.wait_to_read();
    });
    r.views = add("reshape, T", 0, [&] { view = line.reshape({kRows, -1}).T(); }).median;
    r.straight = add("times 2, straight", 2 * bytes, [&] {
      result = line * 2;
      result.wait_to_read();
    });
    r.transposed = add("times 2, transposed", 2 * bytes, [&] {
      result = view * 2;
      result.wait_to_read();
    });
    const Tensor short_line = arange(static_cast<double>(kRows), c);
    r.few_views = measure([&] { few_view = short_line.reshape({kRows, -1}).T(); }).median;
    r.few = measure([&] {
              result = few_view * 2;
              result.wait_to_read();
            }).median;
    const Timing whole = add("everything", 3 * bytes, [&] {
      result = arange(static_cast<double>(n), c).reshape({kRows, -1}).T() * 2;
      result.wait_to_read();
    });
    check(result, c, n);
    first_use += fmt::format(" {} {};", to_string(c), time_text(whole.first));
    explanation += explain(r);
  }
  first_use.back() = '.';
  print_text(fmt::format("First use, not in the table:{}\n\n", first_use));
  fmt::print("{}\n", table.aligned());
  program.finish(
      table,
      Program::Bars{
          .title = "arange(n).reshape(1000, -1).T * 2",
          .list = contexts,
          .label_width = 210,
          .bars = bars,
          .explanation =
              "arange writes n numbers, and the product reads and writes them. reshape and T "
              "are views of the same memory. " +
              explanation +
              (sizes.size() > 1 ? "The sizes differ between contexts: compare GB/s." : "")});
}

}  // namespace

int main(int argc, char** argv) {
  int64_t n = 0;
  Program program("arange_transpose", "Times arange(n).reshape(1000, -1).T * 2.",
                  RunsOn::cpu_and_gpu);
  program.options()
      .add_option("--n", n, "numbers (default: 100 million on a GPU, else 10 million)")
      ->check(whole(1000, int64_t{1} << 33));
  return program.run(argc, argv, [&](const Program& p) { run(p, n); });
}
