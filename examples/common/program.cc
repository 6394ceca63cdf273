#include "common/program.h"

#include <filesystem>
#include <iostream>

#include <fmt/format.h>

namespace examples {

using namespace locus;

Program::Program(const std::string& name, const std::string& purpose)
    : app_(purpose, name), name_(name) {
  app_.add_option("--contexts", contexts_,
                  "where to run, e.g. \"cpu(0),gpu(0)\" (default: cpu(0), and gpu(0) when there is "
                  "one)")
      ->delimiter(',');
  app_.add_option("--out", out_, fmt::format("folder for {0}.csv and {0}.svg", name));
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
  for (const std::string& c : contexts_) {
    list.push_back(Context::parse(c));
    context_info(list.back());  // one that is not there fails here
  }
  if (!list.empty()) return list;
  list.push_back(cpu());
  if (num_gpus() > 0) list.push_back(gpu());
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
  if (any_emulated(list)) fmt::print("{}\n", kModelled);
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

void Program::finish(const Table& table, const svg::Figure& figure) const {
  fmt::print("{}\n", figure.explanation);
  if (out_.empty()) return;
  const std::filesystem::path folder = out_;
  const std::string csv = folder / (name_ + ".csv"), picture = folder / (name_ + ".svg");
  write_file(csv, table.csv());
  write_file(picture, svg::figure(figure));
  fmt::print("\nwrote {} and {}\n", csv, picture);
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
