// Losses: pred and label in, shape (batch,) out: the mean over the other axes (Gluon's rule).
// `weight` scales the result; sample_weight, when given, multiplies the elements: its shape must
// broadcast to pred's, else ShapeError. Where pred and label are compared element by element, label
// takes pred's shape.
#pragma once

#include <locus/core/tensor.h>

namespace locus::nn {

struct SoftmaxCrossEntropyOptions {
  int axis = -1;             // the classes' axis of pred
  bool sparse_label = true;  // labels are class numbers; false: probabilities, pred's shape
  bool from_logits = false;  // Gluon's name: pred is log_softmax's result already
  double weight = 1;
};

// -log softmax(pred)[label]. The default case is one fused op. The losses keep the classes' axis,
// of length 1, beside a sample_weight with as many axes as pred (Gluon's (N, 1) for pred (N,
// classes)); one with fewer axes broadcasts to pred's shape without that axis, (N,).
class SoftmaxCrossEntropyLoss {
 public:
  SoftmaxCrossEntropyLoss() = default;
  explicit SoftmaxCrossEntropyLoss(const SoftmaxCrossEntropyOptions& options) : options_(options) {}
  Tensor operator()(const Tensor& pred, const Tensor& label,
                    const Tensor& sample_weight = {}) const;

 private:
  SoftmaxCrossEntropyOptions options_;
};

// weight / 2 * (pred - label)^2
class L2Loss {
 public:
  explicit L2Loss(double weight = 1) : weight_(weight) {}
  Tensor operator()(const Tensor& pred, const Tensor& label,
                    const Tensor& sample_weight = {}) const;

 private:
  double weight_;
};

// weight * |pred - label|
class L1Loss {
 public:
  explicit L1Loss(double weight = 1) : weight_(weight) {}
  Tensor operator()(const Tensor& pred, const Tensor& label,
                    const Tensor& sample_weight = {}) const;

 private:
  double weight_;
};

struct SigmoidBCEOptions {
  // pred is a probability already (then 1e-12, in f16 6e-8, guards the logarithms)
  bool from_sigmoid = false;
  double weight = 1;
};

// (1 - z) * softplus(x) + z * softplus(-x) for pred x and label z, which is Gluon's
// relu(x) - x*z + log(1 + exp(-|x|)) with the right slope at 0; what z makes 0 is 0 for infinite x.
class SigmoidBinaryCrossEntropyLoss {
 public:
  SigmoidBinaryCrossEntropyLoss() = default;
  explicit SigmoidBinaryCrossEntropyLoss(const SigmoidBCEOptions& options) : options_(options) {}
  Tensor operator()(const Tensor& pred, const Tensor& label,
                    const Tensor& sample_weight = {}) const;

 private:
  SigmoidBCEOptions options_;
};

}  // namespace locus::nn
