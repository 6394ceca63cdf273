// Options shared by the training programs.
#pragma once

#include <cstdint>
#include <string>

#include <locus/core/context.h>
#include <locus/nn/trainer.h>

namespace CLI {
class App;
}

namespace training {

struct Options {
  std::string context = "best";
  std::string plan;  // a file (nn/plan.h); empty: all on the context
  std::string data;  // empty: the program's default folder if it exists, else drawn
  int epochs = 5;
  int64_t batch_size = 64;
  double lr = 0.1, momentum = 0.9, wd = 0;
  std::string schedule = "cosine";
  int64_t warmup = 0;  // steps
  double clip = 0;     // limits the norm of a sample's mean gradient; 0: none
  std::string dtype = "f32";
  uint64_t seed = 7;
  bool compile = false;
  std::string out;   // empty: no files
  std::string save;  // empty: no parameter file
  std::string checkpoint;
  int64_t checkpoint_every = 0;  // steps; 0: at the end of each epoch only
  int keep = 3;
  bool resume = false;
  bool distributed = false;  // over the ranks that mpirun or srun started
};

// `data_help`: of --data. Defaults are those of `options`.
void add_options(CLI::App& app, Options& options, const std::string& data_help);
void add_sgd(CLI::App& app, Options& options);
// Ends the program if the arguments ask for it or are wrong.
void parse(CLI::App& app, int argc, char** argv);

// "cosine schedule, batch 64, seed 7", and other options that differ from the default.
std::string describe(const Options& options);

// Call it first. With --distributed, joins the ranks; only rank 0 prints from then on. Error if
// several were started without --distributed.
void join(const Options& options);

// The context to run on. Error if it does not exist.
locus::Context choose_context(const Options& options);
// Throws before the training if results could not be written.
void check_writable(const Options& options);
void check_folder_of(const std::string& option, const std::string& file);

// For Trainer::set_schedule(); `steps` of the run.
locus::optim::LRScheduler make_schedule(const Options& options, int64_t steps);

}  // namespace training
