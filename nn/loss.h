// Losses with Gluon's names and definitions. A loss takes pred and label, and returns shape
// (batch,): the mean over all axes but batch_axis, unless the loss says otherwise.
//
//   nn::HuberLoss loss({.rho = 2});
//   Tensor l = loss(net(x), y);                     // or loss(net(x), y, sample_weight)
//
// `weight` scales the result. sample_weight multiplies the elements; ShapeError if its shape does
// not broadcast to pred's. In elementwise losses, label is reshaped to pred's shape; ShapeError if
// the sizes differ. Labels that are not floating are cast to pred's dtype.
//
// Losses are differentiable to any order. A term that a label makes 0 stays 0 for infinite
// predictions. f16 and bf16 are computed in f32 and rounded once.
#pragma once

#include <locus/core/tensor.h>
#include <locus/nn/options.h>

namespace locus::nn {

// The base of the losses: holds the options. Error texts begin with Self::kName.
template <class Self, class Options>
class Loss {
 public:
  Loss() = default;
  // ValueError unless weight, margin and epsilon are finite, and epsilon >= 0.
  explicit Loss(const Options& options) : options_(options) {
    using locus::options::expect, locus::options::finite;
    expect(Self::kName, "weight", options_.weight, finite);
    if constexpr (requires { options_.margin; })
      expect(Self::kName, "margin", options_.margin, finite);
    if constexpr (requires { options_.epsilon; })
      expect(Self::kName, "epsilon", options_.epsilon, locus::options::not_negative);
  }
  const Options& options() const { return options_; }

