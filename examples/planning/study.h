// Predicts plans, runs those that fit, and reports.
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
  int64_t batch = 256;  // of all contexts; with --simulate, per device
  size_t limit = 64;
  int steps = 15;
};

// A plan with its measurements.
struct Result {
  Prediction predicted;
  locus::nn::Plan plan;
  std::vector<double> times = {};  // of the steps of all rounds
  Samples rounds = {};             // the median of each
  double measured = 0;             // rounds.value(); 0: not run
  double spread = 0;               // half the interquartile range of `times`
  std::vector<double> held = {};   // bytes, by context
  std::vector<Ran> ran = {};
  bool fits = true;
  std::string not_run = {};  // why
  double error() const { return predicted.seconds / measured - 1; }
  double seconds() const { return measured > 0 ? measured : predicted.seconds; }
};

// Does what the options say, prints and writes the results.
void study(const examples::Program& program, const Options& options);

// Sorts: measured plans, the fastest first, then predicted plans, then plans that do not fit.
void sort(std::vector<Result>& results);
// Sorts, and marks plans not to run: those that need more than 90 % of `room` bytes on a context
// like c, and those beyond `limit`. OutOfMemory if none fits.
void choose(std::vector<Result>& results, locus::Context c, double room, size_t limit);

// Results must be sorted.
examples::Table table_of(const std::vector<Result>& results);
std::string explanation(const std::vector<Result>& results);
std::string picture(const std::vector<Result>& results, const std::string& title,
                    const std::string& conditions);

// The best plan on one device, the base of comparison; null if one device cannot hold it.
const Prediction* base_of(const std::vector<Prediction>& all);

// For simulated machines. `where` timed the layers.
examples::Table table_of(const std::vector<Prediction>& all, int64_t batch, locus::Context where);
std::string explanation(const std::vector<Prediction>& all, const Machine& machine, int64_t batch,
                        locus::Context where);
std::string picture(const std::vector<Prediction>& all, int64_t batch, const std::string& title,
                    const std::string& explanation);

}  // namespace planning
