// Solves Laplace's equation on a square plate: how warm is it inside if the left edge is held at 1
// and the other edges at 0?
//   laplace --contexts "cpu(0),gpu(0)" --out out
// A Jacobi sweep sets each inner point to the mean of its four neighbours. It is written three
// times: with slices and built-in ops, as an ElementwiseKernel of slices, and as one of the whole
// grid. All must compute the same bits.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <stdexcept>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "common/program.h"

using namespace locus;
using namespace examples;

namespace {

struct Options {
  int64_t n = 128, sweeps = 20'000, block = 100;
  double tolerance = 1e-6;
};

// Writes `next`. Edges do not change; `edge` is true there.
using Sweep = std::function<void(const Tensor& u, const Tensor& next, const Tensor& edge)>;

void sweep_slices(const Tensor& u, const Tensor& next, const Tensor&) {
  const Slice inner(1, -1), before(0, -2), after(2, {});
  next(inner, inner) =
      0.25 * (u(inner, after) + u(inner, before) + u(before, inner) + u(after, inner));
}

void sweep_kernel_of_slices(const Tensor& u, const Tensor& next, const Tensor&) {
  static const ElementwiseKernel mean("T right, T left, T up, T down", "T mean",
                                      "mean = T(0.25) * (right + left + up + down);", "mean");
  const Slice inner(1, -1), before(0, -2), after(2, {});
  mean(u(inner, after), u(inner, before), u(before, inner), u(after, inner), next(inner, inner));
}

// u is raw, so the body reads any of its points. i counts points row by row.
void sweep_kernel_of_grid(const Tensor& u, const Tensor& next, const Tensor& edge) {
  static const ElementwiseKernel sweep("raw T u, bool edge", "T next", R"(
const int64_t row = u.shape()[1];
next = edge ? u[i] : T(0.25) * (u[i + 1] + u[i - 1] + u[i - row] + u[i + row]);)",
                                       "sweep");
  sweep(u, edge, next);
}

struct Way {
  std::string name;
  Sweep sweep;
  const char* color;
};
const std::array<Way, 3> kWays{{{"slices and ops", sweep_slices, svg::kPaleBlue},
                                {"kernel of slices", sweep_kernel_of_slices, svg::kBlue},
                                {"kernel of the grid", sweep_kernel_of_grid, svg::kGreen}}};

Tensor start(int64_t n, Context c) {
  const Tensor u = zeros({n, n}, c);
  u(Slice(), 0) = 1;
  return u;
}

struct Result {
  Context context;
  const Way* way = nullptr;
  double first_use = 0, sweep = 0, spread = 0;  // seconds
  int64_t sweeps = 0;
  double change = 0;             // of the last sweep, at most
  Tensor early = {}, last = {};  // after the first block of sweeps, and in the end; on the CPU
};

// Compares the last sweep with plain loops.
void check_sweep(const Result& r, const Tensor& before) {
  const int64_t n = r.last.shape()[0];
  const std::vector<float> u = before.to_vector<float>(), next = r.last.to_vector<float>();
  for (int64_t row = 1; row + 1 < n; ++row) {
    for (int64_t column = 1; column + 1 < n; ++column) {
      const auto at = [&](int64_t y, int64_t x) { return u[static_cast<size_t>(y * n + x)]; };
      const float want = 0.25f * (at(row, column + 1) + at(row, column - 1) + at(row - 1, column) +
                                  at(row + 1, column));
      const float got = next[static_cast<size_t>(row * n + column)];
      if (got != want)
        throw std::runtime_error(fmt::format("{} on {}: point ({}, {}) is {}; expected {}",
                                             r.way->name, to_string(r.context), row, column, got,
                                             want));
    }
  }
}

Result solve(Context c, const Way& way, const Options& options) {
  Result r{.context = c, .way = &way};
  Tensor u = start(options.n, c), next = u.clone();
  next.wait_to_read();
  const double from = now();
  const Tensor edge = ones({options.n, options.n}, {c, bool_}), unused = next.clone();
  edge(Slice(1, -1), Slice(1, -1)) = false;
  way.sweep(u, unused, edge);  // compiles the kernel
  unused.wait_to_read();
  r.first_use = now() - from;
  std::vector<double> times;  // a sweep's, by block
  do {
    const double begin = now();
    const int64_t sweeps = std::min(options.block, options.sweeps - r.sweeps);
    for (int64_t i = 0; i < sweeps; ++i) {
      way.sweep(u, next, edge);
      std::swap(u, next);
    }
    r.change = abs(u - next).max().item<float>();  // waits
    times.push_back((now() - begin) / static_cast<double>(sweeps));
    r.sweeps += sweeps;
    if (times.size() == 1) r.early = u.copyto(cpu());
  } while (r.change >= options.tolerance && r.sweeps < options.sweeps);
  std::sort(times.begin(), times.end());
  r.sweep = median(times);
  r.spread = (times[times.size() * 3 / 4] - times[times.size() / 4]) / 2;
  r.last = u.copyto(cpu());
  check_sweep(r, next);
  return r;
}

