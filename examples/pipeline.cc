// Cuts a network into stages, one per context. The stages work on different microbatches at once
// (nn/pipeline.h).
//   LOCUS_EMULATED_GPUS=4 LOCUS_EMULATED_LINK="peer=395" pipeline --contexts "gpu(0),gpu(1)"
// It prints the time of both schedules and how long stages wait. All stages have equal layers, so
// only the schedule causes waits.
#include <algorithm>
#include <functional>
#include <tuple>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "common/moments.h"
#include "common/program.h"

using namespace locus;
using namespace examples;

namespace {

using nn::Pipeline;

struct Options {
  int64_t width = 0, batch = 0;  // 0: chosen for the contexts
  int layers = 3, microbatches = 8;
};

struct Ran {
  Pipeline::Pass pass;
  double begin, end;
};
// The measurements of one schedule.
struct Way {
  std::string name;
  nn::Schedule schedule = nn::Schedule::gpipe;
  double seconds = 0, bubble = 0;
  int held = 0;                  // microbatches, by the first stage
  uint64_t bytes = 0;            // moved in a step
  std::vector<Ran> passes = {};  // of the traced step of median length
};

// tanh is smooth, so gradients agree to rounding; relu may switch units at 0.
nn::Sequential make_net(const Options& o, size_t stages) {
  nn::Sequential net;
  for (size_t i = 0; i < stages * static_cast<size_t>(o.layers); ++i)
    net.add(nn::Dense(o.width, nn::tanh, {.in_units = o.width}));
  return net;
}

Pipeline::Stages cut(const nn::Sequential& net, int layers) {
  Pipeline::Stages stages(net.slice(0, layers));
  for (int begin = layers; begin < net.size(); begin += layers)
    stages.list.push_back(std::make_shared<nn::Sequential>(net.slice(begin, begin + layers)));
  return stages;
}

// Traces one step. A pass is timed from when its input has arrived.
std::vector<Ran> trace(Pipeline& pipe, const std::vector<Context>& contexts,
                       const std::function<void()>& step) {
  Moments moments(contexts);
  Moments::Moment begin;
  std::vector<std::tuple<Pipeline::Pass, Moments::Moment, Moments::Moment>> taken;
  pipe.watch([&](const Pipeline::Pass& pass, bool enqueued, const Tensor& given) {
    const Context c = contexts[static_cast<size_t>(pass.stage)];
    if (enqueued) {
      taken.emplace_back(pass, begin, moments.take(c));
    } else {
      slice_axis(given, 0, Slice(0, 1)) * 1;  // makes c wait for the input
      begin = moments.take(c);
    }
  });
  step();
  pipe.watch({});
  std::vector<Ran> passes;
  for (const auto& [pass, from, to] : taken)
    passes.push_back({pass, moments.time(from), moments.time(to)});
  double first = passes[0].begin;
  for (const Ran& r : passes) first = std::min(first, r.begin);
  for (Ran& r : passes) r.begin -= first, r.end -= first;
  return passes;
}

double length(const std::vector<Ran>& passes) {
  double end = 0;
  for (const Ran& r : passes) end = std::max(end, r.end);
  return end;
}

// Of several traced steps, the one of median length.
std::vector<Ran> median_trace(Pipeline& pipe, const std::vector<Context>& contexts,
                              const std::function<void()>& step) {
  std::vector<std::vector<Ran>> all(9);
  for (auto& passes : all) passes = trace(pipe, contexts, step);
  const auto middle = all.begin() + static_cast<ptrdiff_t>(all.size() / 2);
  std::ranges::nth_element(all, middle, {}, length);
  return *middle;
}

// The idle share of all stages' time.
double bubble(const std::vector<Ran>& passes, size_t stages) {
  double work = 0;
  for (const Ran& r : passes) work += r.end - r.begin;
  return 1 - work / (static_cast<double>(stages) * length(passes));
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

std::string picture(const std::vector<Way>& ways, const std::vector<Context>& contexts,
                    double predicted, double top) {
  double longest = 0;
  for (const Way& w : ways) longest = std::max(longest, length(w.passes));
  std::vector<std::string> rows;
  for (const Context c : contexts) rows.push_back(to_string(c));
  std::string s;
  double x = 40;
  for (const auto& [name, color] : {std::pair{"forward", svg::kBlue}, {"backward", svg::kAmber}}) {
    s += svg::key(x, top - 42, name, color);
    x += svg::key_width(name);
  }
  s += svg::text(x, top - 42, "numbers: microbatches", {.color = svg::kMuted});
  for (const Way& w : ways) {
    s += svg::text(40, top - 8, w.name, {.weight = 700}) +
         svg::text(130, top - 8,
                   fmt::format(
                       "traced step {}; idle: predicted {}, measured {}; the first stage holds {} "
                       "microbatches",
                       time_text(length(w.passes)), percent(predicted), percent(w.bubble), w.held),
                   {.color = svg::kMuted});
    std::vector<svg::Span> spans;
    for (const Ran& r : w.passes)
      spans.push_back({r.pass.stage, r.begin, r.end, fmt::format("{}", r.pass.microbatch),
                       r.pass.backward ? svg::kAmber : svg::kBlue,
                       fmt::format("{} {}: {}", r.pass.backward ? "backward" : "forward",
                                   r.pass.microbatch, time_text(r.end - r.begin))});
    s += svg::timeline(40, top + 10, 880, 70, rows, spans, longest);
    top += svg::kBarRow * static_cast<double>(rows.size()) + 68;
  }
  return s;
}

std::string explain(const std::vector<Way>& ways, const std::vector<Context>& contexts,
                    const Options& o, double one, double predicted) {
  const size_t p = contexts.size();
  std::string s = fmt::format(
      "{} of {} layers; a batch of {} in {} microbatches. Stages wait while the pipeline fills and "
      "drains. If all passes take equally long, p stages and m microbatches are idle for "
      "(p-1)/(m+p-1) of the time, here {}, with both schedules. Then {} are {:.2f} times as fast "
      "as one; measured: {:.2f} with {} and {:.2f} with {}. ",
      counted(static_cast<double>(p), "stage"), o.layers, o.batch, o.microbatches,
      percent(predicted), counted(static_cast<double>(p), "context"),
      static_cast<double>(p) * (1 - predicted), one / ways[0].seconds, ways[0].name,
      one / ways[1].seconds, ways[1].name);
  s += fmt::format(
      "{} runs all forward passes first, so its first stage holds the activations of {} "
      "microbatches. {} runs backward passes as early as possible, and holds {}. ",
      ways[0].name, ways[0].held, ways[1].name, ways[1].held);
  if (is_host(contexts[0]))
    s += "The host runs work when it is enqueued, so only one stage works at a time here. ";
  return s + "The gradients equal those of the whole network, up to rounding.";
}

// A pass must take much longer than its launch.
void settle(Options& o, Context c) {
  if (o.width == 0) o.width = real_gpu(c) ? 4096 : 256;
  if (o.batch == 0) o.batch = real_gpu(c) ? 8192 : 512;
}

void run(const Program& program, Options o) {
  const std::vector<Context> contexts = program.contexts();
  settle(o, contexts[0]);
  const size_t stages = contexts.size();
  program.print_machine(contexts);
  random::seed(1);
  const Tensor x = random::uniform(-1, 1, {o.batch, o.width}, contexts.front()),
               y = random::uniform(0, 1, {o.batch, o.width}, contexts.back());
  const nn::L2Loss loss;
  const auto start = [&](auto& net, const auto&... where) {
    random::seed(2);
    net.initialize(init::Xavier(), where...);
  };
  nn::Sequential whole = make_net(o, stages);
  start(whole, contexts.front());
  const Tensor label = y.as_in_context(contexts.front());
  const double one = measure([&] {
                       Tensor l;
                       {
                         const autograd::Record record;
                         l = loss(whole(x), label);
                       }
                       l.backward();
                       wait_all();
                     }).median;

  Table table({"way",
               {"time", "seconds"},
               {"speed-up", "speed_up"},
               {"idle, predicted", "bubble_predicted"},
               {"measured", "bubble_measured"},
               {"microbatches held", "in_flight"},
               {"moved, bytes", "bytes"}});
  table.add({to_string(contexts.front()), time_cell(one), "1", "0", "0", "1", "0"}, contexts);
  std::vector<Way> ways{{"GPipe", nn::Schedule::gpipe}, {"1F1B", nn::Schedule::one_f1b}};
  const double predicted = Pipeline::bubble(static_cast<int>(stages), o.microbatches);
  for (Way& w : ways) {
    const nn::Sequential net = make_net(o, stages);
    Pipeline pipe(cut(net, o.layers), contexts,
                  {.microbatches = o.microbatches, .schedule = w.schedule});
    start(pipe);
    const auto step = [&] {
      pipe.forward_backward(x, y, loss);
      wait_all();
    };
    w.seconds = measure(step).median;
    w.passes = median_trace(pipe, contexts, step);
    w.bubble = bubble(w.passes, stages);
    w.held = pipe.in_flight(0);
    const TransferLog log;
    step();
    for (const TransferEntry& e : log.entries()) w.bytes += e.bytes;
    double error = 0;
    for (const auto& [name, p] : net.parameters())
      error = std::max(error, relative_error(p.grad(), whole.parameter(name).grad()));
    check_error(w.name + ": gradients", error, 1e-4);
    table.add({w.name, time_cell(w.seconds), number_cell(one / w.seconds, "{:.2f}"),
               number_cell(predicted, "{:.3f}"), number_cell(w.bubble, "{:.3f}"),
               fmt::format("{}", w.held), count_cell(static_cast<double>(w.bytes))},
              contexts);
  }
  fmt::print("{}\n", table.aligned());
  constexpr double kTop = 150;
  program.finish(
      table,
      svg::Figure{.title = fmt::format("A network in {} stages", stages),
                  .subtitle = program.conditions(contexts, "the traced step of median length"),
                  .body = picture(ways, contexts, predicted, kTop),
                  .explanation = explain(ways, contexts, o, one, predicted),
                  .top = kTop,
                  .height = 2 * (svg::kBarRow * static_cast<double>(stages) + 68) - 20});
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  Program program("pipeline", "A network in stages, one per context, by two schedules.",
                  RunsOn::replicas);
  const auto number = [&](const char* name, auto& value, const char* what) {
    return program.options().add_option(name, value, what)->check(whole(1, 1 << 16));
  };
  number("--width", o.width, "units of a layer (default: 256, on real GPUs 4096)");
  number("--layers", o.layers, "layers of each stage")->capture_default_str();
  number("--batch-size", o.batch, "samples of a step (default: 512, on real GPUs 8192)");
  number("--microbatches", o.microbatches, "parts into which the batch is split")
      ->capture_default_str();
  return program.run(argc, argv, [&](const Program& p) { run(p, o); });
}
