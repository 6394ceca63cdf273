#include "common/program.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include <fmt/format.h>
#include <locus/core/error.h>
#include <locus/core/group.h>

#include "common/measure.h"
#include "common/wrap.h"

namespace examples {

using namespace locus;

namespace {

const char* defaults_text(RunsOn r) {
  switch (r) {
    case RunsOn::one:
      return "cpu(0), gpu(1), ... (default: gpu(0), or cpu(0) without a GPU)";
    case RunsOn::cpu_and_gpu:
      return "e.g. \"cpu(0),gpu(1)\" (default: cpu(0), and gpu(0) if there is one)";
    case RunsOn::cpu_and_gpus:
      return "e.g. \"gpu(0),gpu(1)\" (default: cpu(0), and gpu(0) and gpu(1) as far as there are "
             "any)";
    case RunsOn::everything:
      return "e.g. \"cpu(0),gpu(1)\" (default: cpu(0), cpu_pinned(0) and all GPUs)";
    case RunsOn::replicas:
      return "e.g. \"gpu(0),gpu(1)\", all of one kind (default: all GPUs, or cpu(0) to cpu(3) "
             "if there are fewer than two)";
    case RunsOn::two_gpus:
      return "two GPUs (default: \"gpu(0),gpu(1)\")";
  }
  return "";
}

void check_alike(const std::vector<Context>& list) {
  for (const Context c : list)
    if (c.type == DeviceType::cpu_pinned)
      throw Error("--contexts: ", c,
                  " is memory for copies; expected GPUs, or contexts of the CPU such as cpu(1)");
  of_option("--contexts", [&] { Group{Contexts(list)}; });  // refuses mixed kinds
}

}  // namespace

Program::Program(const std::string& name, const std::string& purpose, RunsOn runs_on)
    : app_(purpose, name), name_(name), runs_on_(runs_on) {
  const std::string where = std::string("where to run: ") + defaults_text(runs_on);
  if (runs_on == RunsOn::one)
    app_.add_option("--context", contexts_, where)->expected(1);
  else
    app_.add_option("--contexts", contexts_, where)->delimiter(',');
  app_.add_option("--out", out_,
                  "folder for the results (.csv) and the picture (.svg), created if missing "
                  "(default: no files)");
}

int Program::run(int argc, char** argv, const std::function<void(Program&)>& body) {
  if (const std::optional<int> status = parse(app_, argc, argv)) return *status;
  try {
    if (!out_.empty()) check_folder("--out", out_);  // before the measurements
    body(*this);
    check_printed();
  } catch (const std::exception& e) {
    std::cout.flush();
    std::cerr << name_ << ": " << e.what() << '\n';
    return 1;
  }
  return 0;
}

std::vector<Context> Program::defaults() const {
  if (runs_on_ == RunsOn::one) return {best_context()};
  if (runs_on_ == RunsOn::replicas)
    return num_gpus() > 1 ? locus::gpus(num_gpus())
                          : std::vector<Context>{cpu(0), cpu(1), cpu(2), cpu(3)};
  const int wanted = runs_on_ == RunsOn::cpu_and_gpu ? 1 : 2;
  const int n = runs_on_ == RunsOn::everything ? num_gpus() : std::min(wanted, num_gpus());
  std::vector<Context> list = locus::gpus(n);
  if (runs_on_ == RunsOn::everything) list.insert(list.begin(), cpu_pinned());
  if (runs_on_ != RunsOn::two_gpus) list.insert(list.begin(), cpu());
  return list;
}

std::vector<Context> Program::contexts() const {
  std::vector<Context> list;
  for (const std::string& name : contexts_) {
    const Context c = context_of(runs_on_ == RunsOn::one ? "--context" : "--contexts",
                                 std::string(trimmed(name)));
    if (std::find(list.begin(), list.end(), c) != list.end())
      throw Error("--contexts: " + to_string(c) + " is given twice; expected each once");
    list.push_back(c);
  }
  if (list.empty()) return defaults();
  const auto host = std::find_if(list.begin(), list.end(), is_host);
  if (runs_on_ == RunsOn::replicas) check_alike(list);
  if (runs_on_ == RunsOn::two_gpus && (host != list.end() || list.size() != 2)) {
    const auto named =
        std::count_if(list.begin(), list.end(), [](Context c) { return !is_host(c); });
    throw Error(fmt::format("--contexts names {}{}; {} runs on two, name two different ones",
                            counted(static_cast<double>(named), "GPU"),
                            host == list.end() ? "" : " and " + to_string(*host), name_));
  }
  return list;
}

std::vector<Context> Program::alike() const {
  std::vector<Context> list = contexts();
  if (!contexts_.empty())
    check_alike(list);
  else if (!std::ranges::all_of(list, is_host))
    std::erase_if(list, is_host);
  return list;
}

void Program::print_machine(const std::vector<Context>& list) const {
  for (const Context c : list) fmt::print("{}\n", describe(c));
  fmt::print("{}\n", precision());
  if (const std::string note = emulation_note(list); !note.empty()) print_text(note);
  if (const std::string note = busy_note(); !note.empty()) print_text(note);
  fmt::print("\n");
  std::fflush(stdout);  // measurements take time
}

std::string Program::conditions(const std::vector<Context>& list, const std::string& times) const {
  return describe(list) + "; " + precision() + "; " + times;
}

void Program::write(const std::string& file, const std::string& content) const {
  if (out_.empty()) return;
  const std::string path = std::filesystem::path(out_) / file;
  std::filesystem::create_directories(out_);
  write_file(path, content);
  fmt::print("wrote {}\n", path);
}

void Program::finish(const Table& table, const svg::Figure& figure) const {
  print_text(figure.explanation);
  if (!out_.empty()) fmt::print("\n");
  write(name_ + ".csv", table.csv());
  write(name_ + ".svg", svg::figure(figure));
}

void Program::finish(const Table& table, const Bars& f) const {
  constexpr double kLeft = 40, kTop = 96, kWidth = 880;
  finish(table,
         svg::Figure{.title = f.title,
                     .subtitle = conditions(f.list),
                     .body = svg::bars(kLeft, kTop, kWidth, f.label_width, f.bars, f.logarithmic),
                     .explanation = f.explanation,
                     .top = kTop,
                     .height = svg::kBarRow * static_cast<double>(f.bars.size()) +
                               (f.logarithmic ? svg::kBarTicks : 0)});
}

}  // namespace examples
