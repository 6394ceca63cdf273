// The training loop of the programs: epochs over a loader, progress, history, checkpoints, and a
// clean end after a signal.
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

  std::string program, network, data;  // printed names
  std::string where;                   // describe_contexts()
  locus::nn::Block& net;
  locus::nn::Trainer& trainer;
  Loader loader;
  int64_t samples = 0;  // of an epoch

  // Computes gradients and updates, without waiting. Returns the losses, (batch,).
  std::function<locus::Tensor(const locus::Tensor& data, const locus::Tensor& label)> step;
  std::function<Score()> evaluate;               // after each epoch
  std::function<Strip()> strip = {};             // at the end, for --out
  std::function<void(int64_t step)> after = {};  // each step, counted from 1
};

// Trains, prints progress, and writes the requested files. Returns the exit status: 1 if the loss
// became NaN or infinite, 128 + the signal that ended it. All ranks call it; rank 0 prints and
// writes. A resumed run needs the options of the run before, else Error names the first that
// differs; it may have more epochs.
int train(const Run& run, const Options& options);

// "gpu(0), NVIDIA H200"; more than two: "4 contexts, NVIDIA H200"; with ranks: "4 ranks, the first
// on gpu(0), NVIDIA H200".
std::string describe_contexts(const std::vector<locus::Context>& contexts);

}  // namespace training
