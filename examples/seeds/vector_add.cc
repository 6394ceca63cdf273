// Adds two vectors on a GPU and copies the sum back.
//   vector_add --out out
// It prints the time of each part; each part ends with a wait.
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "common/program.h"

using namespace locus;
using namespace examples;

namespace {

struct Part {
  std::string name;
  Context where;
  double bytes, seconds;
  const char* color;
};

void run(const Program& program, int64_t size) {
  const Context c = program.context();
  program.print_machine({c});
  const int64_t n = size > 0 ? size : real_gpu(c) ? 10'000'000 : 1'000'000;
  const double bytes = 4 * static_cast<double>(n);
  const Tensor x = arange(static_cast<double>(n)), y = ones({n});

  Tensor on_x, on_y, sum, back;
  const Timing up = measure([&] {
    on_x = x.copyto(c);
    on_y = y.copyto(c);
    on_y.wait_to_read();
  });
  const Timing add = measure([&] {
    sum = on_x + on_y;
    sum.wait_to_read();
  });
  const Timing call = measure([&] { sum = on_x + on_y; });
  const Timing down = measure([&] { back = sum.copyto(cpu()); });
  const Timing host = measure([&] { x + y; });
  if (!all(back == x + y).item<bool>()) throw std::runtime_error("the sum differs from the CPU's");

  const std::string where = to_string(c);
  std::vector<Part> parts{
      {"copy both to " + where, c, 2 * bytes, up.median, svg::kAmber},
      {"add on " + where, c, 3 * bytes, add.median, svg::kBlue},
      {"copy the sum back", c, bytes, down.median, svg::kAmber},
  };
  if (c != cpu())
    parts.push_back({"add on cpu(0) instead", cpu(), 3 * bytes, host.median, svg::kMuted});
  Table table({"part", "bytes", {"time", "seconds"}, {"GB/s", "gb_per_second"}});
  std::vector<svg::Bar> bars;
  for (const Part& p : parts) {
    const double rate = p.bytes / p.seconds / 1e9;
    table.add({p.name, count_cell(p.bytes), time_cell(p.seconds), number_cell(rate, "{:.3g}")},
              p.where);
    bars.push_back({p.name, p.seconds,
                    time_text(p.seconds) + ", " + si_text(p.bytes / p.seconds, "B/s"), p.color});
  }
  fmt::print("{}\n", table.aligned());
  std::string s = fmt::format("The addition takes {}. ", time_text(add.median));
  if (!is_host(c))
    s += fmt::format("Its call returns after {}{}. ", time_text(call.median),
                     call.median < 0.8 * add.median
                         ? ", which is all that a clock without a wait shows"
                         : ", so this run does not show the error of a clock without a wait");
  const double whole = up.median + add.median + down.median;
  if (is_host(c)) {
    s += "Everything is on the CPU here, so this run cannot show what copies to a GPU cost.";
  } else {
    const double spread = up.spread + add.spread + down.spread + host.spread;
    s += fmt::format(
        "With the copies in both directions it takes {}. On cpu(0), where the vectors "
        "are, it takes {}: ",
        time_text(whole), time_text(host.median));
    if (std::abs(whole - host.median) <= spread)
      s += "no difference beyond the spread.";
    else if (whole > host.median)
      s += fmt::format(
          "{:.1f} times as fast. One addition is not worth the copies; data that stay "
          "on {} are copied once.",
          whole / host.median, where);
    else
      s += fmt::format("{:.1f} times as slow. In this run the copies are worth it.",
                       host.median / whole);
  }
  s += fmt::format(" First use, not in the table: {}. The sum has the same bits as the CPU's.",
                   time_text(up.first));
  program.finish(table,
                 Program::Bars{.title = fmt::format("Adding two vectors of {} numbers on {}",
                                                    count_text(static_cast<double>(n)), where),
                               .list = {c},
                               .label_width = 180,
                               .bars = bars,
                               .explanation = s});
}

}  // namespace

int main(int argc, char** argv) {
  int64_t n = 0;
  Program program("vector_add", "Adds two vectors on a GPU and copies the sum back.", RunsOn::one);
  program.options()
      .add_option("--n", n, "numbers in a vector (default: 10 million on a GPU, else 1 million)")
      ->check(whole(1, int64_t{1} << 33));
  return program.run(argc, argv, [&](const Program& p) { run(p, n); });
}
