// SyncBatchNorm: BatchNorm with joint statistics of all replicas' batches, over all ranks, as on
// one context with the whole batch (Gluon's contrib.nn.SyncBatchNorm).
//
//   { autograd::Record record;  outs = net.on_replicas(xs);  ... }  // one loss per replica
//   autograd::backward(losses);
//
// One thread runs all replicas, also in compiled code (core/compile.h). Only one thread at a time
// may run the layer.
#pragma once

#include <cstdint>
#include <functional>

#include <locus/nn/norm_layers.h>

namespace locus::nn {

// --- Details ---
//
//   - Training several replicas one by one, net(xs[i]), also inside parallel(), is an Error: each
//     needs the others' batches. So is on_replicas() for some of the replicas.
//   - Without training, and with use_global_stats, the layer is BatchNorm.
//   - If there are ranks (core/cluster.h), statistics are those of all ranks' replicas. All ranks
//     make their layers in one order and run them in one order, else Error on every rank. A rank
//     with one replica calls net(x). Compiled code throws CaptureError.
class SyncBatchNorm : public BatchNorm {
 public:
  explicit SyncBatchNorm(const BatchNormOptions& = {});
  Tensor forward(const Tensor& x) override;
  Tensors forward_replicas(const Tensors& xs) override;
  bool spans_replicas() const override { return true; }

 private:
  bool predicts() const;
  void check_first(const std::function<void()>& check) const;

  uint64_t number_;  // ranks compare it; one for all copies
};

}  // namespace locus::nn
