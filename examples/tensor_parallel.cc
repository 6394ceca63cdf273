// Splits dense layers over 1, 2, ... contexts (nn/tensor_parallel.h).
//   LOCUS_EMULATED_GPUS=4 LOCUS_EMULATED_LINK="peer=395" tensor_parallel
// For each number of contexts it prints the time of a step, the bytes moved, and the parameters on
// each context.
#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "common/program.h"

using namespace locus;
using namespace examples;

namespace {

struct Options {
  int64_t width = 0, batch = 0;  // 0: chosen for the contexts
  int blocks = 2;
};

// The measurements on n contexts.
struct Run {
  int n = 0;
  double seconds = 0;
  uint64_t bytes = 0, predicted = 0;  // moved in a step
  double held = 0;                    // bytes of parameters on the fullest context
};

// Pairs of layers: width units, four times as many, and width again.
nn::Sequential make_net(const Options& o, const std::vector<Context>& contexts) {
  nn::Sequential net;
  for (int i = 0; i < o.blocks; ++i)
    net.add(nn::ColumnParallelDense(4 * o.width, contexts, nn::relu, {.in_units = o.width}),
            nn::RowParallelDense(o.width, contexts, {}, {.in_units = 4 * o.width}));
  random::seed(1);
  net.initialize(init::Xavier());
  return net;
}

// A broadcast to n contexts is a tree of n - 1 copies; an all-reduce takes 2 (n - 1). Each pair
// all-reduces its result and, in the backward pass, its result's gradient.
uint64_t predicted_bytes(const Options& o, int n) {
  const auto tensor = static_cast<uint64_t>(o.batch * o.width) * sizeof(float);
  return static_cast<uint64_t>(n - 1) * tensor * static_cast<uint64_t>(1 + 2 * 2 * o.blocks);
}

double held_by(const nn::Sequential& net, Context c) {
  double bytes = 0;
  for (const auto& [name, p] : net.parameters())
    if (p.list_ctx()[0] == c) bytes += static_cast<double>(p.shape().size() * size_of(p.dtype()));
  return bytes;
}

// Compares the first step's result with `reference`, the result of the first run.
void check_result(const Tensor& result, Tensor& reference, int n) {
  if (!reference.defined()) reference = exactly(result);
  check_error(fmt::format("{} contexts: result", n), relative_error(result, reference), 1e-4);
}

Run measure_run(const Options& o, const std::vector<Context>& contexts, Tensor& reference) {
  Run r{.n = static_cast<int>(contexts.size())};
  r.predicted = predicted_bytes(o, r.n);
  const Group group(contexts);
  const nn::L2Loss loss;
  nn::Sequential net = make_net(o, contexts);
  nn::Trainer trainer(net.parameters(), optim::SGD({.learning_rate = 1e-3}));
  const Tensor x = random::uniform(-1, 1, {o.batch, o.width}, contexts[0]),
               y = random::uniform(-1, 1, {o.batch, o.width}, contexts[0]);
  check_result(net(broadcast(group, x))[0], reference, r.n);
  const auto step = [&] {
    Tensor l;
    {
      const autograd::Record record;
      l = loss(net(broadcast(group, x))[0], y);  // the results are equal
    }
    l.backward();
    trainer.step(o.batch);
    wait_all();
  };
  r.seconds = measure(step).median;
  const TransferLog log;
  step();
  for (const TransferEntry& e : log.entries()) r.bytes += e.bytes;
  for (const Context c : contexts) r.held = std::max(r.held, held_by(net, c));
  return r;
}

double speed_up(const std::vector<Run>& runs, const Run& r) { return runs[0].seconds / r.seconds; }

// A plot over the number of contexts: measured, and dashed, expected.
std::string plot(double left, const std::string& title, const std::vector<Run>& runs,
                 const auto& measured, const auto& expected, const char* dashes, double step,
                 const std::function<std::string(double)>& text) {
  constexpr double kTop = 150, kWidth = 330, kHeight = 210;
  double high = 0;
  for (const Run& r : runs) high = std::max({high, measured(r), expected(r)});
  const double last = std::max(2, runs.back().n);
  const svg::Plot p({left, kTop, kWidth, kHeight}, {.low = 1, .high = last},
                    {.low = 0, .high = 1.05 * high});
  std::string s = svg::text(left, kTop - 46, title, {.weight = 700});
  s += svg::key(left, kTop - 22, "measured", svg::Plot::CurveStyle{}) +
       svg::key(left + 130, kTop - 22, dashes,
                svg::Plot::CurveStyle{.color = svg::kAmber, .dashed = true});
  for (double v = 0; v <= 1.05 * high; v += step) s += p.line_at(v, text(v));
  svg::Points is, should;
  for (const Run& r : runs) {
    is.emplace_back(r.n, measured(r));
    should.emplace_back(r.n, expected(r));
    s += p.tick_at(r.n, fmt::format("{}", r.n));
  }
  return s + p.title_below("contexts") + p.curve(is, {}) +
         p.curve(should, {.color = svg::kAmber, .dots = false, .dashed = true});
}

// A round step that leaves at most five lines.
double round_step(double high) {
  const double power = std::pow(10, std::floor(std::log10(high / 5)));
  for (const double m : {1., 2., 5.})
    if (m * power * 5 >= high) return m * power;
  return 10 * power;
}

std::string picture(const std::vector<Run>& runs) {
  const auto megabytes = [](uint64_t b) { return static_cast<double>(b) / 1e6; };
  double most = 1e-3;
  for (const Run& r : runs) most = std::max({most, megabytes(r.bytes), megabytes(r.predicted)});
  const auto plain = [](double v) { return fmt::format("{:g}", v); };
  return plot(
             90, "speed-up", runs, [&](const Run& r) { return speed_up(runs, r); },
             [](const Run& r) { return static_cast<double>(r.n); }, "linear", 1, plain) +
         plot(
             560, "moved per step, MB", runs, [&](const Run& r) { return megabytes(r.bytes); },
             [&](const Run& r) { return megabytes(r.predicted); }, "expected", round_step(most),
             plain);
}

std::string explain(const std::vector<Run>& runs, const std::vector<Context>& contexts,
                    const Options& o) {
  const Run& all = runs.back();
  std::string s = fmt::format(
      "{} of layers, from {} to {} units and back, with a batch of {}. Each context holds a part "
      "of "
      "every weight ({} of {}) and computes this part of the products. On {}, a step is {:.2f} "
      "times as fast as on one. After each pair the results are summed over the contexts, and "
      "their "
      "gradients in the backward pass: {} cross per step. Wider layers move no more bytes per "
      "feature, and compute more. ",
      counted(o.blocks, "pair"), o.width, 4 * o.width, o.batch, si_text(all.held, "B"),
      si_text(runs[0].held, "B"), counted(all.n, "context"), speed_up(runs, all),
      si_text(static_cast<double>(all.bytes), "B"));
  if (is_host(contexts[0]))
    s += "Contexts of the host share its cores and compute one after the other, so no gain is "
         "expected here. ";
  else if (real_gpu(contexts[0]))
    s += "Real GPUs sum in one kernel that reads the other GPUs' memory; these reads are counted. ";
  return s + "All results equal those of one context, up to rounding.";
}

// Products must take much longer than the sums between them.
void settle(Options& o, Context c) {
  if (o.width == 0) o.width = real_gpu(c) ? 2048 : 256;
  if (o.batch == 0) o.batch = real_gpu(c) ? 4096 : 256;
}

void run(const Program& program, Options o) {
  const std::vector<Context> contexts = program.contexts();
  settle(o, contexts[0]);
  program.print_machine(contexts);
  Table table({"contexts",
               {"time", "seconds"},
               {"speed-up", "speed_up"},
               {"moved per step, bytes", "bytes"},
               {"expected", "bytes_expected"},
               {"held per context, bytes", "held_bytes"}});
  std::vector<Run> runs;
  Tensor reference;
  for (size_t n = 1; n <= contexts.size(); ++n) {
    if (n > 2 && n < contexts.size() && n % 2 != 0) continue;
    const std::vector<Context> some(contexts.begin(), contexts.begin() + static_cast<ptrdiff_t>(n));
    runs.push_back(measure_run(o, some, reference));
    const Run& r = runs.back();
    table.add({fmt::format("{}", r.n), time_cell(r.seconds),
               number_cell(speed_up(runs, r), "{:.2f}"), count_cell(static_cast<double>(r.bytes)),
               count_cell(static_cast<double>(r.predicted)), count_cell(r.held)},
              some);
  }
  fmt::print("{}\n", table.aligned());
  program.finish(table, svg::Figure{.title = "Dense layers cut over contexts",
                                    .subtitle = program.conditions(contexts),
                                    .body = picture(runs),
                                    .explanation = explain(runs, contexts, o),
                                    .height = 330});
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  Program program("tensor_parallel", "Dense layers cut over 1, 2, ... contexts.", RunsOn::replicas);
  const auto number = [&](const char* name, auto& value, const char* what) {
    return program.options().add_option(name, value, what)->check(whole(1, 1 << 16));
  };
  number("--width", o.width, "units between pairs of layers (default: 256, on real GPUs 2048)");
  number("--batch-size", o.batch, "samples of a step (default: 256, on real GPUs 4096)");
  number("--blocks", o.blocks, "pairs of layers")->capture_default_str();
  return program.run(argc, argv, [&](const Program& p) { run(p, o); });
}
