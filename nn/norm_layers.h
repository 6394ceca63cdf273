// Layers that normalize (ops/norm.h). Their parameters are gamma, beta and running statistics.
//
//   net.add(nn::Conv2D(64, 3), nn::BatchNorm(), nn::Activate("relu"));
//
// gamma starts as 1 and beta as 0. As in Gluon, both always exist: scale = false and center = false
// remove only their gradients, permanently. Parameters are f32 by default; inputs are then f32, f16
// or bf16. f64 inputs need f64 parameters (.dtype) and the reverse, otherwise DTypeError. The
// result has the input's dtype. in_channels = 0 is taken from the first input. ValueError for a
// negative or infinite epsilon.
#pragma once

#include <optional>
#include <string>

#include <locus/nn/block.h>
#include <locus/nn/options.h>
#include <locus/ops/norm.h>

namespace locus::nn {

// The base of these layers: a channel axis with one gamma and one beta per channel.
class NormLayer : public Block {
 public:
  // A cast to a 16-bit dtype makes f32 parameters.
  void cast(DType dtype) override { Block::cast(dtype == f16 || dtype == bf16 ? f32 : dtype); }

 protected:
  using Init = std::optional<init::Initializer>;
  // Adds the parameters that a layer's options ask for.
  void add_affine(const auto& o) {
    options::expect(type_name(), "epsilon", o.epsilon, options::not_negative);
    add_gamma(o.in_channels, o.scale, o.gamma_initializer, o.dtype);
    if constexpr (requires { o.center; }) beta_ = add("beta", o.center, o.beta_initializer);
  }
  // Adds a parameter with gamma's shape and dtype.
  Parameter add(const char* name, bool differentiable, const Init& init);
  // Checks the input and completes the parameters' shapes with the length of its `axis`.
  void prepare(const Tensor& x, int axis, int least_axes);
  std::string channels() const;  // "4", or "0" while not known

  Parameter gamma_, beta_;  // RMSNorm has no beta

 private:
  void add_gamma(int64_t channels, bool scale, const Init& init, DType dtype);

  std::vector<Parameter> others_;  // all but gamma
};

struct BatchNormOptions {
  int axis = 1;  // of the channels; -1 for channels last
  double momentum = .9, epsilon = 1e-5;
  bool center = true, scale = true;
  bool use_global_stats = false;  // use running statistics for training, too
  std::optional<init::Initializer> beta_initializer = {}, gamma_initializer = {};
  std::optional<init::Initializer> running_mean_initializer = {}, running_variance_initializer = {};
  int64_t in_channels = 0;
  DType dtype = f32;
};
// Normalizes over all axes except the channel axis. Training (autograd::is_training()) uses the
// batch's statistics and updates their averages, running_mean and running_var, in place. Otherwise
// the layer uses the averages. The averages are parameters without gradients, saved and moved with
// the others. Each replica updates its averages separately; save_parameters() writes their mean.
class BatchNorm : public NormLayer {
 public:
  explicit BatchNorm(const BatchNormOptions& = {});
  Tensor forward(const Tensor& x) override;
  std::string repr() const override;

 protected:
  locus::BatchNormOptions norm() const;  // of the op
  BatchNormOptions options_;
  Parameter running_mean_, running_var_;
};

struct LayerNormOptions {
  int axis = -1;
  double epsilon = 1e-5;
  bool center = true, scale = true;
  std::optional<init::Initializer> beta_initializer = {}, gamma_initializer = {};
  int64_t in_channels = 0;
  DType dtype = f32;
};
// Normalizes along one axis.
class LayerNorm : public NormLayer {
 public:
  explicit LayerNorm(const LayerNormOptions& = {});
  Tensor forward(const Tensor& x) override;
  std::string repr() const override;

 private:
  LayerNormOptions options_;
};

struct GroupNormOptions {
  int num_groups = 1;
  double epsilon = 1e-5;
  bool center = true, scale = true;
  std::optional<init::Initializer> beta_initializer = {}, gamma_initializer = {};
  int64_t in_channels = 0;
  DType dtype = f32;
};
// Normalizes groups of channels (axis 1) of each sample. gamma and beta have one value per channel,
// as in Gluon 2 (MXNet 1: one per group).
class GroupNorm : public NormLayer {
 public:
  explicit GroupNorm(const GroupNormOptions& = {});
  Tensor forward(const Tensor& x) override;
  std::string repr() const override;

 private:
  GroupNormOptions options_;
};

struct InstanceNormOptions {
  int axis = 1;  // of the channels
  double epsilon = 1e-5;
  bool center = true, scale = false;
  std::optional<init::Initializer> beta_initializer = {}, gamma_initializer = {};
  int64_t in_channels = 0;
  DType dtype = f32;
};
// Normalizes each channel of each sample.
class InstanceNorm : public NormLayer {
 public:
  explicit InstanceNorm(const InstanceNormOptions& = {});
  Tensor forward(const Tensor& x) override;
  std::string repr() const override;

 private:
  InstanceNormOptions options_;
};

struct RMSNormOptions {
  int axis = -1;
  double epsilon = 1e-5;
  bool scale = true;
  std::optional<init::Initializer> gamma_initializer = {};
  int64_t in_channels = 0;
  DType dtype = f32;
};
// Divides by the root of the mean square along one axis. There is no beta.
class RMSNorm : public NormLayer {
 public:
  explicit RMSNorm(const RMSNormOptions& = {});
  Tensor forward(const Tensor& x) override;
  std::string repr() const override;

 private:
  RMSNormOptions options_;
};

}  // namespace locus::nn
