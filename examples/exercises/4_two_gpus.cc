// Exercise 4: two products on two GPUs, and both on one.
//   4_two_gpus --out out
// One host thread enqueues all work. GPUs run independently, so both are busy before the host
// waits. Compiled, one call replays the work of both.
#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "common/program.h"
#include "common/spans.h"
#include "common/wrap.h"

using namespace locus;
using namespace examples;

namespace {

struct Options {
  int64_t n = 0;   // 0: 4096, or 1024 on emulated GPUs
  int repeat = 0;  // 0: as many products as take a GPU 50 ms
};

std::vector<Context> two_gpus(const Program& program) {
  const std::vector<Context> list = program.contexts();
  if (list.size() == 2) return list;
  throw std::runtime_error(fmt::format(
      "this exercise needs two GPUs and there {} {}: nothing was measured. LOCUS_EMULATED_GPUS=2 "
      "LOCUS_EMULATED_LINK=\"peer=395\" emulates two with modelled times",
      list.size() == 1 ? "is" : "are", list.size()));
}

// A GPU with its matrices and a stream.
struct Place {
  Place(Context c, const Tensor& left, const Tensor& right)
      : context(c), stream(c), a(left.copyto(c)), b(right.copyto(c)) {}
  // Enqueues products, all into the same memory. Does not wait.
  Tensor multiply(int times) const {
    const StreamScope on(stream);
    Tensor c = dot(a, b);
    for (int i = 1; i < times; ++i) matmul(a, b, {}, c);
    return c;
  }
  void wait() { stream.synchronize(); }

  Context context;
  Stream stream;
  Tensor a, b;
  Tensor product, compiled;  // the last results
};

using Work = std::vector<Span>;  // what a GPU did

// Enqueue work without waiting: products on one GPU, or a replay on both.
struct Orders {
  std::function<void(int)> multiply;
  std::function<void()> replay;
};

struct Run {
  double seconds = 0, calls = 0;  // in total, and in the host's calls
  double spread = 0;              // of the runs: half their interquartile range
  Work work[2] = {};
};

struct Way {
  std::string name;
  std::function<void(const Orders&)> run;
  Run median = {};  // the traced run of median time, shown in the table and in the picture
};

// Records the products on both GPUs.
class Both {
 public:
  Both(std::vector<Place>& places, int times)
      : places_(places), multiply_([&places, times](const Tensors&) {
          return Tensors{places[0].multiply(times), places[1].multiply(times)};
        }) {}
  void replay() {
    const StreamScope on_first(places_[0].stream), on_second(places_[1].stream);
    for (Place& p : places_) p.compiled = {};
    const Tensors products = multiply_({});
    for (size_t p = 0; p < 2; ++p) places_[p].compiled = products[p];
  }

