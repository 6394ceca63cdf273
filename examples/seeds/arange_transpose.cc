// arange(n).reshape(1000, -1).T * 2 on every context given: the time of each part, and the
// bandwidth. Reshape and transpose are views: they cost the same for any n. So does the layout of
// the result, which keeps the transposed order and is written as the memory lies.
#include <set>
#include <stdexcept>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "common/program.h"

using namespace locus;
using namespace examples;

namespace {

constexpr int64_t kRows = 1000;

// Values spread over the result, against what f32 makes of them.
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

void run(const Program& program, int64_t size) {
  const std::vector<Context> contexts = program.contexts();
  program.print_machine(contexts);
  Table table({"context", "n", "part", {"time", "seconds"}, {"GB/s", "gb_per_second"}});
  std::vector<svg::Bar> bars;
  std::string first_use, views_text;
  std::set<int64_t> sizes;
  for (const Context c : contexts) {
    const int64_t wanted = size > 0 ? size : real_gpu(c) ? 100'000'000 : 10'000'000;
    const int64_t n = wanted / kRows * kRows;
    sizes.insert(n);
    const double bytes = 4 * static_cast<double>(n);
    Tensor line, view, result;
    const auto add = [&](const std::string& part, double moved, const std::function<void()>& f) {
      const Timing t = measure(f);
      const double rate = moved / t.median / 1e9;
      table.add({to_string(c), count_cell(static_cast<double>(n)), part, time_cell(t.median),
                 moved > 0 ? number_cell(rate, "{:.0f}") : Cell("-", "")},
                c);
      bars.push_back({to_string(c) + ": " + part, t.median,
                      moved > 0 ? fmt::format("{}, {:.0f} GB/s", time_text(t.median), rate)
                                : time_text(t.median),
                      part == "all" ? svg::kBlue : svg::kPaleBlue});
      return t;
    };
    add("arange", bytes, [&] {
      line = arange(static_cast<double>(n), c);
      line.wait_to_read();
    });
    const Timing views = add("reshape, T", 0, [&] { view = line.reshape({kRows, -1}).T(); });
    add("times 2", 2 * bytes, [&] {
      result = view * 2;
      result.wait_to_read();
    });
    const Timing whole = add("all", 3 * bytes, [&] {
      result = arange(static_cast<double>(n), c).reshape({kRows, -1}).T() * 2;
      result.wait_to_read();
    });
    check(result, c, n);
    first_use += fmt::format(" {} {};", to_string(c), time_text(whole.first));
    views_text += fmt::format(" {} on {},", time_text(views.median), to_string(c));
  }
  first_use.back() = '.';
  fmt::print("First use, not in the table:{}\n\n{}\n", first_use, table.aligned());
  views_text.back() = '.';
  program.finish(
      table, Program::Bars{
                 .title = "arange(n).reshape(1000, -1).T * 2",
                 .list = contexts,
                 .label_width = 150,
                 .bars = bars,
                 .explanation =
                     "arange writes n numbers and the product reads and writes them once more: all "
                     "of it is a matter of memory bandwidth. Reshape and transpose only describe "
                     "the same memory anew and take" +
                     views_text +
                     " The product keeps the order of the memory it reads, so a transposed one is "
                     "as fast as a straight one." +
                     (sizes.size() > 1 ? " Sizes differ by context: compare GB/s." : "")});
}

}  // namespace

int main(int argc, char** argv) {
  int64_t n = 0;
  Program program("arange_transpose", "Times arange(n).reshape(1000, -1).T * 2.",
                  RunsOn::cpu_and_gpu);
  program.options()
      .add_option("--n", n, "numbers (default: 100 million on a GPU, else 10 million)")
      ->check(CLI::Range(int64_t{1000}, int64_t{1} << 33));
  return program.run(argc, argv, [&](const Program& p) { run(p, n); });
}
