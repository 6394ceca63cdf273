// BatchNorm over all replicas (ops/sync_norm.h).
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include <locus/core/rendezvous.h>
#include <locus/nn/norm_layers.h>

namespace locus::nn {

// BatchNorm by the statistics of all replicas' batches together, as of one context with the whole
// batch (Gluon's contrib.nn.SyncBatchNorm). While training no replica can go on before all others
// have come, so it runs
//   - in one thread, replicas side by side, also in a compiled function (core/compile.h):
//       { autograd::Record record;  outs = net.on_replicas(xs);  ... }  // a loss each
//       autograd::backward(losses);
//   - in parallel() over all contexts of the replicas (core/parallel.h), where the threads meet,
//     uncompiled; each calls net(xs[i]) and then backward() for its own loss, there or in the next
//     parallel().
// Where there are ranks (core/cluster.h), it is BatchNorm over all ranks' replicas: all make
// their layers in one order and run them the same way, else Error on all, and a rank with one
// replica calls net(x). Then nothing of it can be compiled (CaptureError). A loop that calls
// net(xs[i]) for one replica after the other is an Error, as is a parallel() over some of the
// contexts, and one thread that does not come is one for all. Where training is off, or with
// use_global_stats, it is BatchNorm.
class SyncBatchNorm : public BatchNorm {
 public:
  explicit SyncBatchNorm(const BatchNormOptions& = {});
  Tensor forward(const Tensor& x) override;
  Tensors forward_replicas(const Tensors& xs) override;
  bool spans_replicas() const override { return true; }

 private:
  bool alone() const;  // no replica needs another one
  void before_meeting(const std::function<void()>& check) const;
  void expect_all(std::span<const Context> there) const;
  Rendezvous::Place place() const { return {"SyncBatchNorm", number_}; }

  uint64_t number_;  // where threads meet: one for all copies
};

}  // namespace locus::nn