 private:
  std::vector<Place>& places_;
  Compiled multiply_;
};

// Runs once, and records when each GPU works.
Run trace(const Way& way, std::vector<Place>& places, const Orders& orders) {
  SpanRecorder recorder({places[0].context, places[1].context});
  Run r;
  const auto timed = [&r](const auto& order) {
    const double start = now();
    order();
    r.calls += now() - start;
  };
  const double start = now();
  way.run({[&](int p) {
             recorder.record(places[static_cast<size_t>(p)].stream,
                             [&] { timed([&] { orders.multiply(p); }); });
           },
           [&] {
             recorder.record(places[0].stream, [&] {
               recorder.record(places[1].stream, [&] { timed(orders.replay); });
             });
           }});
  r.seconds = now() - start;
  for (size_t p = 0; p < 2; ++p) r.work[p] = recorder.spans(places[p].context);
  return r;
}

// An odd number of runs after a warm-up, at least five, for about 0.1 s.
Run median_run(const Way& way, std::vector<Place>& places, const Orders& orders) {
  trace(way, places, orders);
  std::vector<Run> runs;
  double total = 0;
  while (runs.size() < 5 || runs.size() % 2 == 0 || (total < 0.1 && runs.size() < 51))
    total += runs.emplace_back(trace(way, places, orders)).seconds;
  std::ranges::sort(runs, {}, &Run::seconds);
  Run middle = runs[runs.size() / 2];
  middle.spread = (runs[runs.size() * 3 / 4].seconds - runs[runs.size() / 4].seconds) / 2;
  return middle;
}

// The compiled products must have the same bits.
void check_same(const Place& p) {
  const float difference = max(abs(p.compiled - p.product)).item<float>();
  if (difference == 0) return;
  throw std::runtime_error(
      fmt::format("{}: the compiled product differs by up to {}; expected the same bits",
                  to_string(p.context), difference));
}

std::vector<Way> measure_ways(std::vector<Place>& places, int times) {
  const auto wait = [&places](int p) { places[static_cast<size_t>(p)].wait(); };
  std::vector<Way> ways;
  ways.push_back({"both on one", [&](const Orders& orders) {
                    orders.multiply(0);
                    orders.multiply(0);
                    wait(0);
                  }});
  ways.push_back({"one on each, with a wait between", [&](const Orders& orders) {
                    orders.multiply(0);
                    wait(0);
                    orders.multiply(1);
                    wait(1);
                  }});
  ways.push_back({"one on each, at once", [&](const Orders& orders) {
                    orders.multiply(0);
                    orders.multiply(1);
                    wait(0);
                    wait(1);
                  }});
  ways.push_back({"one on each, compiled", [&](const Orders& orders) {
                    orders.replay();
                    wait(0);
                    wait(1);
                  }});
  Both both(places, times);
  const Orders orders{[&](int p) {
                        Place& place = places[static_cast<size_t>(p)];
                        place.product = place.multiply(times);
                      },
                      [&] { both.replay(); }};
  for (Way& way : ways) way.median = median_run(way, places, orders);
  for (const Place& p : places) check_same(p);
  return ways;
}

std::string explain(const std::vector<Way>& ways, const std::vector<Place>& places, double error) {
  const Run &one = ways[0].median, &control = ways[1].median, &two = ways[2].median,
            &compiled = ways[3].median;
  const double speed_up = one.seconds / two.seconds;
  std::string s =
      fmt::format(
          "Two GPUs take {} ± {}, one GPU takes {} ± {}: {}. With a wait between the two products "
          "they take {}. ",
          time_text(two.seconds), time_text(two.spread), time_text(one.seconds),
          time_text(one.spread),
          std::abs(one.seconds - two.seconds) > one.spread + two.spread
              ? fmt::format("a speed-up of {:.2f}", speed_up)
              : "no difference beyond the spread",
          time_text(control.seconds)) +
      at_once_text(to_string(places[0].context), two.work[0], to_string(places[1].context),
                   two.work[1]) +
      ". ";
  s += fmt::format(
      "The host's calls take {} of this time. They take {} if one call replays the work of both "
      "GPUs, with the same bits in the products. GPUs wait for these calls if products are short. ",
      time_text(two.calls), time_text(compiled.calls));
  const auto modelled = [](const Place& p) { return context_info(p.context).modelled; };
  if (std::all_of(places.begin(), places.end(), modelled)) {
    if (speed_up < 1.9)
      s += "The model expects a speed-up of 2.00. This run is slower because this machine's cores "
           "were busy, or because the products are short beside the host's calls. ";
  } else if (emulated(places[0].context)) {
    s += "Both GPUs share this machine's cores here, so this run does not measure two real ones. ";
  } else if (speed_up < 1.1) {
    s += "This run shows no gain from the second GPU: try longer products (--n, --repeat). ";
  }
  return s + fmt::format("Largest relative error against f64 on the CPU: {:.0e}.", error);
}

// Time 0 is the first work of each way.
std::string picture(const std::vector<Way>& ways, const std::vector<Place>& places, int times,
                    double top) {
  const std::string label = times == 1 ? "product" : fmt::format("{} products", times);
  double longest = 0;
  std::vector<std::string> rows;
  std::vector<svg::Span> spans;
  for (const Way& way : ways) {
    const Work(&work)[2] = way.median.work;
    double start = work[0].front().begin;
    for (const Work& w : work)
      for (const Span& s : w) start = std::min(start, s.begin);
    for (size_t p = 0; p < 2; ++p) {
      for (const Span& s : work[p]) {
        spans.push_back({static_cast<int>(rows.size()), s.begin - start, s.end - start, label,
                         p == 0 ? svg::kBlue : svg::kGreen});
        longest = std::max(longest, s.end - start);
      }
      rows.push_back(fmt::format("{}: {}", way.name, to_string(places[p].context)));
    }
  }
  return svg::timeline(40, top, 880, 285, rows, spans, longest);
}

void run(const Program& program, const Options& options) {
  const std::vector<Context> contexts = two_gpus(program);
  program.print_machine(contexts);
  const int64_t n = options.n > 0 ? options.n : emulated(contexts[0]) ? 1024 : 4096;
  random::seed(4);
  const Tensor a = random::uniform(-1, 1, {n, n}), b = random::uniform(-1, 1, {n, n});
  std::vector<Place> places;
  for (const Context c : contexts) places.emplace_back(c, a, b);

  std::string first_use;
  double error = 0;
  std::vector<double> alone;  // one product, on each
  for (Place& p : places) {
    const Timing t = measure([&] {
      p.product = p.multiply(1);
      p.wait();
    });
    first_use += fmt::format(" {} {};", to_string(p.context), time_text(t.first));
    alone.push_back(t.median);
    error = std::max(error, check_product(to_string(p.context), a, b, p.product));
  }
  const double single = std::max(alone[0], alone[1]);
  print_text(fmt::format("First use, not in the table:{} a later product takes {}.\n\n", first_use,
                         time_text(single)));

  const int enough = static_cast<int>(std::clamp(0.05 / single + 1, 1.0, 1000.0));
  std::vector<int> counts{options.repeat > 0 ? options.repeat : 1};
  if (options.repeat == 0 && enough > 1) counts.push_back(enough);
  Table table({"n",
               {"products per GPU", "products"},
               "way",
               {"time", "seconds"},
               {"host calls", "host_seconds"},
               {"speed-up", "speed_up"},
               {"overlap", "overlap_seconds"}});
  std::vector<Way> ways;
  for (const int times : counts) {
    ways = measure_ways(places, times);
    for (const Way& w : ways)
      table.add({fmt::format("{}", n), fmt::format("{}", times), w.name,
                 time_cell(w.median.seconds), time_cell(w.median.calls),
                 number_cell(ways[0].median.seconds / w.median.seconds, "{:.3f}"),
                 time_cell(overlap(w.median.work[0], w.median.work[1]))},
                contexts);
  }
  fmt::print("{}\n", table.aligned());
  constexpr double kTop = 96;
  program.finish(
      table, {.title = fmt::format("Products of {} x {} matrices on one GPU and on two", n, n),
              .subtitle = program.conditions(contexts, "median run of each way, as in the table"),
              .body = picture(ways, places, counts.back(), kTop),
              .explanation = explain(ways, places, error),
              .top = kTop,
              .height = svg::kBarRow * 2 * static_cast<double>(ways.size()) + 24});
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  Program program("4_two_gpus", "Two products on two GPUs at once, against both on one.",
                  RunsOn::two_gpus);
  program.options()
      .add_option("--n", options.n, "rows and columns (default: 4096, or 1024 on emulated GPUs)")
      ->check(whole(1, int64_t{1} << 15));
  program.options()
      .add_option("--repeat", options.repeat,
                  "products per GPU (default: one, and then as many as take 50 ms)")
      ->check(whole(1, 100000));
  return program.run(argc, argv, [&](const Program& p) { run(p, options); });
}
