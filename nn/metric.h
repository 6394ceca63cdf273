// Metrics: update(labels, preds) counts where the predictions live and does not wait; get() reads
// the counts.
#pragma once

#include <string>
#include <utility>

#include <locus/core/tensor.h>

namespace locus::metric {

// The share of right predictions. preds are class scores, (N, classes) for labels (N,), or class
// numbers in the labels' shape.
class Accuracy {
 public:
  void update(const Tensor& labels, const Tensor& preds);
  // One of each per context.
  void update(const Tensors& labels, const Tensors& preds);
  void reset();
  // {"accuracy", right / all}; NaN before the first update. Waits.
  std::pair<std::string, double> get(Caller = Caller::here()) const;

 private:
  Tensors right_;  // one count a context
  int64_t total_ = 0;
};

}  // namespace locus::metric
