// placement's plans: predicted, run where they fit, and told about.
#pragma once

#include <string>
#include <vector>

#include "common/program.h"
#include "planning/machine.h"
#include "planning/model.h"
#include "planning/trial.h"

namespace planning {

struct Options {
  std::string model, simulate, write_plan;
  std::vector<int64_t> hidden;
  int64_t batch = 256;  // of all contexts together; of each device that is simulated
  size_t limit = 64;
  int steps = 15;
};

// A plan, and what it took where it was run.
struct Result {
  Prediction predicted;
  locus::nn::Plan plan;
  std::vector<double> times = {};  // of the steps of all rounds
  Samples rounds = {};             // the median of each
  double measured = 0;             // rounds.value(); 0: not run
  double spread = 0;               // of times: half of what the quartiles span
  std::vector<double> held = {};   // bytes, by context
  std::vector<Ran> ran = {};
  bool fits = true;
  std::string not_run = {};  // why
  double error() const { return predicted.seconds / measured - 1; }
  double seconds() const { return measured > 0 ? measured : predicted.seconds; }
};

// Measures, predicts, runs, or simulates, as the options say; prints and writes what came of it.
void study(const examples::Program& program, const Options& options);

// Sorts the results, the fastest first: those that ran, then by their predictions, and behind them
// those that do not fit.
void sort(std::vector<Result>& results);
// The same, and marks those that are not to be run: they do not fit into so many bytes of each
// context, all of which are as c is, or are behind `limit` of those that do. OutOfMemory where none
// fits.
void choose(std::vector<Result>& results, locus::Context c, double room, size_t limit);

// Results come sorted.
examples::Table table_of(const std::vector<Result>& results);
std::string explanation(const std::vector<Result>& results);
std::string picture(const std::vector<Result>& results, const std::string& title,
                    const std::string& conditions);

// The best plan of one device, which others are compared with; null where one cannot hold any.
const Prediction* base_of(const std::vector<Prediction>& all);

// Of a machine that is not here; the times of layers were measured on `where`.
examples::Table table_of(const std::vector<Prediction>& all, int64_t batch, locus::Context where);
std::string explanation(const std::vector<Prediction>& all, const Machine& machine, int64_t batch,
                        locus::Context where);
std::string picture(const std::vector<Prediction>& all, int64_t batch, const std::string& title,
                    const std::string& explanation);

}  // namespace planning
