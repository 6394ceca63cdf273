// A plan that is run on this machine: what its steps take and hold.
#pragma once

#include <memory>
#include <vector>

#include <locus/nn/loss.h>
#include <locus/nn/planned.h>
#include <locus/nn/trainer.h>

#include "planning/model.h"

namespace planning {

// What a context did in a step, seconds from its begin. Work of a plan that is cut is not told
// apart by layer.
struct Ran {
  locus::Context where;
  double begin, end;
  char what;  // 'F', 'B', 'U': sums and update
  int microbatch = 0;
};

// Seconds of the host to enqueue a step.
struct Issued {
  // Of the passes of one microbatch over all stages: the mean.
  double forward = 0, backward = 0, again = 0;
  // Until the first pass of the pipeline that is told last, by the mean of all; and from its last
  // on.
  double before = 0, after = 0;
};

// SGD with momentum of the model on a batch that is made up and lies on the plan's first context.
class Trial {
 public:
  Trial(const Model& model, const locus::nn::Plan& plan, int64_t batch);

  void step();  // without waiting
  // Seconds of each of so many steps that are waited for, after some that warm up.
  std::vector<double> times(int steps);
  // Of so many such steps.
  std::vector<Issued> issued(int steps);
  // Bytes that a step needs on each of the plan's contexts, beyond those in use before this was
  // made: the most of those after each pass, each forward of the whole, the sums and the update.
  // All wait here for each pass; a program that runs ahead has more in use where there is room for
  // it.
  std::vector<double> held();
  // Of one step, enqueued behind `ahead`.
  std::vector<Ran> trace(const std::function<void()>& ahead = [] {});
  // The mean loss of the first step: the same by all plans, unless the model depends on the batch.
  double first_loss() const { return first_loss_; }

 private:
  void passes();

  const std::vector<locus::Context> contexts_;
  const int microbatches_;
  std::vector<double> before_;
  std::unique_ptr<locus::nn::Planned> net_;
  std::unique_ptr<locus::nn::Trainer> trainer_;
  locus::Tensor x_, y_;
  std::function<void()> after_forward_;
  double first_loss_ = 0, went_back_ = 0;
};

}  // namespace planning