// From pale yellow at 0 through orange and red to black at 1.
std::string color_of(double share) {
  constexpr std::array<std::array<double, 3>, 5> kRamp{
      {{254, 249, 215}, {251, 191, 36}, {220, 60, 30}, {120, 15, 50}, {30, 5, 30}}};
  const double at = std::clamp(share, 0.0, 1.0) * (kRamp.size() - 1);
  const size_t below = std::min(static_cast<size_t>(at), kRamp.size() - 2);
  std::array<int, 3> mixed{};
  for (size_t k = 0; k < 3; ++k)
    mixed[k] = static_cast<int>(
        std::lerp(kRamp[below][k], kRamp[below + 1][k], at - static_cast<double>(below)));
  return fmt::format("#{:02x}{:02x}{:02x}", mixed[0], mixed[1], mixed[2]);
}

constexpr int kBands = 20;

// The field in bands of equal color, in at most 128 x 128 cells.
std::string bands(const svg::Plot::Box& box, const Tensor& field) {
  const int64_t n = field.shape()[0], cells = std::min<int64_t>(n, 128);
  const std::vector<float> u = field.to_vector<float>();
  const double size = box.width / static_cast<double>(cells);
  const auto band = [&](int64_t row, int64_t column) {
    const auto point = [&](int64_t cell) { return (2 * cell + 1) * n / (2 * cells); };
    const float v = u[static_cast<size_t>(point(row) * n + point(column))];
    return std::clamp(static_cast<int>(v * kBands), 0, kBands - 1);
  };
  std::array<std::string, kBands> paths;
  for (int64_t row = 0; row < cells; ++row) {
    for (int64_t column = 0, end; column < cells; column = end) {
      const int b = band(row, column);
      for (end = column + 1; end < cells && band(row, end) == b;) ++end;
      paths[static_cast<size_t>(b)] += fmt::format(
          "M{:.2f} {:.2f}h{:.2f}v{:.2f}h{:.2f}z", box.left + size * static_cast<double>(column),
          box.top + size * static_cast<double>(row), size * static_cast<double>(end - column), size,
          -size * static_cast<double>(end - column));
    }
  }
  std::string s = "<g shape-rendering=\"crispEdges\">\n";
  for (size_t b = 0; b < paths.size(); ++b)
    if (!paths[b].empty())
      s += fmt::format("<path fill=\"{}\" d=\"{}\"/>\n",
                       color_of((static_cast<double>(b) + 0.5) / kBands), paths[b]);
  return s + "</g>\n";
}

std::string field_plot(const svg::Plot::Box& box, const Tensor& field, const std::string& title) {
  const double end = static_cast<double>(field.shape()[0] - 1);
  const svg::Plot p(box, {0, end}, {end, 0});  // rows go down
  std::string s = svg::text(box.left, box.top - 14, title, {.weight = 700});
  for (const int quarter : {0, 1, 2, 3, 4}) {
    const double v = std::round(end * quarter / 4);
    s += p.line_at(v, fmt::format("{}", v)) + p.tick_at(v, fmt::format("{}", v));
  }
  s += svg::text(box.left - 8, box.top - 14, "row",
                 {.color = svg::kMuted, .size = 12, .anchor = "end"});
  return s + p.title_below("column") + bands(box, field);
}

std::string color_scale(double left, double top, double height) {
  constexpr double kWidth = 18;
  const double band = height / kBands;
  std::string s = svg::text(left, top - 14, "temperature", {.color = svg::kMuted, .size = 12});
  s += "<g shape-rendering=\"crispEdges\">\n";
  for (int b = 0; b < kBands; ++b)
    s += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.2f}\" width=\"{}\" height=\"{:.2f}\" fill=\"{}\"/>\n", left,
        top + height - band * (b + 1), kWidth, band, color_of((b + 0.5) / kBands));
  s += "</g>\n";
  for (const double v : {0.0, 0.25, 0.5, 0.75, 1.0})
    s += svg::text(left + kWidth + 8, top + height * (1 - v) + 4, fmt::format("{:.2f}", v),
                   {.color = svg::kMuted, .size = 12});
  return s;
}

// Reads and writes of the grid, once each.
double bytes(const Options& o) { return 8 * static_cast<double>(o.n) * static_cast<double>(o.n); }

