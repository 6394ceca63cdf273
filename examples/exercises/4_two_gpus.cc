// Exercise 4: two products on two GPUs, and both on one. One host thread issues all of them; GPUs
// work on their own once told, so telling both and then waiting is enough to have both busy.
#include <algorithm>
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
  int64_t n = 0;   // 0: 4096, or 1024 on emulated GPUs
  int repeat = 0;  // 0: as many products as take a GPU 50 ms
};

// The first two of the program's contexts.
std::vector<Context> two_gpus(const Program& program) {
  std::vector<Context> list = program.contexts();
  std::erase_if(list, is_host);
  if (list.size() < 2)
    throw std::runtime_error(fmt::format(
        "this exercise needs two GPUs and there {} {}: nothing was measured. "
        "LOCUS_EMULATED_GPUS=2 LOCUS_EMULATED_LINK=\"peer=395\" shows how it works, with "
        "times that are modelled",
        list.size() == 1 ? "is" : "are", list.size()));
  list.resize(2);
  return list;
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

struct Way {
  std::string name;
  std::function<void(const std::function<void(int)>& multiply)> run;
  double seconds = 0;
  std::vector<svg::Span> spans = {};
};

// Runs once more with events around each share, for the picture: durations are the devices' own,
// and a share begins when it was issued or when the one before it on that GPU is done.
void trace(Way& way, std::vector<Place>& places, int times) {
  struct Share {
    int place;
    double issued;
    Event from, to;
  };
  std::vector<Share> shares;
  const double start = now();
  way.run([&](int p) {
    Stream& stream = places[static_cast<size_t>(p)].stream;
    const double issued = now() - start;
    Event from = stream.record();
    places[static_cast<size_t>(p)].multiply(times);
    shares.push_back({p, issued, std::move(from), stream.record()});
  });
  const std::string label = times == 1 ? "product" : fmt::format("{} products", times);
  double free_at[2] = {};
  for (Share& s : shares) {
    const double begin = std::max(s.issued, free_at[s.place]);
    free_at[s.place] = begin + s.from.elapsed_ms(s.to) / 1000;
    way.spans.push_back(
        {s.place, begin, free_at[s.place], label, s.place == 0 ? svg::kBlue : svg::kGreen});
  }
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

double busy(const Way& way, int place) {
  double s = 0;
  for (const svg::Span& span : way.spans) s += span.row == place ? span.end - span.begin : 0;
  return s;
}

// How long the two were surely busy at once: what their own times have beyond the time it took.
double overlap(const Way& way) {
  double last = 0;
  for (const svg::Span& s : way.spans) last = std::max(last, s.end);
  return std::max(0.0, busy(way, 0) + busy(way, 1) - last);
}

std::string explain(const std::vector<Way>& ways, const std::vector<Place>& places, double error) {
  const Way &one = ways[0], &control = ways[1], &two = ways[2];
  const double b0 = busy(two, 0), b1 = busy(two, 1), shared = overlap(two);
  std::string s = fmt::format(
      "Two GPUs take {} where one takes {}: a speed-up of {:.2f}. Waiting between the two products "
      "gives that away: {}. In the traced run {} was busy for {} and {} for {}, both at once for "
      "{:.0f} % of the shorter. ",
      time_text(two.seconds), time_text(one.seconds), one.seconds / two.seconds,
      time_text(control.seconds), to_string(places[0].context), time_text(b0),
      to_string(places[1].context), time_text(b1), 100 * shared / std::min(b0, b1));
  if (context_info(places[0].context).modelled) {
    s += "These GPUs are emulated and their times modelled: each computes at half the speed of a "
         "core, whatever the other does. ";
  } else if (emulated(places[0].context)) {
    s += "These GPUs are emulated and share this machine's cores, so this is no measure of two "
         "real ones. With LOCUS_EMULATED_LINK=\"peer=395\" each keeps a modelled pace of its own. ";
  }
  return s + fmt::format("Largest relative error against f64 on the CPU: {:.0e}.", error);
}

std::string picture(const std::vector<Way>& ways, const std::vector<Place>& places, double top) {
  double longest = 0;
  std::vector<std::string> rows;
  std::vector<svg::Span> spans;
  for (size_t w = 0; w < ways.size(); ++w) {
    for (const Place& p : places)
      rows.push_back(fmt::format("{}: {}", ways[w].name, to_string(p.context)));
    for (svg::Span s : ways[w].spans) {
      s.row += static_cast<int>(2 * w);
      longest = std::max(longest, s.end);
      spans.push_back(s);
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
               {"busy at once", "overlap_seconds"}});
  std::vector<Way> ways;
  for (const int times : counts) {
    ways = measure_ways(places, times);
    for (const Way& w : ways)
      table.add({fmt::format("{}", n), fmt::format("{}", times), w.name, time_cell(w.seconds),
                 number_cell(ways[0].seconds / w.seconds, "{:.3f}"), time_cell(overlap(w))},
                contexts);
  }
  fmt::print("{}\n", table.aligned());
  constexpr double kTop = 96;
  program.finish(table,
                 {.title = fmt::format("Products of {} x {} matrices on one GPU and on two", n, n),
                  .subtitle = program.conditions(contexts),
                  .body = picture(ways, places, kTop),
                  .explanation = explain(ways, places, error),
                  .top = kTop,
                  .height = svg::kBarRow * 6 + 24});
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  Program program("4_two_gpus", "Two products on two GPUs at once, against both on one.", 2);
  program.options()
      .add_option("--n", options.n, "rows and columns (default: 4096, or 1024 on emulated GPUs)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 15));
  program.options()
      .add_option("--repeat", options.repeat,
                  "products a GPU does (default: once, and then for 50 ms)")
      ->check(CLI::Range(1, 100000));
  return program.run(argc, argv, [&](const Program& p) { run(p, options); });
}
