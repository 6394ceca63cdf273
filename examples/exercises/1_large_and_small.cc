// Exercise 1: from which size on does a GPU multiply matrices faster than the CPU? What do the
// copies there and back change?
//   1_large_and_small --contexts "cpu(0),gpu(0)" --out out
// It times products of n x n matrices on each context. The base of comparison is the first host
// context, else the first context.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "common/program.h"
#include "common/wrap.h"

using namespace locus;
using namespace examples;

namespace {

struct Options {
  int64_t largest = 8192;
  double seconds = 5;
  bool tf32 = false;
};

// The measurements on one context, by size. A size that would take too long ends the vectors.
struct Sweep {
  Context context;
  double first_use = 0;  // the first product: start of the device, loading of kernels
  std::vector<double> sizes, errors;
  std::vector<Timing> compute, with_copies;
  double unwaited = 0;  // the calls alone, at the largest size
};

constexpr int kRuns = 6;  // the least runs of each size: a warm-up and five

double flops(double n) { return 2 * n * n * n; }

Sweep sweep(Context context, const std::vector<int64_t>& sizes, const Options& options) {
  Sweep s{context, 0, {}, {}, {}, {}, 0};
  for (const int64_t n : sizes) {
    const double size = static_cast<double>(n);
    const double expected =
        s.sizes.empty() ? 0 : s.compute.back().median * std::pow(size / s.sizes.back(), 3);
    if (kRuns * expected > options.seconds) {
      print_text(fmt::format(
          "{} stops before n = {}: {} products would take {}, more than --seconds {:g}; "
          "--seconds {:.0f} allows it\n\n",
          to_string(context), n, kRuns, time_text(kRuns * expected), options.seconds,
          std::ceil(1.1 * kRuns * expected)));
      break;
    }
    random::seed(static_cast<uint64_t>(n));
    const Tensor a = random::uniform(-1, 1, {n, n}), b = random::uniform(-1, 1, {n, n});
    const Tensor x = a.as_in_context(context), y = b.as_in_context(context);
    Tensor c;
    const Timing compute = measure([&] {
      c = dot(x, y);
      c.wait_to_read();  // else only the call is timed
    });
    if (s.sizes.empty()) s.first_use = compute.first;
    s.errors.push_back(check_product(fmt::format("n = {} on {}", n, to_string(context)), a, b, c));
    s.sizes.push_back(size);
    s.compute.push_back(compute);
    if (is_host(context)) continue;
    const auto with_copies = [&] { dot(a.copyto(context), b.copyto(context)).copyto(cpu()); };
    s.with_copies.push_back(measure(with_copies));
    s.unwaited = measure([&] { c = dot(x, y); }, {.seconds = 0}).median;
    c.wait_to_read();
  }
  return s;
}

std::vector<double> medians(const std::vector<Timing>& list) {
  std::vector<double> times;
  for (const Timing& t : list) times.push_back(t.median);
  return times;
}

struct Curve {
  std::string name;
  std::vector<double> times;
  svg::Plot::CurveStyle style;
};

std::vector<Curve> curves(const std::vector<Sweep>& sweeps) {
  std::vector<Curve> list;
  for (size_t i = 0; i < sweeps.size(); ++i) {
    const std::string name = to_string(sweeps[i].context);
    list.push_back({name, medians(sweeps[i].compute), {.color = svg::palette(i)}});
    if (is_host(sweeps[i].context)) continue;
    list.push_back({name + " with copies",
                    medians(sweeps[i].with_copies),
                    {.color = svg::palette(i), .dashed = true}});
  }
  return list;
}

std::string plot(const std::vector<Sweep>& sweeps, const std::vector<int64_t>& sizes, double top,
                 double height) {
  constexpr double kLeft = 96, kPlotWidth = 660, kKey = kLeft + kPlotWidth + 24;
  const std::vector<Curve> list = curves(sweeps);
  double low = 1e9, high = 0;
  size_t measured = 0;
  for (const Curve& c : list) {
    low = std::min(low, *std::min_element(c.times.begin(), c.times.end()) / 1.5);
    measured = std::max(measured, c.times.size());
    high = std::max(high, *std::max_element(c.times.begin(), c.times.end()) * 1.5);
  }
  const svg::Axis across{static_cast<double>(sizes.front()) / 1.15,
                         static_cast<double>(sizes[measured - 1]) * 1.15, true};
  const svg::Plot p({kLeft, top, kPlotWidth, height}, across, {low, high, true});
  std::string s;
  for (double t = 1e-9; t < high; t *= 10) {
    if (t >= low) s += p.line_at(t, tick_text(t));
  }
  for (size_t i = 0; i < measured; ++i)
    s += p.tick_at(static_cast<double>(sizes[i]), fmt::format("{}", sizes[i]));
  s += p.title_below("n");
  double key = top + 10;
  for (const Curve& c : list) {
    svg::Points points;
    for (size_t i = 0; i < c.times.size(); ++i)
      points.emplace_back(static_cast<double>(sizes[i]), c.times[i]);
    s += p.curve(points, c.style) + svg::key(kKey, key, c.name, c.style);
    key += 24;
  }
  return s;
}

// The sizes for which `times` of `g` are shorter than those of `c`.
std::string wins(const std::string& g, const std::string& c, const std::vector<double>& sizes,
                 const std::vector<Timing>& base, const std::vector<Timing>& times) {
  const size_t last = sizes.size() - 1;
  if (!differ(base[last], times[last]))
    return fmt::format("At n = {:.0f}, {} and {} show no difference beyond the spread. ",
                       sizes[last], g, c);
  std::vector<double> before, after;  // equal where they do not differ
  bool once = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    before.push_back(base[i].median);
    after.push_back(differ(base[i], times[i]) ? times[i].median : base[i].median);
    once = once || after[i] < before[i];
  }
  const auto n = crossover(sizes, before, after);
  if (!n)
    return fmt::format(
        fmt::runtime(once ? "{} is faster than {} at some sizes, but not at n = {:.0f}. "
                          : "{} is not faster than {} up to n = {:.0f}. "),
        g, c, sizes[last]);
  if (*n <= sizes[0]) return fmt::format("{} is faster than {} at all sizes. ", g, c);
  return fmt::format("{} is faster than {} from about n = {:.0f} on. ", g, c, *n);
}

