// What programs that measure have in common: their options, and the files they leave.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <locus/core/context.h>
#include <CLI/CLI.hpp>

#include "common/command.h"
#include "common/svg.h"
#include "common/table.h"

namespace examples {

// What a program runs on when --contexts does not say, of what there is.
enum class RunsOn : uint8_t {
  one,           // gpu(0), else cpu(0); --contexts names one, too
  cpu_and_gpu,   // cpu(0) and gpu(0)
  cpu_and_gpus,  // cpu(0), gpu(0) and gpu(1)
  everything,    // cpu(0), cpu_pinned(0) and all GPUs
  replicas,      // all GPUs, or cpu(0) to cpu(3) where there are less than two; --contexts likewise
                 // names GPUs or contexts of the CPU
  two_gpus,      // gpu(0) and gpu(1); --contexts names two GPUs, too
};

class Program {
 public:
  // `name`: of the program and of the files it writes. Adds --contexts and --out.
  Program(const std::string& name, const std::string& purpose, RunsOn runs_on);

  CLI::App& options() { return app_; }
  // Parses, sees that --out could be written, runs `body`, and returns the exit status; errors
  // are printed with the program's name.
  int run(int argc, char** argv, const std::function<void(Program&)>& body);

  // Throws what context_info() throws for one that is not there, and Error for one given twice or
  // others than the program runs on.
  std::vector<locus::Context> contexts() const;
  // The same, of one kind: Error where --contexts names two kinds, or memory for copies; by default
  // GPUs alone, where there are some.
  std::vector<locus::Context> alike() const;
  locus::Context context() const { return contexts().front(); }  // of RunsOn::one

  // Prints the machine: contexts and precision.
  void print_machine(const std::vector<locus::Context>& list) const;
  // The same in a line, for below a title, and what times are.
  std::string conditions(const std::vector<locus::Context>& list,
                         const std::string& times = "medians of at least 5 runs") const;
  // With --out, writes a file in that folder, which is made now, and prints its path.
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
    bool logarithmic = false;
  };
  void finish(const Table& table, const Bars& figure) const;

 private:
  std::vector<locus::Context> defaults() const;

  CLI::App app_;
  std::string name_, out_;
  RunsOn runs_on_;
  std::vector<std::string> contexts_;
};

}  // namespace examples
