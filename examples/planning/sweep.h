// A model's layers on one context, each by itself: passes forward and backward over all of them,
// timed one by one.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <locus/nn/loss.h>
#include <locus/nn/trainer.h>

#include "common/moments.h"
#include "planning/cost.h"
#include "planning/model.h"

namespace planning {

locus::Shape batch_of(int64_t samples, const locus::Shape& sample);

class Sweep {
 public:
  // What goes into a layer, and what comes out, without the batch; whether its gradient is asked
  // for.
  struct Layer {
    std::shared_ptr<locus::nn::Block> block;
    locus::Shape in, out;
    bool first = false;
  };
  // The model's layers with their shapes.
  static std::vector<Layer> layers_of(const Model& model);

  Sweep(std::vector<Layer> layers, int64_t classes, locus::Context c, int64_t samples);

  struct Times {
    double compute = 0, issue = 0;
  };
  struct Round {
    std::vector<Times> forward, backward, again;  // of each layer, and behind them of the loss
    Times update;                                 // of all
    std::vector<double> held;                     // bytes, as forward
  };
  // `ahead`: gives the context work so that it does not wait for the host.
  Round round(const std::function<void()>& ahead);
  // Forward, backward and update, unwatched.
  void run();
  const std::vector<Layer>& layers() const { return layers_; }

 private:
  locus::Tensor forward(size_t i);

  const std::vector<Layer> layers_;
  const locus::Context context_;
  const int64_t samples_;
  locus::Tensors in_, head_;
  locus::Tensor label_;
  locus::nn::SoftmaxCrossEntropyLoss loss_;
  std::unique_ptr<locus::nn::Trainer> trainer_;
};

}  // namespace planning
