// The training loop that the programs share: epochs over a loader, progress, history, checkpoints,
// and an end that can be asked for at any moment.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <variant>

#include <locus/nn/checkpoint.h>
#include <locus/nn/data.h>
#include <locus/nn/prefetch.h>
#include <locus/nn/trainer.h>

#include "training/chart.h"
#include "training/history.h"
#include "training/options.h"

namespace training {

struct Score {
  double loss = 0;
  double accuracy = std::numeric_limits<double>::quiet_NaN();  // 0 to 1; NaN: there is none
};

struct Run {
  using Loader = std::variant<locus::data::DataLoader*, locus::data::Prefetcher*>;

  std::string program, network, data;  // names, for people
  std::string where;                   // describe_contexts()
  locus::nn::Block& net;
  locus::nn::Trainer& trainer;
  Loader loader;
  int64_t samples = 0;  // of an epoch

  // One step of training, gradients and update, without waiting: the losses, (batch,).
  std::function<locus::Tensor(const locus::Tensor& data, const locus::Tensor& label)> step;
  std::function<Score()> evaluate;               // after each epoch
  std::function<Strip()> strip = {};             // at the end, for --out
  std::function<void(int64_t step)> after = {};  // each step, counted from 1
};

// Trains as the options say, prints as it goes, and writes what they ask for. Returns the program's
// exit status: 1 when the loss became NaN or infinite, 128 + the signal that ended it. Of several
// ranks, which all call it, the first prints and writes.
// A run that is resumed must have the options of the run before, else Error names the first that
// differs; with more epochs it goes on for longer.
int train(const Run& run, const Options& options);

// "gpu(0), NVIDIA H200", of more than two "4 contexts, NVIDIA H200"; of ranks, what the first has:
// "4 ranks, the first on gpu(0), NVIDIA H200".
std::string describe_contexts(const std::vector<locus::Context>& contexts);

}  // namespace training
