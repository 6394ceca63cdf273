#include "common/program.h"

#include <algorithm>
#include <filesystem>
#include <iostream>

#include <fmt/format.h>
#include <locus/core/error.h>

#include "common/measure.h"

namespace examples {

using namespace locus;

Program::Program(const std::string& name, const std::string& purpose, int gpus)
    : app_(purpose, name), name_(name), gpus_(gpus) {
  app_.add_option(
          "--contexts", contexts_,
          fmt::format("where to run, e.g. \"cpu(0),gpu(0)\" (default: cpu(0) and {}, as far "
                      "as there are any)",
                      gpus == 1 ? "gpu(0)" : fmt::format("{} GPUs", gpus)))
      ->delimiter(',');
  app_.add_option("--out", out_, "folder for the results (.csv) and the picture (.svg)");
}

int Program::run(int argc, char** argv, const std::function<void(Program&)>& body) {
  try {
    app_.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app_.exit(e);
  }
  try {
    if (!out_.empty()) std::filesystem::create_directories(out_);
    body(*this);
  } catch (const std::exception& e) {
    std::cout.flush();
    std::cerr << name_ << ": " << e.what() << '\n';
    return 1;
  }
  return 0;
}

std::vector<Context> Program::contexts() const {
  std::vector<Context> list;
  for (const std::string& name : contexts_) {
    const Context c = Context::parse(name);
    if (std::find(list.begin(), list.end(), c) != list.end())
      throw Error("--contexts: " + to_string(c) + " is there twice; expected each once");
    context_info(c);  // one that is not there fails here
    list.push_back(c);
  }
  if (!list.empty()) return list;
  list = locus::gpus(std::min(gpus_, num_gpus()));
  list.insert(list.begin(), cpu());
  return list;
}

Context Program::best() const {
  const std::vector<Context> list = contexts();
  for (const Context c : list) {
    if (!is_host(c)) return c;
  }
  return list.front();
}

void Program::print_machine(const std::vector<Context>& list) const {
  for (const Context c : list) fmt::print("{}\n", describe(c));
  fmt::print("{}\n", precision());
  if (std::any_of(list.begin(), list.end(), emulated))
    fmt::print(
        "Emulated GPUs show the order of things, not the speed of a GPU. "
        "LOCUS_EMULATED_LINK gives them modelled times.\n");
  fmt::print("\n");
}

std::string Program::conditions(const std::vector<Context>& list) const {
  std::string s;
  for (size_t i = 0; i < list.size(); ++i) {
    // Names of equal hardware once: "gpu(0), gpu(1): NVIDIA H200".
    const bool again =
        i + 1 < list.size() && context_info(list[i]).name == context_info(list[i + 1]).name;
    s += again ? to_string(list[i]) + ", " : describe(list[i]) + "; ";
  }
  return s + precision() + "; medians of at least 5 runs";
}

void Program::write(const std::string& file, const std::string& content) const {
  if (out_.empty()) return;
  const std::string path = std::filesystem::path(out_) / file;
  write_file(path, content);
  fmt::print("wrote {}\n", path);
}

void Program::finish(const Table& table, const svg::Figure& figure) const {
  fmt::print("{}\n{}", figure.explanation, out_.empty() ? "" : "\n");
  write(name_ + ".csv", table.csv());
  write(name_ + ".svg", svg::figure(figure));
}

void Program::finish(const Table& table, const Bars& f) const {
  constexpr double kLeft = 40, kTop = 96, kWidth = 880;
  finish(table, svg::Figure{.title = f.title,
                            .subtitle = conditions(f.list),
                            .body = svg::bars(kLeft, kTop, kWidth, f.label_width, f.bars),
                            .explanation = f.explanation,
                            .top = kTop,
                            .height = svg::kBarRow * static_cast<double>(f.bars.size())});
}

}  // namespace examples
