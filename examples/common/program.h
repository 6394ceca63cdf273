// What programs that measure have in common: their options, and the files they leave.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <locus/core/context.h>
#include <CLI/CLI.hpp>

#include "common/svg.h"
#include "common/table.h"

namespace examples {

class Program {
 public:
  // `name`: of the program and of the files it writes. Adds --contexts, by default cpu(0) and as
  // many of `gpus` GPUs as there are, and --out.
  Program(const std::string& name, const std::string& purpose, int gpus = 1);

  CLI::App& options() { return app_; }
  // Parses, runs `body`, and returns the exit status; errors are printed with the program's name.
  int run(int argc, char** argv, const std::function<void(Program&)>& body);

  // Throws what context_info() throws for one that is not there, and Error for one given twice.
  std::vector<locus::Context> contexts() const;
  // The first GPU among them, else the first.
  locus::Context best() const;

  // Prints the machine: contexts and precision.
  void print_machine(const std::vector<locus::Context>& list) const;
  // The same in a line, for below a title.
  std::string conditions(const std::vector<locus::Context>& list) const;
  // With --out, writes a file in that folder and prints its path.
  void write(const std::string& file, const std::string& content) const;
  // Prints the explanation, and with --out writes NAME.csv and NAME.svg.
  void finish(const Table& table, const svg::Figure& figure) const;

  // A figure of bars, measured on `list`.
  struct Bars {
    std::string title;
    const std::vector<locus::Context>& list;
    double label_width;
    const std::vector<svg::Bar>& bars;
    std::string explanation;
  };
  void finish(const Table& table, const Bars& figure) const;

 private:
  CLI::App app_;
  std::string name_, out_;
  int gpus_;
  std::vector<std::string> contexts_;
};

}  // namespace examples
