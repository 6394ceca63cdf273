#include "planning/study.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

#include <fmt/format.h>
#include <locus/locus.h>

#include "common/measure.h"
#include "common/status.h"
#include "common/wrap.h"
#include "planning/candidates.h"
#include "planning/measured_layers.h"
#include "planning/measured_links.h"

namespace planning {

using namespace locus;
using namespace examples;

namespace {

// Each round runs all plans, so a disturbance slows all of them. GPUs need more rounds: their steps
// are short, and the host's changing pace matters.
int rounds_of(Context c) { return real_gpu(c) ? 9 : 5; }

// The batch, its half, and so on, down to the smallest microbatch.
std::vector<int64_t> sizes(int64_t batch, int devices) {
  std::vector<int64_t> all;
  for (int64_t n = batch; n >= 1 && n >= batch / std::max(8, 4 * devices); n /= 2) all.push_back(n);
  return all;
}

// Calls `after` after each round over all plans.
void run(const Model& model, const Options& o, const std::function<void()>& after,
         std::vector<Result>& results, Status& status) {
  const bool by_batch = depends_on_batch(model);
  double expected = NAN;
  const int rounds = rounds_of(results[0].plan.contexts()[0]);
  const auto plans = std::ranges::count(results, "", &Result::not_run);
  for (int round = 0; round < rounds; ++round) {
    const std::string where = fmt::format("round {} of {}", round + 1, rounds);
    status.stage(fmt::format("{} over {}, then over their layers", where,
                             counted(static_cast<double>(plans), "plan")));
    int ran = 0;
    for (Result& r : results) {
      if (!r.not_run.empty()) continue;
      status.show(fmt::format("{}, plan {} of {}: {}", where, ++ran, plans, r.plan.summary()));
      Trial trial(model, r.plan, o.batch);
      if (std::isnan(expected)) expected = trial.first_loss();
      if (!by_batch && !(std::abs(trial.first_loss() - expected) <= 1e-3 * std::abs(expected)))
        throw Error(fmt::format("the first loss is {} {} and {} {}; expected the same", expected,
                                results[0].plan.summary(), trial.first_loss(), r.plan.summary()));
      const std::vector<double> times = trial.times(o.steps);
      r.times.insert(r.times.end(), times.begin(), times.end());
      r.rounds.add(median(times));
      if (round + 1 < rounds) continue;
      r.ran = trial.trace();
      r.held = trial.held();  // last, because it empties the memory caches
      std::ranges::sort(r.times);
      r.measured = r.rounds.value();
      r.spread = (r.times[r.times.size() * 3 / 4] - r.times[r.times.size() / 4]) / 2;
    }
    after();
  }
}

// The lower quartile of the rounds' predictions.
Prediction that_counts(std::vector<Prediction> all) {
  std::ranges::sort(all, {}, &Prediction::seconds);
  return all[Samples::counts(all.size())];
}

void simulate(const Program& program, const Options& o, const Model& model, Context c) {
  const Machine machine = Machine::parse(o.simulate);
  of_option("--simulate", [&] { machine.check_timed_on(c); });
  if (!o.write_plan.empty() && machine.hosts > 1)
    throw Error("--write-plan: a plan is of one host's contexts; --simulate names ", machine.hosts,
                " hosts");
  LayerMeasurements what{.samples = sizes(o.batch, 2), .cuts = {}, .each = true};
  for (const int n : counts(machine.gpus))
    if (n > 1) what.cuts.push_back(n);
  Status status;
  what.begins = [&](const std::string& s) { status.stage(s); };
  const ModelCost cost = measure_layers(model, {&c, 1}, what);
  status.stage("predicting plans");
  const double start = now();
  const std::vector<Prediction> all = simulate(cost, machine, o.batch);
  if (all.empty()) throw Error("--simulate: no plan fits into ", machine.memory, " GB");
  const double took = now() - start;
  status.clear();
  const Table table = table_of(all, o.batch, c);
  const std::string text = explanation(all, machine, o.batch, c) +
                           fmt::format(" The prediction took {}.", time_text(took));
  const std::string times = machine.compute_text(c);
  print_text(fmt::format("{} on {}, {}:\n", o.model, o.simulate, times));
  fmt::print("{}\n", table.aligned());
  print_text(text);
  program.write("simulated.csv", table.csv());
  program.write("simulated.svg", picture(all, o.batch,
                                         fmt::format("{} on {}x{} {}, {}", o.model, machine.hosts,
                                                     machine.gpus, machine.name, times),
                                         text));
  if (o.write_plan.empty()) return;
  const auto best = std::ranges::find_if(
      all, [&](const Prediction& p) { return p.layout.devices() == machine.devices(); });
  if (best == all.end()) throw Error("--write-plan: no plan of all devices fits");
  best->layout.plan(gpus(machine.devices())).save(o.write_plan);
  fmt::print("wrote {}\n", o.write_plan);
}

}  // namespace

void sort(std::vector<Result>& results) {
  std::ranges::stable_sort(results, {}, [](const Result& r) {
    return std::tuple(!r.fits, r.measured <= 0, r.seconds());
  });
}

void choose(std::vector<Result>& results, Context c, double room, size_t limit) {
  const auto held = [](const Result& r) { return r.predicted.most_held(); };
  for (Result& r : results) {
    r.fits = held(r) <= .9 * room;
    if (!r.fits) r.not_run = fmt::format("it needs {}", si_text(held(r), "B"));
  }
  sort(results);
  if (!results[0].fits)
    throw OutOfMemory("no plan fits: the one that needs the least memory needs ",
                      si_text(held(*std::ranges::min_element(results, {}, held)), "B"),
                      " of a context that has ", si_text(room, "B"),
                      "; give more --contexts or a smaller --batch-size", more_memory(c));
  for (size_t i = limit; i < results.size() && results[i].fits; ++i) results[i].not_run = "--limit";
}

void study(const Program& program, const Options& o) {
  const Model model = load_model(o.model, o.hidden);
  const std::vector<Context> contexts = program.alike();
  program.print_machine(contexts);
  if (!o.simulate.empty()) return simulate(program, o, model, contexts[0]);
  const int n = static_cast<int>(contexts.size());
  LayerMeasurements what{.samples = sizes(o.batch, n), .cuts = {}};
  for (const int k : counts(n))
    if (k > 1) what.cuts.push_back(k);
  Status status;
  status.stage(n > 1 ? fmt::format("timing links between {}", counted(n, "context"))
                     : "timing waits");
  MeasuredLinks links(contexts);
  what.begins = [&](const std::string& s) { status.stage(s); };
  const auto measure_all = [&] {
    ModelCost cost = measure_layers(model, contexts, what);
    links.sample_waits();
    links.sample_pace(model, what.samples);
    return cost;
  };
  const ModelCost first = measure_all();

  std::vector<Result> results;
  for (const int k : counts(n))
    for (const Layout& l : candidates(first, k, o.batch))
      results.emplace_back(predict(l, first, links, o.batch), l.plan(contexts));
  const auto room = static_cast<double>(device(contexts[0]).memory().total);
  choose(results, contexts[0], room, o.limit);
  // Layers are measured again after each round and predicted from that: a machine's pace changes
  // between rounds.
  what.rounds = 5;
  what.warm = true;
  what.begins = [&](const std::string& s) { status.show("again " + s); };
  std::vector<std::vector<Prediction>> predictions(results.size());
  const auto predict_all = [&] {
    const ModelCost cost = measure_all();
    for (size_t i = 0; i < results.size(); ++i)
      predictions[i].push_back(predict(results[i].predicted.layout, cost, links, o.batch));
  };
  run(model, o, predict_all, results, status);
  status.clear();
  for (size_t i = 0; i < results.size(); ++i)
    results[i].predicted = that_counts(std::move(predictions[i]));
  sort(results);
  const Table table = table_of(results);
  fmt::print("{}\n", table.aligned());
  print_text(explanation(results));
  program.write("plans.csv", table.csv());
  program.write("plans.svg",
                picture(results,
                        fmt::format("How should {} train on {}? A step of {} samples", o.model,
                                    counted(n, "context"), o.batch),
                        program.conditions(contexts, "lower quartile of medians per round")));
  if (o.write_plan.empty()) return;
  results[0].plan.save(o.write_plan);
  fmt::print("wrote {}\n", o.write_plan);
}

}  // namespace planning
