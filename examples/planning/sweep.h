// Times passes of each layer of a model on one context, one by one.
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
  // Shapes without the batch. first: whether the input needs no gradient.
  struct Layer {
    std::shared_ptr<locus::nn::Block> block;
    locus::Shape in, out;
    bool first = false;
  };
  static std::vector<Layer> layers_of(const Model& model);

  Sweep(std::vector<Layer> layers, int64_t classes, locus::Context c, int64_t samples);

  struct Times {
    double compute = 0, issue = 0;
  };
  struct Round {
    std::vector<Times> forward, backward, again;  // of each layer, then the loss
    Times update;                                 // of all
    std::vector<double> held;                     // bytes, as forward
  };
  // `ahead` enqueues work, so that the context never waits for the host.
  Round round(const std::function<void()>& ahead);
  // Forward, backward and update, not timed.
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
