// LossScaler: multiplies a loss by a large number, so that f16 gradients do not become 0, and makes
// the update divide by the same number. Master copies of the weights are the optimizer's
// (multi_precision).
//
//   amp::LossScaler scaler;
//   nn::Trainer trainer(net.parameters(), optim::SGD({.momentum = .9, .multi_precision = true}));
//   { autograd::Record record;  loss = scaler.scale(loss_fn(net(x), y)); }
//   loss.backward();
//   scaler.step(trainer, batch_size);   // updates, unless a gradient is NaN or infinite
//   scaler.update();                    // the scale of the next pass
//   checkpoint::save("run", {net, trainer, scaler});
//
// A pass is all that comes between two calls of update(): any number of losses, and one step() for
// each trainer. The scale changes in update() alone, so all losses of a pass are multiplied with
// the number that its steps divide by. update() halves the scale if a step of the pass was skipped.
// It doubles the scale after scale_window passes in a row without a skip.

// --- Details ---
//
//   - A step() finds on the devices whether all gradients are finite, in one launch per context and
//     dtype. The host reads one number; that is its only wait. A skipped step changes no weight, no
//     state and no count.
//   - step() and update() cannot be compiled. scale() can, and replays see new scales.
//     nn::TrainStep(net, loss, trainer, scaler) compiles a pass and calls step() and update()
//     itself.
//   - Gradients before step() are multiples of loss_scale():
//     trainer.clip_global_norm(max_norm, batch_size, scaler.loss_scale()).
//   - From scale() to update(), NaN and infinities that come of scaled gradients are no errors of
//     LOCUS_CHECK=nan. If the scale is min_scale, they are errors.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <locus/core/base/mutex.h>
#include <locus/core/observe/nan_check.h>
#include <locus/core/tensor.h>
#include <locus/nn/trainer.h>

namespace locus::amp {

struct LossScalerOptions {
  double init_scale = 65536, scale_factor = 2;  // > 0, > 1
  int64_t scale_window = 2000;                  // >= 1
  double max_scale = 16777216, min_scale = 1;
};

// What a checkpoint holds of a scaler.
struct LossScalerState {
  double loss_scale = 0;
  int64_t unskipped = 0;  // passes in a row, since the scale changed: 0 to scale_window - 1
  int64_t skipped = 0;    // steps, so far
};

// One thread at a time, except scale(). Not copied: compiled code reads its scale.
class LossScaler : NonCopyable {
 public:
  // ValueError names the option that is out of its range.
  explicit LossScaler(const LossScalerOptions& options = {});

  double loss_scale() const { return scale_; }
  int64_t skipped() const { return skipped_; }  // steps, so far

  // loss * loss_scale(), to call backward() on: f32, or f64 for an f64 loss. Several threads may
  // call it at the same time.
  Tensor scale(const Tensor& loss, Caller = Caller::here());
  // Sums gradients over replicas. If all new gradients are finite, it updates and returns true, as
  // trainer.step() does. Else new gradients count as used, and it returns false. Error for the
  // second step() of a trainer without update() in between. With grad_req add the program sets
  // gradients to 0 after each step, skipped or not.
  bool step(nn::Trainer& trainer, int64_t batch_size, bool ignore_stale_grad = false,
            Caller = Caller::here());
  // Ends the pass and sets the scale of the next one. Without a step() since the last update()
  // nothing changes.
  void update();
  // Ends the pass; the next one has this scale. ValueError unless between min_scale and max_scale.
  void update(double loss_scale);

  // Error between step() and update(): the pass has not ended.
  LossScalerState state() const;
  // ValueError, and nothing changes, for a state that these options could not have led to.
  void check_state(const LossScalerState& state) const;
  void set_state(const LossScalerState& state);  // begins a pass

 private:
  void begin_pass(double scale, int64_t unskipped);

  LossScalerOptions options_;
  double scale_;
  int64_t unskipped_ = 0, skipped_ = 0;
  std::vector<uint64_t> stepped_ = {};  // trainers, in this pass
  bool overflowed_ = false;             // in a step of this pass
  OverflowCheck overflows_;             // of what is scaled
  Mutex mutex_;
  // On each context, for compiled code.
  std::map<Context, Tensor> scales_ LOCUS_GUARDED_BY(mutex_);
};

}  // namespace locus::amp
