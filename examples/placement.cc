// Compares placements of a network on contexts, in three modes.
//   placement --contexts "gpu(0),gpu(1)" --hidden 512,512,512 --out out
// trains with every assignment of layers to contexts. It prints a step's time, uncompiled and
// compiled, its copies, and memory.
//   placement --model mlp --contexts "gpu(0),gpu(1)" --out out --write-plan best.plan
// predicts plans (nn/plan.h, planning/cost.h), runs those that fit, and writes the best for
// train_mlp --plan. Models: mlp, lenet, resnet or a file (planning/model.h).
//   placement --model mlp --simulate "8x8 h200, nvlink 395, ib 50"
// predicts for another machine, from layers timed on this one.
// Without GPUs: LOCUS_EMULATED_GPUS=2 LOCUS_EMULATED_LINK="h2d=55,d2h=55,peer=395,latency_us=8"
#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/call_chart.h"
#include "common/measure.h"
#include "common/program.h"
#include "common/status.h"
#include "common/wrap.h"
#include "placement/lab.h"
#include "placement/report.h"
#include "planning/study.h"
#include "training/options.h"

using namespace locus;
using namespace placement;

namespace {

constexpr int kRounds = 3;  // over all placements

struct Options {
  Model model;
  size_t limit = 64;
  int steps = 15;
  planning::Options plans;
};

void add_options(CLI::App& app, Options& o) {
  app.get_option("--contexts")
      ->description(
          "where to run, e.g. \"gpu(0),gpu(1)\" (default: cpu(0), and gpu(0) and gpu(1) if they "
          "exist; with --model only these GPUs, if any); --simulate times layers on the first");
  app.add_option("--hidden", o.model.hidden, "widths of the hidden layers")
      ->delimiter(',')
      ->check(examples::whole(1, int64_t{1} << 16))
      ->capture_default_str();
  app.add_option("--inputs", o.model.inputs, "numbers per sample")
      ->check(examples::whole(1, int64_t{1} << 20))
      ->capture_default_str();
  app.add_option("--batch-size", o.model.batch, "samples of a step")
      ->check(examples::whole(1, int64_t{1} << 20))
      ->capture_default_str();
  app.add_option("--limit", o.limit, "placements, or plans, to measure at most")
      ->check(examples::whole(1, 100000))
      ->capture_default_str();
  app.add_option("--steps", o.steps,
                 "timed steps per round of each placement (3 rounds) or plan (5 rounds, 9 on real "
                 "GPUs)")
      ->check(examples::whole(1, 100000))
      ->capture_default_str();
  CLI::Option* const model =
      app.add_option("--model", o.plans.model,
                     "predict and run plans of mlp (its widths are "
                     "--hidden's), lenet, resnet or a file of layers (planning/model.h)");
  app.add_option(
         "--simulate", o.plans.simulate,
         "predict plans for hosts x GPUs, with GB/s of links within and between hosts: "
         "\"8x8 h200, nvlink 395, ib 50\"; if layers are not timed on a real GPU, add "
         "\", compute 300\": how many times as fast a GPU computes; --batch-size is that of "
         "each GPU")
      ->needs(model);
  app.add_option("--write-plan", o.plans.write_plan,
                 "a file for the best plan, which --plan of the training programs takes (default: "
                 "none)")
      ->needs(model);
}

void run(const examples::Program& program, const Options& o) {
  const std::vector<Context> contexts = program.contexts();
  program.print_machine(contexts);
  const std::vector<Placement> all = placements(contexts, o.model.layers(), o.limit);
  const double possible =
      std::pow(static_cast<double>(contexts.size()), static_cast<double>(o.model.layers()));
  const auto contexts_count = static_cast<double>(contexts.size());
  std::string about = fmt::format("{} on {}: {}", examples::counted(o.model.layers(), "layer"),
                                  examples::counted(contexts_count, "context"),
                                  examples::counted(possible, "placement"));
  if (static_cast<double>(all.size()) < possible)
    about += fmt::format(
        ". The program measures the {} with the fewest changes of context between layers (at most "
        "{}), and leaves out {:.0f} (--limit {}).",
        all.size(), changes(all.back()), possible - static_cast<double>(all.size()), o.limit);
  examples::print_text(about + "\n\n");
  std::fflush(stdout);

  std::vector<std::vector<Trial>> trials(all.size());
  examples::Status status;
  for (int round = 0; round < kRounds; ++round) {
    status.stage(fmt::format("round {} of {} over {}", round + 1, kRounds,
                             examples::counted(static_cast<double>(all.size()), "placement")));
    for (size_t i = 0; i < all.size(); ++i) {
      status.show(fmt::format("round {} of {}, placement {} of {}: {}", round + 1, kRounds, i + 1,
                              all.size(), text(all[i])));
      trials[i].push_back(measure(o.model, all[i], contexts, o.steps));
      // A placement must not change what the network computes.
      const double expected = trials[0][0].loss, loss = trials[i].back().loss;
      if (!(std::abs(loss - expected) <= 1e-3 * std::abs(expected)))
        throw Error(fmt::format("the first loss is {} under {} and {} under {}; expected the same",
                                expected, text(all[0]), loss, text(all[i])));
    }
  }
  status.clear();
  std::vector<Trial> results;
  for (const std::vector<Trial>& t : trials) results.push_back(combine(t));
  std::stable_sort(results.begin(), results.end(),
                   [](const Trial& a, const Trial& b) { return a.step_ms < b.step_ms; });
  const examples::Table table = make_table(results);
  fmt::print("{}\n", table.aligned());
  examples::print_text(explanation(results));
  program.write("placements.csv", table.csv());
  if (results.size() > 1) {
    program.write("fastest.csv", timeline_csv(results.front()));
    program.write("slowest.csv", timeline_csv(results.back()));
  }
  program.write("placement.svg", chart(results, o.model));
  const Trial* shown = fastest_compiled(results, 1);  // over several contexts, if there is one
  if (!shown) shown = fastest_compiled(results);
  if (!shown) return;
  std::vector<Context> used = contexts;
  std::erase_if(used, [&](Context c) { return std::ranges::count(shown->placement, c) == 0; });
  program.write("compiled.svg", examples::call_chart(
                                    "A compiled step, " + in_words(shown->placement),
                                    examples::describe(used), recorded(o.model, shown->placement)));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  examples::Program program("placement",
                            "Measures every placement of a network's layers on the contexts given, "
                            "or predicts plans for them.",
                            examples::RunsOn::cpu_and_gpus);
  add_options(program.options(), options);
  return program.run(argc, argv, [&](const examples::Program& p) {
    if (options.plans.model.empty()) return run(p, options);
    if (!options.plans.simulate.empty())
      examples::of_option("--simulate", [&] { planning::Machine::parse(options.plans.simulate); });
    training::check_folder_of("--write-plan", options.plans.write_plan);
    options.plans.hidden = options.model.hidden;
    options.plans.batch = options.model.batch;
    options.plans.limit = options.limit;
    options.plans.steps = options.steps;
    planning::study(p, options.plans);
  });
}