// Index of the base of comparison.
size_t base_of(const std::vector<Sweep>& sweeps) {
  const auto host =
      std::find_if(sweeps.begin(), sweeps.end(), [](const Sweep& s) { return is_host(s.context); });
  return host == sweeps.end() ? 0 : static_cast<size_t>(host - sweeps.begin());
}

std::string compare(const Sweep& base, const Sweep& other) {
  const size_t both = std::min(base.sizes.size(), other.sizes.size()), last = both - 1;
  const std::vector<double> sizes(base.sizes.begin(),
                                  base.sizes.begin() + static_cast<std::ptrdiff_t>(both));
  const std::string o = to_string(other.context), b = to_string(base.context);
  const Timing &mine = other.compute[last], &its = base.compute[last];
  const double ratio = its.median / mine.median;
  std::string s = wins(o, b, sizes, base.compute, other.compute);
  if (!is_host(other.context))
    s += wins(o + " with its copies", b, sizes, base.compute, other.with_copies);
  if (differ(mine, its))
    s += fmt::format("At n = {:.0f}, {} takes {} instead of {}: {:.2f} times {}.", sizes[last], o,
                     time_text(mine.median), time_text(its.median), std::max(ratio, 1 / ratio),
                     ratio >= 1 ? "faster" : "slower");
  return s + "\n";
}

std::string explain_waits(const Sweep& gpu) {
  const std::string g = to_string(gpu.context);
  const double n = gpu.sizes.back(), waited = gpu.compute.back().median;
  std::string s = fmt::format(
      "A product of {0:.0f} x {0:.0f} takes {1} on {2}, although it has little arithmetic: this is "
      "the cost of a launch and a wait.\n",
      gpu.sizes[0], time_text(gpu.compute[0].median), g);
  if (gpu.unwaited > waited - 2 * gpu.compute.back().spread || gpu.unwaited > 0.8 * waited)
    return s + fmt::format(
                   "Timed without a wait, n = {:.0f} takes {}, and {} with it: this run does not "
                   "show the error of a clock without a wait.\n",
                   n, time_text(gpu.unwaited), time_text(waited));
  return s +
         fmt::format(
             "A common mistake: timed without a wait, n = {:.0f} seems to take {}, which would be "
             "{}. With the wait it takes {}, which is {}.\n",
             n, time_text(gpu.unwaited), si_text(flops(n) / gpu.unwaited, "FLOP/s"),
             time_text(waited), si_text(flops(n) / waited, "FLOP/s"));
}

std::string no_comparison(const std::vector<Sweep>& sweeps) {
  return fmt::format("Only {} was measured, so this run cannot show when a GPU is faster. {}\n",
                     to_string(sweeps[0].context),
                     num_gpus() > 0
                         ? "--contexts \"cpu(0),gpu(0)\" compares two contexts."
                         : "LOCUS_EMULATED_GPUS=1 LOCUS_EMULATED_LINK=\"h2d=55,d2h=55\" shows the "
                           "comparison with modelled times.");
}