svg::Figure figure(const Program& program, const std::vector<Result>& results, const Options& o,
                   const std::string& explanation) {
  constexpr double kSide = 320, kTop = 122, kLeft = 84, kGap = 410;
  const Result& r = results.front();
  const auto after = [](int64_t sweeps) {
    return "after " + counted(static_cast<double>(sweeps), "sweep");
  };
  std::string s =
      field_plot({kLeft, kTop, kSide, kSide}, r.early, after(std::min(o.block, r.sweeps)));
  s += field_plot({kLeft + kGap, kTop, kSide, kSide}, r.last, after(r.sweeps));
  s += color_scale(kLeft + kGap + kSide + 28, kTop, kSide);
  const double top = kTop + kSide + 92;
  s += svg::text(40, top - 20, "Time of a sweep", {.weight = 700});
  std::vector<svg::Bar> bars;
  std::vector<Context> contexts;
  for (const Result& each : results) {
    if (contexts.empty() || contexts.back() != each.context) contexts.push_back(each.context);
    bars.push_back({to_string(each.context) + ": " + each.way->name, each.sweep,
                    time_text(each.sweep) + ", " + si_text(bytes(o) / each.sweep, "B/s"),
                    each.way->color});
  }
  s += svg::bars(40, top, 880, 200, bars);
  return {.title = fmt::format("Laplace's equation on {0} x {0} points", o.n),
          .subtitle =
              program.conditions(contexts, fmt::format("medians of blocks of {} sweeps", o.block)),
          .body = s,
          .explanation = explanation,
          .top = kTop,
          .height = top - kTop + svg::kBarRow * static_cast<double>(bars.size())};
}

std::string compared(const Result& slow, const Result& fast) {
  if (std::abs(slow.sweep - fast.sweep) <= slow.spread + fast.spread)
    return fmt::format("the {} takes {}, no difference beyond the spread", fast.way->name,
                       time_text(fast.sweep));
  const double ratio = slow.sweep / fast.sweep;
  return fmt::format("the {} takes {}, {:.1f} times as {}", fast.way->name, time_text(fast.sweep),
                     std::max(ratio, 1 / ratio), ratio > 1 ? "fast" : "slow");
}

std::string explain(const std::vector<Result>& results, const Options& o) {
  std::string s;
  for (size_t at = 0; at < results.size(); at += kWays.size()) {
    const Result& ops = results[at];
    s += fmt::format("On {}, a sweep of slices and ops takes {}; {}; {}. ", to_string(ops.context),
                     time_text(ops.sweep), compared(ops, results[at + 1]),
                     compared(ops, results[at + 2]));
  }
  const Result& r = results.front();
  const int64_t low = (o.n - 1) / 2, high = o.n / 2;
  const double middle = r.last(Slice(low, high + 1), Slice(low, high + 1)).mean().item<float>();
  s += fmt::format(
      "Each op makes a tensor: a sweep of ops reads and writes the grid several times, and a "
      "kernel once. GB/s count one read and one write. All ways have the same bits on all "
      "contexts.\n"
      "The last of {} changed a point by at most {:.1e}, {}. The middle of the plate is at {:.4f}. "
      "In the exact solution it is at 0.25: sweeps that change little can be far from it.\n",
      counted(static_cast<double>(r.sweeps), "sweep"), r.change,
      r.change < o.tolerance
          ? fmt::format("less than the tolerance, {:.0e}", o.tolerance)
          : fmt::format("not less than the tolerance, {:.0e}: --sweeps ended the run", o.tolerance),
      middle);
  s += "First use, not in the table:";
  for (const Result& each : results)
    s += fmt::format(" {}, {}: {};", to_string(each.context), each.way->name,
                     time_text(each.first_use));
  s.back() = '.';
  return s;
}

void run(const Program& program, const Options& o) {
  const std::vector<Context> contexts = program.contexts();
  program.print_machine(contexts);
  Table table({"context",
               "way",
               "sweeps",
               {"last change", "last_change"},
               {"per sweep", "seconds_per_sweep"},
               {"GB/s", "gb_per_second"}});
  std::vector<Result> results;
  for (const Context c : contexts) {
    for (const Way& way : kWays) {
      results.push_back(solve(c, way, o));
      const Result &r = results.back(), &first = results.front();
      if (r.sweeps != first.sweeps || !all(r.last == first.last).item<bool>())
        throw std::runtime_error(fmt::format("{} on {} and {} on {} differ", r.way->name,
                                             to_string(c), first.way->name,
                                             to_string(first.context)));
      table.add({to_string(c), way.name, count_cell(static_cast<double>(r.sweeps)),
                 number_cell(r.change, "{:.1e}"), time_cell(r.sweep),
                 number_cell(bytes(o) / r.sweep / 1e9, "{:.3g}")},
                c);
    }
  }
  fmt::print("{}\n", table.aligned());
  program.finish(table, figure(program, results, o, explain(results, o)));
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  Program program("laplace", "Solves Laplace's equation by Jacobi sweeps, written in three ways.",
                  RunsOn::cpu_and_gpu);
  program.options()
      .add_option("--n", o.n, "rows and columns of the grid")
      ->check(whole(3, 1 << 15))
      ->capture_default_str();
  program.options()
      .add_option("--tolerance", o.tolerance, "ends when a sweep changes no point by as much")
      ->check(above_zero())
      ->capture_default_str();
  program.options()
      .add_option("--sweeps", o.sweeps, "ends after so many sweeps at the latest")
      ->check(whole(1))
      ->capture_default_str();
  program.options()
      .add_option("--check-every", o.block, "sweeps between two looks at the change")
      ->check(whole(1))
      ->capture_default_str();
  return program.run(argc, argv, [&](const Program& p) { run(p, o); });
}
