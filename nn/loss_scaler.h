// Training in 16 bits: small gradients are 0 in f16, so the loss is multiplied by a large number
// first, and the update divides by it. Master copies of the weights are the optimizer's part
// (multi_precision).
//
//   amp::LossScaler scaler;
//   nn::Trainer trainer(net.parameters(), optim::SGD({.momentum = .9, .multi_precision = true}));
//   { autograd::Record record;  loss = scaler.scale(loss_fn(net(x), y)); }
//   loss.backward();
//   scaler.step(trainer, batch_size);   // updates, unless a gradient is NaN or infinite
//   checkpoint::save("run", {net, trainer, scaler});
//
// Whether gradients are finite is found on their device, in one launch a context and dtype, before
// anything is changed; the host reads one number a step, its only wait. So step() cannot be part
// of a compiled function; scale() can, and follows new scales: nn::TrainStep(net, loss, trainer,
// scaler) compiles what comes before step(). The update of a step that is skipped is not counted,
// and no state changes. Gradients that are looked at in between are multiples:
// trainer.clip_global_norm(max_norm, batch_size, scaler.loss_scale()).
//
// Infinities in scaled gradients, and NaN that comes of them, are no errors of LOCUS_CHECK=nan from
// scale() to step(), which skips; at min_scale, where that does not help, NaN is.
//
// The scale is that of MXNet's amp: halved when a step is skipped, doubled after scale_window steps
// in a row that were not; but at once, where MXNet's takes effect one step later.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include <locus/core/mutex.h>
#include <locus/core/nan_check.h>
#include <locus/core/tensor.h>
#include <locus/nn/trainer.h>

namespace locus::amp {

struct LossScalerOptions {
  double init_scale = 65536, scale_factor = 2;  // > 0, > 1
  int64_t scale_window = 2000;                  // >= 1
  double max_scale = 16777216, min_scale = 1;
};

// Where a scaler stands: what a checkpoint holds of it.
struct LossScalerState {
  double loss_scale = 0;
  int64_t unskipped = 0;  // steps in a row, since the scale changed: 0 to scale_window - 1
  int64_t skipped = 0;    // steps, so far
};

// One thread at a time, but for scale(). Not copied: what is compiled reads its scale.
class LossScaler : NonCopyable {
 public:
  // ValueError names the option that is out of its range.
  explicit LossScaler(const LossScalerOptions& options = {});

  double loss_scale() const { return scale_; }
  void set_loss_scale(double v);                // ValueError unless between min_scale and max_scale
  int64_t skipped() const { return skipped_; }  // steps, so far

  LossScalerState state() const { return {scale_, unskipped_, skipped_}; }
  // ValueError, and nothing changes, for a state that these options could not have led to.
  void check_state(const LossScalerState& state) const;
  void set_state(const LossScalerState& state);

  // loss * loss_scale(), to call backward() on: f32, or f64 for an f64 loss. Several threads may
  // call it at once, as those of a parallel() do.
  Tensor scale(const Tensor& loss);
  // trainer.step(), if the gradients that were written since the last one, summed over replicas,
  // are all finite; else they count as used. Then adjusts the scale. Whether it updated.
  // Gradients with grad_req add must be set to 0 by the program, after a step that was skipped too.
  bool step(nn::Trainer& trainer, int64_t batch_size, bool ignore_stale_grad = false,
            Caller = Caller::here());

 private:
  void adjust(bool finite);

  LossScalerOptions options_;
  double scale_;
  int64_t unskipped_ = 0, skipped_ = 0;
  OverflowCheck overflows_;  // of what is scaled
  Mutex mutex_;
  // On each context, for what is compiled.
  std::map<Context, Tensor> scales_ LOCUS_GUARDED_BY(mutex_);
};

}  // namespace locus::amp
