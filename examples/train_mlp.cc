// Trains a multilayer perceptron on handwritten digits, on one context or by a plan that placement
// wrote.
//   train_mlp --context "gpu(0)" --hidden 256,128 --epochs 5 --out out --save mlp.params
//   train_mlp --plan best.plan --hidden 512,512,512 --batch-size 256
// The training step is Classifier::step in training/classes.cc. The loop over epochs, with
// checkpoints and pictures, is training/run.cc.
#include <algorithm>

#include <fmt/format.h>
#include <locus/locus.h>
#include <CLI/CLI.hpp>

#include "common/call_chart.h"
#include "common/command.h"
#include "common/measure.h"
#include "training/classes.h"
#include "training/digits.h"
#include "training/models.h"
#include "training/options.h"

using namespace locus;

namespace {

struct Options : training::Options {
  std::vector<int64_t> hidden = {256, 128};
  bool describe = false;
  std::string dot, graph;  // empty: none
};

Options parse(int argc, char** argv) {
  Options o;
  CLI::App app("Trains a multilayer perceptron on handwritten digits.");
  training::add_options(app, o, training::kDigitsHelp);
  training::add_sgd(app, o);
  app.add_option("--hidden", o.hidden, "widths of the hidden layers, e.g. 256,128")
      ->delimiter(',')
      ->check(examples::whole(1, int64_t{1} << 20))
      ->capture_default_str();
  app.add_flag("--describe", o.describe,
               "print the calls of the compiled step (implies --compile)");
  app.add_option("--dot", o.dot,
                 "a file for the calls of the compiled step, for Graphviz (implies --compile)");
  app.add_option("--graph", o.graph,
                 "an SVG file for a picture of the compiled step (implies --compile)");
  training::parse(app, argc, argv);
  o.compile = o.compile || o.describe || !o.dot.empty() || !o.graph.empty();
  return o;
}

int run(const Options& options) {
  training::join(options);
  training::check_writable(options);
  training::check_folder_of("--dot", options.dot);
  training::check_folder_of("--graph", options.graph);
  const training::Digits data = training::load_digits(options.data, options.seed);
  std::string name = "784";
  for (const int64_t width : options.hidden) name += fmt::format("-{}", width);
  name += "-10";
  nn::Sequential net = training::mlp(options.hidden);
  training::Classifier classifier({.program = "train_mlp",
                                   .network = name,
                                   .data = data.name,
                                   .net = net,
                                   .train = data.train,
                                   .test = data.test},
                                  options);

  std::string description, dot;
  std::vector<CompiledCall> calls;
  const auto inspect = [&](int64_t step) {
    // The last batch may be smaller.
    if (step != std::max<int64_t>(classifier.steps() - 1, 1)) return;
    if (options.describe) description = classifier.compiled().describe();
    if (!options.dot.empty()) dot = classifier.compiled().dot();
    if (!options.graph.empty()) calls = classifier.compiled().calls();
  };
  const auto strip = [&] {
    return training::digits_strip(classifier.net(), data.test, classifier.context());
  };
  if (const int status = classifier.train(strip, inspect)) return status;

  if (options.describe) fmt::print("{}\n", description);
  const auto write = [](const std::string& file, const std::string& content) {
    examples::write_file(file, content);
    fmt::print("wrote {}\n", file);
  };
  if (!options.dot.empty()) write(options.dot, dot);
  if (!options.graph.empty())
    write(options.graph,
          examples::call_chart("A compiled step of " + name, classifier.where(), calls));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  return training::guarded("train_mlp", [&] { return run(options); });
}
