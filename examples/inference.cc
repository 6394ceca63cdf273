// Measures how long a trained network takes to answer, by context and batch size.
//   inference --model lenet --parameters lenet.params --contexts "cpu(0),gpu(0)" --batch-sizes
//   1,16,256
// It prints percentiles of the time from the call to the end of the wait. It loads parameters from
// train_mlp, train_lenet, train_resnet or autoencoder, or MXNet's .params of the same network.
#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "common/program.h"
#include "training/models.h"

using namespace locus;
using namespace examples;

namespace {

struct Options {
  std::string model = "lenet", parameters;
  std::vector<int64_t> batch_sizes = {1, 16, 256};
  int runs = 200;
  bool compile = false;
};

struct Latency {
  double p50, p90, p99;
};

// Times `runs` calls after a warm-up.
Latency measure(nn::Block& net, const Tensor& x, int runs) {
  const int warm_up = std::max(3, runs / 10);
  std::vector<double> seconds;
  for (int i = 0; i < warm_up + runs; ++i) {
    const double begin = now();
    net(x).wait_to_read();
    if (i >= warm_up) seconds.push_back(now() - begin);
  }
  std::ranges::sort(seconds);
  // Nearest-rank percentile.
  const auto at = [&](double share) {
    const auto n = static_cast<double>(seconds.size());
    return seconds[static_cast<size_t>(std::max(0.0, std::ceil(share * n) - 1))];
  };
  return {at(.5), at(.9), at(.99)};
}

// Answers must equal those of the first context.
void check_answers(nn::Block& net, const Tensor& x, Tensor& expected) {
  const Tensor y = net(x).copyto(cpu());
  if (!expected.defined()) expected = y;
  check_error("answers on " + to_string(x.context()), relative_error(y, expected), 1e-3);
}

void run(Program& program, const Options& options) {
  const std::vector<Context> contexts = program.contexts();
  program.print_machine(contexts);
  Table table({"context",
               {"batch size", "batch_size"},
               {"median", "p50_s"},
               {"90 %", "p90_s"},
               {"99 %", "p99_s"},
               {"images/s", "images_per_second"}});
  std::vector<svg::Bar> bars;
  Tensor expected;
  for (size_t k = 0; k < contexts.size(); ++k) {
    const Context c = contexts[k];
    training::Model model;
    of_option("--parameters",
              [&] { model = training::load_model(options.model, options.parameters, c); });
    if (options.compile) model.net->hybridize();
    random::seed(1);
    std::vector<int64_t> dims{32};
    dims.insert(dims.end(), model.sample.begin(), model.sample.end());
    check_answers(*model.net, random::uniform(0, 1, Shape(dims), c), expected);
    for (const int64_t batch : options.batch_sizes) {
      dims[0] = batch;
      const Latency l = measure(*model.net, random::uniform(0, 1, Shape(dims), c), options.runs);
      const double rate = static_cast<double>(batch) / l.p50;
      table.add({to_string(c), count_cell(static_cast<double>(batch)), time_cell(l.p50),
                 time_cell(l.p90), time_cell(l.p99), number_cell(rate, "{:.0f}")},
                c);
      bars.push_back({fmt::format("{}, batch {}", to_string(c), batch), l.p50,
                      fmt::format("{}; 99 %: {}", time_text(l.p50), time_text(l.p99)),
                      svg::palette(k)});
    }
  }
  fmt::print("{}\n", table.aligned());
  program.finish(table,
                 {.title = "Latency of " + options.model + (options.compile ? ", compiled" : ""),
                  .list = contexts,
                  .label_width = 150,
                  .bars = bars,
                  .explanation = fmt::format(
                      "Bars show the median time from a call to its answer, over {} calls one "
                      "after the other. The inputs are already on the context. The scale is "
                      "logarithmic.",
                      options.runs),
                  .logarithmic = true});
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  Program program("inference", "How long a trained network takes to answer.", RunsOn::cpu_and_gpu);
  program.options()
      .add_option("--model", options.model, "the network: mlp, lenet, resnet20 or autoencoder")
      ->check(one_of({"mlp", "lenet", "resnet20", "autoencoder"}))
      ->capture_default_str();
  program.options()
      .add_option("--parameters", options.parameters,
                  "file with the parameters that --save of its program wrote")
      ->required();
  program.options()
      .add_option("--batch-sizes", options.batch_sizes, "images per call")
      ->delimiter(',')
      ->check(whole(1, int64_t{1} << 20))
      ->capture_default_str();
  program.options()
      .add_option("--runs", options.runs, "calls that are timed, for each batch size")
      ->check(whole(5, 1000000))
      ->capture_default_str();
  program.options().add_flag("--compile", options.compile, "record the network once, replay it");
  return program.run(argc, argv, [&](Program& p) { run(p, options); });
}
