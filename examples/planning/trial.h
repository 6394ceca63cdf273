// Runs a plan on this machine and measures its steps.
#pragma once

#include <memory>
#include <vector>

#include <locus/nn/loss.h>
#include <locus/nn/planned.h>
#include <locus/nn/trainer.h>

#include "planning/model.h"

namespace planning {

// The work of a context in a step, in seconds from the step's begin. Cut plans are not split by
// layer.
struct Ran {
  locus::Context where;
  double begin, end;
  char what;  // 'F', 'B', 'U': sums and update
  int microbatch = 0;
};

// Host time to enqueue a step, in seconds.
struct Issued {
  // Passes of one microbatch over all stages: the mean.
  double forward = 0, backward = 0, again = 0;
  // `before`: until the first pass, for the last pipeline to be enqueued. `after`: from the last
  // pass on.
  double before = 0, after = 0;
};

// Trains the model by SGD with momentum, on random data on the plan's first context.
class Trial {
 public:
  Trial(const Model& model, const locus::nn::Plan& plan, int64_t batch);

  void step();  // does not wait
  // Seconds of steps with waits, after a warm-up.
  std::vector<double> times(int steps);
  std::vector<Issued> issued(int steps);
  // Bytes that a step needs on each context, beyond those in use before construction. Samples after
  // each pass, the sums and the update, and waits for each pass. A program that does not wait may
  // use more.
  std::vector<double> held();
  // One step, enqueued after `ahead`.
  std::vector<Ran> trace(const std::function<void()>& ahead = [] {});
  // The mean loss of the first step. Equal for all plans unless depends_on_batch().
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
