// Exercise 4: two products on two GPUs, and both on one. One host thread issues all of them; GPUs
// work on their own once told, so telling both and then waiting is enough to have both busy.
#include <algorithm>
#include <functional>
#include <stdexcept>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "common/program.h"
#include "common/spans.h"

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
      "LOCUS_EMULATED_LINK=\"peer=395\" shows how it works, with times that are modelled",
      list.size() == 1 ? "is" : "are", list.size()));
}

// A GPU with its matrices and a stream of its own.
struct Place {
  Place(Context c, const Tensor& left, const Tensor& right)
      : context(c), stream(c), a(left.copyto(c)), b(right.copyto(c)) {}
  // Tells the GPU to multiply, and does not wait.
  void multiply(int times) {
    const StreamScope on(stream);
    for (int i = 0; i < times; ++i) product = dot(a, b);
  }
  void wait() { stream.synchronize(); }

  Context context;
  Stream stream;
  Tensor a, b, product;
};

using Work = std::vector<Span>;  // what a GPU did, of a way

struct Way {
  std::string name;
  std::function<void(const std::function<void(int)>& multiply)> run;
  double seconds = 0;
  Work work[2] = {};
};

// Runs once more, with the times at which each GPU began and ended its shares.
void trace(Way& way, std::vector<Place>& places, int times) {
  SpanRecorder recorder({places[0].context, places[1].context});
  way.run([&](int p) {
    Place& place = places[static_cast<size_t>(p)];
    recorder.record(place.stream, [&] { place.multiply(times); });
  });
  for (size_t p = 0; p < 2; ++p) way.work[p] = recorder.spans(places[p].context);
}

std::vector<Way> measure_ways(std::vector<Place>& places, int times) {
  using Multiply = std::function<void(int)>;
  const auto wait = [&places](int p) { places[static_cast<size_t>(p)].wait(); };
  std::vector<Way> ways;
  ways.push_back({"both on one", [&](const Multiply& multiply) {
                    multiply(0);
                    multiply(0);
                    wait(0);
                  }});
  ways.push_back({"one on each, waiting between", [&](const Multiply& multiply) {
                    multiply(0);
                    wait(0);
                    multiply(1);
                    wait(1);
                  }});
  ways.push_back({"one on each, at once", [&](const Multiply& multiply) {
                    multiply(0);
                    multiply(1);
                    wait(0);
                    wait(1);
                  }});
  for (Way& way : ways) {
    way.seconds = measure([&] {
                    way.run([&](int p) { places[static_cast<size_t>(p)].multiply(times); });
                  }).median;
    trace(way, places, times);
  }
  return ways;
}

std::string explain(const std::vector<Way>& ways, const std::vector<Place>& places, double error) {
  const Way &one = ways[0], &control = ways[1], &two = ways[2];
  const double speed_up = one.seconds / two.seconds;
  std::string s = fmt::format("Two GPUs take {} where one takes {}: a speed-up of {:.2f}. ",
                              time_text(two.seconds), time_text(one.seconds), speed_up) +
                  (speed_up > 1.1 && control.seconds > 1.1 * two.seconds
                       ? "Waiting between the two products gives that away: "
                       : "With a wait between the two products it takes ") +
                  fmt::format("{}. In the traced run {}. ", time_text(control.seconds),
                              at_once_text(to_string(places[0].context), two.work[0],
                                           to_string(places[1].context), two.work[1]));
  const auto modelled = [](const Place& p) { return context_info(p.context).modelled; };
  if (std::all_of(places.begin(), places.end(), modelled)) {
    s += "These GPUs are emulated and their times modelled: each computes at half the speed of a "
         "core, so that the model expects 2.00. ";
    if (speed_up < 1.9)
      s += "This run falls short of it: this machine's cores were busy, or the products are too "
           "short beside the call that starts them. ";
  } else if (emulated(places[0].context)) {
    s += "These GPUs are emulated and share this machine's cores, so this is no measure of two "
         "real ones. With LOCUS_EMULATED_LINK=\"peer=395\" each keeps a modelled pace of its own. ";
  } else if (speed_up < 1.1) {
    s += "So this run shows no gain from the second GPU: longer products (--n, --repeat) may. ";
  }
  return s + fmt::format("Largest relative error against f64 on the CPU: {:.0e}.", error);
}

// From the first moment of work in each way.
std::string picture(const std::vector<Way>& ways, const std::vector<Place>& places, int times,
                    double top) {
  const std::string label = times == 1 ? "product" : fmt::format("{} products", times);
  double longest = 0;
  std::vector<std::string> rows;
  std::vector<svg::Span> spans;
  for (const Way& way : ways) {
    double start = way.work[0].front().begin;
    for (const Work& w : way.work)
      for (const Span& s : w) start = std::min(start, s.begin);
    for (size_t p = 0; p < 2; ++p) {
      for (const Span& s : way.work[p]) {
        spans.push_back({static_cast<int>(rows.size()), s.begin - start, s.end - start, label,
                         p == 0 ? svg::kBlue : svg::kGreen});
        longest = std::max(longest, s.end - start);
      }
      rows.push_back(fmt::format("{}: {}", way.name, to_string(places[p].context)));
    }
  }
  return svg::timeline(40, top, 880, 270, rows, spans, longest);
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
      p.multiply(1);
      p.wait();
    });
    first_use += fmt::format(" {} {};", to_string(p.context), time_text(t.first));
    alone.push_back(t.median);
    error = std::max(error, check_product(to_string(p.context), a, b, p.product));
  }
  const double single = std::max(alone[0], alone[1]);
  fmt::print("First use, not in the table:{} one product then takes {}.\n\n", first_use,
             time_text(single));

  const int enough = static_cast<int>(std::clamp(0.05 / single + 1, 1.0, 1000.0));
  std::vector<int> counts{options.repeat > 0 ? options.repeat : 1};
  if (options.repeat == 0 && enough > 1) counts.push_back(enough);
  Table table({"n",
               {"products a GPU", "products"},
               "way",
               {"time", "seconds"},
               {"speed-up", "speed_up"},
               {"traced: at work at once", "overlap_seconds"}});
  std::vector<Way> ways;
  for (const int times : counts) {
    ways = measure_ways(places, times);
    for (const Way& w : ways)
      table.add({fmt::format("{}", n), fmt::format("{}", times), w.name, time_cell(w.seconds),
                 number_cell(ways[0].seconds / w.seconds, "{:.3f}"),
                 time_cell(overlap(w.work[0], w.work[1]))},
                contexts);
  }
  fmt::print("{}\n", table.aligned());
  constexpr double kTop = 96;
  program.finish(table,
                 {.title = fmt::format("Products of {} x {} matrices on one GPU and on two", n, n),
                  .subtitle = program.conditions(contexts),
                  .body = picture(ways, places, counts.back(), kTop),
                  .explanation = explain(ways, places, error),
                  .top = kTop,
                  .height = svg::kBarRow * 6 + 24});
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  Program program("4_two_gpus", "Two products on two GPUs at once, against both on one.",
                  RunsOn::two_gpus);
  program.options()
      .add_option("--n", options.n, "rows and columns (default: 4096, or 1024 on emulated GPUs)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 15));
  program.options()
      .add_option("--repeat", options.repeat,
                  "products a GPU does (default: once, and then for 50 ms)")
      ->check(CLI::Range(1, 100000));
  return program.run(argc, argv, [&](const Program& p) { run(p, options); });
}
