#include "train_mlp/options.h"

#include <cstdlib>

#include <CLI/CLI.hpp>

namespace train_mlp {

Options parse_options(int argc, char** argv) {
  Options o;
  CLI::App app("Trains a multilayer perceptron on handwritten digits.");
  app.add_option("--context", o.context, "best, cpu(0), gpu(1), ...")->capture_default_str();
  app.add_option("--data", o.data,
                 "folder with the four MNIST files (default: data/mnist when it is there, else "
                 "digits drawn by this program)");
  app.add_option("--epochs", o.epochs)->check(CLI::Range(1, 100000))->capture_default_str();
  app.add_option("--batch-size", o.batch_size)
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  app.add_option("--lr", o.lr, "learning rate at the start")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--momentum", o.momentum)->check(CLI::Range(0.0, 1.0))->capture_default_str();
  app.add_option("--schedule", o.schedule, "of the learning rate: cosine (to zero) or constant")
      ->check(CLI::IsMember({"cosine", "constant"}))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "of weights, order and drawn digits")->capture_default_str();
  app.add_flag("--compile", o.compile,
               "record the step once and replay it: the same numbers, on a GPU in less time");
  app.add_flag("--describe", o.describe, "implies --compile: print what was recorded");
  app.add_option("--dot", o.dot, "implies --compile: a file for what was recorded, for Graphviz");
  app.add_option("--graph", o.graph,
                 "implies --compile: a picture of what was recorded, an SVG file");
  app.add_option("--hidden", o.hidden, "widths of the hidden layers, e.g. 256,128")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  app.add_option("--out", o.out, "folder for history.csv and curves.svg");
  app.add_option("--save", o.save, "parameter file, written after every epoch");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    std::exit(app.exit(e));
  }
  o.compile = o.compile || o.describe || !o.dot.empty() || !o.graph.empty();
  return o;
}

}  // namespace train_mlp
