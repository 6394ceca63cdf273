// LossScaler: multiplies a loss by a large number, the scale, and makes the update divide by it.
// So small f16 gradients do not become 0. The optimizer's option multi_precision keeps f32 master
// weights. The scaler owns no trainer. One thread at a time may call a scaler, except scale().
// Unusual cases: "Details" at the end.
//
//   amp::LossScaler scaler;
//   nn::Trainer trainer(net.parameters(), optim::SGD({.momentum = .9, .multi_precision = true}));
//   { autograd::Record record;  loss = scaler.scale(loss_fn(net(x), y)); }
//   loss.backward();
//   scaler.step(trainer, batch_size);   // updates, unless a gradient is NaN or infinite
//   scaler.update();                    // the scale of the next pass
//   checkpoint::save("run", {net, trainer, scaler});
//
// A pass, from one update() to the next, has any number of losses and one step() for each trainer.
// The scale is constant in a pass. If a step of the pass was skipped, update() divides the scale by
// scale_factor. After scale_window passes in a row without a skip, update() multiplies it.
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

// The state of a scaler in a checkpoint.
struct LossScalerState {
  double loss_scale = 0;
  int64_t unskipped = 0;  // passes in a row, since the scale changed: 0 to scale_window - 1
  int64_t skipped = 0;    // steps, so far
};

// Not copyable: compiled code reads its scale.
class LossScaler : NonCopyable {
 public:
  // Throws a ValueError that names an option out of its range.
  explicit LossScaler(const LossScalerOptions& options = {});

  double loss_scale() const { return scale_; }
  int64_t skipped() const { return skipped_; }  // steps, so far

  // Returns loss * loss_scale(), as f32, or f64 for an f64 loss, to call backward() on. Several
  // threads may call scale() at once.
  Tensor scale(const Tensor& loss, Caller = Caller::here());
  // Sums gradients over replicas. If all new gradients are finite, step() updates like
  // trainer.step() and returns true. Else new gradients count as used and the result is false.
  // Error for a second step() of a trainer in one pass. With grad_req add, the program sets
  // gradients to 0 after each step, skipped or not.
  bool step(nn::Trainer& trainer, int64_t batch_size, bool ignore_stale_grad = false,
            Caller = Caller::here());
  // Ends the pass and sets the scale of the next pass. If the pass had no step(), nothing changes.
  void update();
  // Ends the pass. The next pass has this scale. ValueError unless between min_scale and max_scale.
  void update(double loss_scale);

  // Error between step() and update(): the pass has not ended.
  LossScalerState state() const;
  // ValueError for a state out of the range of the options. Changes nothing.
  void check_state(const LossScalerState& state) const;
  void set_state(const LossScalerState& state);  // begins a new pass

 private:
  void begin_pass(double scale, int64_t unskipped);

  LossScalerOptions options_;
  double scale_;
  int64_t unskipped_ = 0, skipped_ = 0;
  std::vector<uint64_t> stepped_ = {};  // trainers, in this pass
  bool overflowed_ = false;             // in a step of this pass
  OverflowCheck overflows_;             // of scaled gradients
  Mutex mutex_;
  // On each context, for compiled code.
  std::map<Context, Tensor> scales_ LOCUS_GUARDED_BY(mutex_);
};

// --- Details ---

// Steps
//   - step() checks on the devices whether all gradients are finite, in one launch per context and
//     dtype. The host reads one number. With one rank, this is the only wait.
//   - The scale stays between min_scale and max_scale.
//   - A skipped step changes no weight, no optimizer state and no count of updates.
//   - Before step(), gradients are multiples of loss_scale(). To limit their norm, call
//     trainer.clip_global_norm(max_norm, batch_size, scaler.loss_scale()).

// Compiled code
//   - scale() can be compiled, and replays read the present scale. step() and update() cannot.
//   - nn::TrainStep(net, loss, trainer, scaler) compiles a pass, and calls step() and update()
//     uncompiled.

// LOCUS_CHECK=nan
//   - From scale() to update(), NaN and infinities of scaled gradients are no errors, unless the
//     scale is min_scale.

}  // namespace locus::amp