// Of the least steady time; "" if all are steady.
std::string unsteady(const std::vector<Sweep>& sweeps) {
  std::string note;
  double most = 0;
  for (const Sweep& s : sweeps)
    for (size_t i = 0; i < s.sizes.size(); ++i) {
      const Timing& t = s.compute[i];
      if (t.spread <= most * t.median) continue;
      most = t.spread / t.median;
      note = unsteady_note(fmt::format("{}, n = {:.0f}", to_string(s.context), s.sizes[i]), t);
    }
  return note.empty() ? "" : note + "\n";
}

std::string explain(const std::vector<Sweep>& sweeps) {
  const size_t base = base_of(sweeps);
  std::string s = sweeps.size() == 1 ? no_comparison(sweeps) : "";
  for (size_t i = 0; i < sweeps.size(); ++i)
    if (i != base) s += compare(sweeps[base], sweeps[i]);
  const auto gpu = std::find_if(sweeps.begin(), sweeps.end(),
                                [](const Sweep& w) { return !is_host(w.context); });
  if (gpu != sweeps.end()) s += explain_waits(*gpu);
  s += unsteady(sweeps) + "First use, not in the table:";
  for (const Sweep& w : sweeps)
    s += fmt::format(" {} {};", to_string(w.context), time_text(w.first_use));
  s.back() = '.';
  return s;
}

Table make_table(const std::vector<Sweep>& sweeps, const std::vector<int64_t>& sizes) {
  const Sweep& base = sweeps[base_of(sweeps)];
  std::vector<Column> columns{"n"};
  std::vector<Context> contexts;
  size_t rows = 0;
  for (const Sweep& s : sweeps) {
    const std::string c = to_string(s.context);
    columns.emplace_back(c, c + " s");
    columns.emplace_back("GFLOP/s", c + " GFLOP/s");
    columns.emplace_back("error", c + " error");
    if (!is_host(s.context)) columns.emplace_back("with copies", c + " with copies s");
    if (&s != &base) columns.emplace_back(to_string(base.context) + "/" + c);
    contexts.push_back(s.context);
    rows = std::max(rows, s.sizes.size());
  }
  Table table(columns);
  for (size_t i = 0; i < rows; ++i) {
    const Cell unknown("-", "");
    std::vector<Cell> row{fmt::format("{}", sizes[i])};
    for (const Sweep& s : sweeps) {
      const bool known = i < s.sizes.size(), compared = known && i < base.sizes.size();
      const double t = known ? s.compute[i].median : 1;
      const double rate = flops(static_cast<double>(sizes[i])) / t / 1e9;
      row.push_back(known ? time_cell(t) : unknown);
      row.push_back(known ? number_cell(rate, "{:.3g}") : unknown);
      row.push_back(known ? number_cell(s.errors[i], "{:.0e}") : unknown);
      if (!is_host(s.context)) row.push_back(known ? time_cell(s.with_copies[i].median) : unknown);
      if (&s != &base)
        row.push_back(compared ? number_cell(base.compute[i].median / t, "{:.2f}") : unknown);
    }
    table.add(row, contexts);
  }
  return table;
}

void run(const Program& program, const Options& options) {
  if (options.tf32) turn_on_tf32();
  const std::vector<Context> contexts = program.contexts();
  program.print_machine(contexts);
  std::vector<int64_t> sizes;
  for (int64_t n = 16; n <= options.largest; n *= 2) sizes.push_back(n);
  std::vector<Sweep> sweeps;
  for (const Context c : contexts) sweeps.push_back(sweep(c, sizes, options));
  const Table table = make_table(sweeps, sizes);
  fmt::print("{}\n", table.aligned());

  constexpr double kTop = 92, kHeight = 300;
  program.finish(table, {.title = "Products of n x n matrices: time by size",
                         .subtitle = program.conditions(contexts),
                         .body = plot(sweeps, sizes, kTop, kHeight),
                         .explanation = explain(sweeps),
                         .top = kTop,
                         .height = kHeight + 50});
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  Program program("1_large_and_small", "Products of large and small matrices on CPU and GPU.",
                  RunsOn::cpu_and_gpu);
  program.options()
      .add_option("--largest", options.largest, "the largest n, of 16, 32, 64, ...")
      ->check(whole(16, int64_t{1} << 15))
      ->capture_default_str();
  program.options()
      .add_option("--seconds", options.seconds,
                  "at most this many seconds of computing per context and size")
      ->check(above_zero())
      ->capture_default_str();
  program.options().add_flag("--tf32", options.tf32, "let GPUs round f32 operands to TF32");
  return program.run(argc, argv, [&](const Program& p) { run(p, options); });
}
