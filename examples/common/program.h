// Options and output files shared by programs that measure.
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

// The contexts a program uses by default, as far as they exist.
enum class RunsOn : uint8_t {
  one,           // gpu(0), else cpu(0); the option is --context
  cpu_and_gpu,   // cpu(0) and gpu(0)
  cpu_and_gpus,  // cpu(0), gpu(0) and gpu(1)
  everything,    // cpu(0), cpu_pinned(0) and all GPUs
  replicas,  // all GPUs, or cpu(0) to cpu(3) if there are fewer than two; --contexts names contexts
             // of one kind
  two_gpus,  // gpu(0) and gpu(1); --contexts also names two GPUs
};

class Program {
 public:
  // `name` names the program and its files. Adds --contexts, or --context for RunsOn::one, and
  // --out.
  Program(const std::string& name, const std::string& purpose, RunsOn runs_on);

  CLI::App& options() { return app_; }
  // Parses, checks that --out can be written, runs `body`, returns the exit status. Errors are
  // printed with the program's name.
  int run(int argc, char** argv, const std::function<void(Program&)>& body);

  // Error for a context that does not exist, is named twice, or does not fit RunsOn.
  std::vector<locus::Context> contexts() const;
  // contexts() of one kind. Error if --contexts names two kinds or pinned memory. The default is
  // the GPUs, if there are any.
  std::vector<locus::Context> alike() const;
  locus::Context context() const { return contexts().front(); }  // for RunsOn::one

  // Prints contexts and precision.
  void print_machine(const std::vector<locus::Context>& list) const;
  // The machine in one line, for a subtitle; `times` says how times were measured.
  std::string conditions(const std::vector<locus::Context>& list,
                         const std::string& times = "medians of at least 5 runs") const;
  // With --out, creates the folder, writes the file and prints its path.
  void write(const std::string& file, const std::string& content) const;
  // Prints the explanation, and with --out writes NAME.csv and NAME.svg.
  void finish(const Table& table, const svg::Figure& figure) const;

  // A bar chart, measured on `list`.
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