 protected:
  Options options_{};
};

struct LossOptions {
  double weight = 1;
  int batch_axis = 0;
};

// weight / 2 * (pred - label)^2
struct L2Loss : Loss<L2Loss, LossOptions> {
  static constexpr const char* kName = "L2Loss";
  using Loss::Loss;
  Tensor operator()(const Tensor& pred, const Tensor& label, const Tensor& sample_weight = {},
                    Caller = Caller::here()) const;
};

// weight * |pred - label|
struct L1Loss : Loss<L1Loss, LossOptions> {
  static constexpr const char* kName = "L1Loss";
  using Loss::Loss;
  Tensor operator()(const Tensor& pred, const Tensor& label, const Tensor& sample_weight = {},
                    Caller = Caller::here()) const;
};

struct HuberOptions {
  double rho = 1;  // finite, > 0
  double weight = 1;
  int batch_axis = 0;
};
// (pred - label)^2 / (2 rho) up to |pred - label| = rho, and |pred - label| - rho / 2 above.
struct HuberLoss : Loss<HuberLoss, HuberOptions> {
  static constexpr const char* kName = "HuberLoss";
  HuberLoss() = default;
  explicit HuberLoss(const HuberOptions& options);  // ValueError for a bad rho
  Tensor operator()(const Tensor& pred, const Tensor& label, const Tensor& sample_weight = {},
                    Caller = Caller::here()) const;
};

struct SoftmaxCrossEntropyOptions {
  int axis = -1;             // the class axis of pred
  bool sparse_label = true;  // labels are class numbers; false: probabilities, pred's shape
  bool from_logits = false;  // Gluon's name: pred is log_softmax's result
  double weight = 1;
  int batch_axis = 0;
};
// -log softmax(pred)[label]. The default case is one fused op. A sample_weight with as many axes as
// pred multiplies losses whose class axis has length 1: (N, 1) for pred (N, classes), as in Gluon.
// A sample_weight with fewer axes broadcasts to pred's shape without the class axis: (N,).
struct SoftmaxCrossEntropyLoss : Loss<SoftmaxCrossEntropyLoss, SoftmaxCrossEntropyOptions> {
  static constexpr const char* kName = "SoftmaxCrossEntropyLoss";
  using Loss::Loss;
  Tensor operator()(const Tensor& pred, const Tensor& label, const Tensor& sample_weight = {},
                    Caller = Caller::here()) const;
};
using SoftmaxCELoss = SoftmaxCrossEntropyLoss;

struct SigmoidBCEOptions {
  // pred is a probability; 1e-12 is added inside the logarithms
  bool from_sigmoid = false;
  double weight = 1;
  int batch_axis = 0;
};
// (1 - z) * softplus(x) + pos_weight * z * softplus(-x) for pred x and label z. Without pos_weight
// the value is Gluon's relu(x) - x*z + log(1 + exp(-|x|)), with the right slope at 0. pos_weight
// weighs positive examples; its shape broadcasts to pred's, such as (1, classes).
struct SigmoidBinaryCrossEntropyLoss : Loss<SigmoidBinaryCrossEntropyLoss, SigmoidBCEOptions> {
  static constexpr const char* kName = "SigmoidBinaryCrossEntropyLoss";
  using Loss::Loss;
  Tensor operator()(const Tensor& pred, const Tensor& label, const Tensor& sample_weight = {},
                    const Tensor& pos_weight = {}, Caller = Caller::here()) const;
};
using SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss;

enum class LabelFormat : uint8_t { signed_, binary };  // -1 and 1, or 0 and 1
struct LogisticOptions {
  double weight = 1;
  int batch_axis = 0;
  LabelFormat label_format = LabelFormat::signed_;
};
// log(1 + exp(-pred * label)) for signed labels: SigmoidBinaryCrossEntropyLoss of (label + 1) / 2.
struct LogisticLoss : Loss<LogisticLoss, LogisticOptions> {
  static constexpr const char* kName = "LogisticLoss";
  LogisticLoss() = default;
  explicit LogisticLoss(const LogisticOptions& options);  // ValueError for a bad label_format
  Tensor operator()(const Tensor& pred, const Tensor& label, const Tensor& sample_weight = {},
                    Caller = Caller::here()) const;
};

struct KLDivOptions {
  bool from_logits = true;  // pred is log_softmax's result
  int axis = -1;            // of the softmax, for from_logits = false
  double weight = 1;
  int batch_axis = 0;
};
// label * (log(label) - pred), summed over all axes but batch_axis, as in Gluon. Where label is 0,
// the term is 0. Gluon adds 1e-12 inside the logarithm instead.
struct KLDivLoss : Loss<KLDivLoss, KLDivOptions> {
  static constexpr const char* kName = "KLDivLoss";
  using Loss::Loss;
  Tensor operator()(const Tensor& pred, const Tensor& label, const Tensor& sample_weight = {},
                    Caller = Caller::here()) const;
};

struct MarginOptions {
  double margin = 1;
  double weight = 1;
  int batch_axis = 0;
};
// max(0, margin - pred * label) for labels -1 and 1.
struct HingeLoss : Loss<HingeLoss, MarginOptions> {
  static constexpr const char* kName = "HingeLoss";
  using Loss::Loss;
  Tensor operator()(const Tensor& pred, const Tensor& label, const Tensor& sample_weight = {},
                    Caller = Caller::here()) const;
};
// The square of HingeLoss's elements.
struct SquaredHingeLoss : Loss<SquaredHingeLoss, MarginOptions> {
  static constexpr const char* kName = "SquaredHingeLoss";
  using Loss::Loss;
  Tensor operator()(const Tensor& pred, const Tensor& label, const Tensor& sample_weight = {},
                    Caller = Caller::here()) const;
};
// max(0, margin + sum((positive - pred)^2 - (negative - pred)^2)), summed over all other axes.
struct TripletLoss : Loss<TripletLoss, MarginOptions> {
  static constexpr const char* kName = "TripletLoss";
  using Loss::Loss;
  Tensor operator()(const Tensor& pred, const Tensor& positive, const Tensor& negative,
                    Caller = Caller::here()) const;
};

struct PoissonNLLOptions {
  bool from_logits = true;    // pred is the logarithm of the rate
  bool compute_full = false;  // adds Stirling's log(label!) for labels above 1
  double epsilon = 1e-8;      // guards the logarithm
  double weight = 1;
};
// exp(pred) - label * pred, or pred - label * log(pred + epsilon). The result is one number, the
// mean over all axes. With compute_full, labels of 0 add 0 (Gluon 1.9: NaN).
struct PoissonNLLLoss : Loss<PoissonNLLLoss, PoissonNLLOptions> {
  static constexpr const char* kName = "PoissonNLLLoss";
  using Loss::Loss;
  Tensor operator()(const Tensor& pred, const Tensor& label, const Tensor& sample_weight = {},
                    Caller = Caller::here()) const;
};

struct CosineEmbeddingOptions {
  double margin = 0;
  double weight = 1;
};
// 1 - cos(input1, input2) for label 1, max(0, cos(input1, input2) - margin) for label -1, else 0.
// The cosine is taken along the last axis. Inputs are (N, D), label (N,) or (N, 1); the result (N,)
// is not reduced (Gluon 1.9: (N, 1)). The cosine with a zero vector is 0. Cosines of short vectors
// are exact (Gluon divides by 1e-12 at least). sample_weight is as in SoftmaxCrossEntropyLoss.
struct CosineEmbeddingLoss : Loss<CosineEmbeddingLoss, CosineEmbeddingOptions> {
  static constexpr const char* kName = "CosineEmbeddingLoss";
  using Loss::Loss;
  Tensor operator()(const Tensor& input1, const Tensor& input2, const Tensor& label,
                    const Tensor& sample_weight = {}, Caller = Caller::here()) const;
};

enum class CTCLayout : uint8_t { NTC, TNC };
enum class CTCLabelLayout : uint8_t { NT, TN };
struct CTCOptions {
  CTCLayout layout = CTCLayout::NTC;
  CTCLabelLayout label_layout = CTCLabelLayout::NT;
  double weight = 1;
};
// Connectionist temporal classification (Graves et al., 2006): -log of the probability that pred,
// read without repetitions and blanks, spells label. pred (N, T, classes) holds scores before the
// softmax; the last class is the blank. label (N, L) holds classes; without label_lengths (N,) a -1
// ends a label. The first pred_lengths (N,) steps count, by default T. A length outside 1 ... T
// makes the loss NaN. The result is (N,). If no reading fits, the loss is infinite with gradient 0
// (MXNet: 0). IndexError for a label outside [0, classes - 1). Each step runs about six ops.
struct CTCLoss : Loss<CTCLoss, CTCOptions> {
  static constexpr const char* kName = "CTCLoss";
  CTCLoss() = default;
  explicit CTCLoss(const CTCOptions& options);  // ValueError for a bad layout
  Tensor operator()(const Tensor& pred, const Tensor& label, const Tensor& pred_lengths = {},
                    const Tensor& label_lengths = {}, const Tensor& sample_weight = {},
                    Caller = Caller::here()) const;
};

}  // namespace locus::nn
