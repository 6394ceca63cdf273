// Lists the contexts of this machine with their memory, and measures copies between all of them.
//   contexts --out out
// For each pair it prints GB/s of a large copy, the time of a small copy with its wait, and GB/s of
// two large copies in opposite directions at once. Targets are allocated before.
#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>
#include <locus/devices/emulated_link.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "common/program.h"
#include "common/status.h"

using namespace locus;
using namespace examples;

namespace {

struct Options {
  int64_t mebibytes = 256;
  double seconds = .3;
};

// A copy between two contexts, or within one.
struct Link {
  double rate = 0, small = 0, both_ways = 0;  // bytes a second, seconds, bytes a second
};
using Links = std::vector<std::vector<Link>>;  // [from][to]

Link measure_link(Context from, Context to, const Options& o) {
  const MeasureOptions runs{.seconds = o.seconds};
  const int64_t bytes = o.mebibytes << 20;
  const auto block = [](Context c, int64_t n) { return full({n}, 1, {c, u8}); };
  const Tensor here = block(from, bytes), there = block(to, bytes);
  const double large = measure(
                           [&] {
                             here.copyto(there);
                             wait_all();
                           },
                           runs)
                           .median;
  Link link;
  link.rate = static_cast<double>(bytes) / large;
  const Tensor small = block(from, 4096), target = block(to, 4096);
  link.small = measure(
                   [&] {
                     small.copyto(target);
                     wait_all();
                   },
                   runs)
                   .median;
  if (from == to || (is_host(from) && is_host(to))) return link;
  const Tensor other = block(to, bytes), back = block(from, bytes);
  const bool free = !is_host(from) && !is_host(to);  // else each copy blocks its thread
  const Contexts ends{from, to};
  link.both_ways = 2 * static_cast<double>(bytes) /
                   measure(
                       [&] {
                         const auto one = [&](int i) {
                           if (i == 0)
                             here.copyto(there);
                           else
                             other.copyto(back);
                         };
                         if (free)
                           one(0), one(1);
                         else
                           parallel(ends, one);
                         wait_all();
                       },
                       runs)
                       .median;
  return link;
}

std::string digits(double v) {
  return v < 999.5 ? fmt::format("{:.3g}", v) : fmt::format("{:.0f}", v);
}
std::string gigabytes(double bytes) { return digits(bytes / 1e9); }
std::string microseconds(double s) { return digits(s * 1e6); }

// One square per link. Better links are darker.
std::string heat_map(double left, double top, double side, const std::string& title,
                     const std::vector<Context>& list, const Links& links,
                     const std::function<double(const Link&)>& value, bool least_is_best,
                     const std::function<std::string(double)>& text) {
  const size_t n = list.size();
  double low = INFINITY, high = 0;
  for (const auto& row : links)
    for (const Link& l : row)
      if (const double v = value(l); v > 0) low = std::min(low, v), high = std::max(high, v);
  std::string body = svg::text(left, top - 40, title, {.weight = 700});
  const double cell = side / static_cast<double>(n);
  for (size_t from = 0; from < n; ++from) {
    const double y = top + static_cast<double>(from) * cell;
    const std::string name = to_string(list[from]);
    body += svg::text(left - 6, y + cell / 2 + 4, name,
                      {.color = svg::kMuted, .size = n > 5 ? 10 : 11, .anchor = "end"});
    const size_t cut = name.find('_') + 1;  // long names take two lines
    const svg::TextStyle style{.color = svg::kMuted, .size = n > 5 ? 8 : 10, .anchor = "middle"};
    const double x = left + (static_cast<double>(from) + .5) * cell;
    if (cut > 0) body += svg::text(x, top - 18, name.substr(0, cut), style);
    body += svg::text(x, top - 7, name.substr(cut), style);
    for (size_t to = 0; to < n; ++to) {
      const double v = value(links[from][to]);
      double share = high > low ? std::log(v / low) / std::log(high / low) : 1;
      if (least_is_best) share = 1 - share;
      const auto mixed = [&](int pale, int dark) {
        return static_cast<int>(std::lround(pale + (dark - pale) * share));
      };
      const std::string color = v > 0 ? fmt::format("#{:02x}{:02x}{:02x}", mixed(0xe8, 0x1d),
                                                    mixed(0xef, 0x4e), mixed(0xfb, 0xd8))
                                      : svg::kGrid;
      const double at = left + static_cast<double>(to) * cell;
      body += svg::rectangle({at + 1, y + 1, cell - 2, cell - 2, color,
                              fmt::format("{} to {}", to_string(list[from]), to_string(list[to]))});
      if (v > 0)
        body +=
            svg::text(at + cell / 2, y + cell / 2 + 4, text(v),
                      {.color = svg::ink_on(color), .size = n > 4 ? 10 : 13, .anchor = "middle"});
    }
  }
  return body;
}

// Describes the links of emulated GPUs; empty for real ones.
std::string emulation(const std::vector<Context>& list) {
  if (!std::ranges::any_of(list, examples::emulated)) return "";
  const auto& model = locus::emulated::link_model();
  if (!model) return "The links of emulated GPUs are this machine's memory. ";
  return fmt::format(
      "LOCUS_EMULATED_LINK models the links: {:g} GB/s from the host to a GPU, {:g} GB/s back, "
      "{:g} "
      "GB/s from GPU to GPU, and {:g} µs for each copy. ",
      model->h2d, model->d2h, model->peer, model->latency_us);
}

void run(Program& program, const Options& o) {
  const std::vector<Context> list = program.contexts();
  program.print_machine(list);
  Table memory({"context", "name", "free GiB", "total GiB"});
  for (const Context c : list) {
    const MemoryInfo m = device(c).memory();
    const auto gib = [](size_t bytes) {
      return number_cell(static_cast<double>(bytes) / (1 << 30), "{:.1f}");
    };
    memory.add({to_string(c), context_info(c).name, gib(m.free), gib(m.total)}, c);
  }
  fmt::print("{}\n", memory.aligned());

  Links links(list.size(), std::vector<Link>(list.size()));
  Table table({{"from", "from"},
               {"to", "to"},
               {"GB/s", "bytes_per_second"},
               {"both ways GB/s", "bytes_per_second_both_ways"},
               {"4 KiB copy", "seconds_4_kib"}});
  Status status;
  for (size_t from = 0; from < list.size(); ++from) {
    status.stage(fmt::format("links from {}", to_string(list[from])));
    for (size_t to = 0; to < list.size(); ++to) {
      status.show(fmt::format("link {} of {}: {} to {}", from * list.size() + to + 1,
                              list.size() * list.size(), to_string(list[from]),
                              to_string(list[to])));
      Link& l = links[from][to] = measure_link(list[from], list[to], o);
      table.add({to_string(list[from]),
                 to_string(list[to]),
                 {gigabytes(l.rate), fmt::format("{:.6g}", l.rate)},
                 {l.both_ways > 0 ? gigabytes(l.both_ways) : "-",
                  l.both_ways > 0 ? fmt::format("{:.6g}", l.both_ways) : ""},
                 time_cell(l.small)},
                std::vector{list[from], list[to]});
    }
  }
  status.clear();
  fmt::print("{}\n", table.aligned());

  constexpr double kSide = 210, kTop = 150;
  const auto map = [&](int i, const char* title, const auto& value, bool least, const auto& text) {
    return heat_map(100 + 300 * i, kTop, kSide, title, list, links, value, least, text);
  };
  program.finish(
      table,
      svg::Figure{
          .title = std::ranges::any_of(list, examples::emulated)
                       ? "Contexts and the links between them: emulated GPUs"
                       : "Contexts and the links between them",
          .subtitle = program.conditions(list),
          .body = map(
                      0, "one way, GB/s", [](const Link& l) { return l.rate; }, false, gigabytes) +
                  map(
                      1, "both ways at once, total GB/s", [](const Link& l) { return l.both_ways; },
                      false, gigabytes) +
                  map(
                      2, "4 KiB copy and wait, µs", [](const Link& l) { return l.small; }, true,
                      microseconds),
          .explanation = fmt::format(
              "{}A copy of {} MiB goes from the context of the row to that of the column; darker "
              "is "
              "better. Within one context it shows the speed of the memory, with each byte counted "
              "once. Both ways at once: two copies in opposite directions, with the bytes of both. "
              "It is twice the rate of one way if the copies overlap, and the same rate if they "
              "take "
              "turns.",
              emulation(list), o.mebibytes),
          .height = kTop - 84 + kSide});
}

}  // namespace

int main(int argc, char** argv) {
  Program program("contexts", "Lists this machine's contexts and measures the links between them.",
                  RunsOn::everything);
  Options o;
  program.options()
      .add_option("--large", o.mebibytes, "MiB of a large copy")
      ->check(whole(1, int64_t{1} << 14))
      ->capture_default_str();
  program.options()
      .add_option("--seconds", o.seconds, "seconds that each measurement takes at least")
      ->check(number(.001, 60))
      ->capture_default_str();
  return program.run(argc, argv, [&](Program& p) { run(p, o); });
}
