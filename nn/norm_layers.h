// Layers that normalise (ops/norm.h), with gamma, beta and running statistics as parameters.
//
// gamma starts as 1 and beta as 0. As in Gluon they are parameters in any case: scale = false and
// center = false only take their gradient away, for good. Parameters are f32 (or f64: .dtype) and
// take f32 and 16-bit inputs, whose dtype the result has; f64 with f32 parameters, and the reverse,
// is a DTypeError. in_channels, 0: taken from the first input. ValueError for a negative or
// infinite epsilon.
#pragma once

#include <optional>
#include <string>

#include <locus/nn/block.h>
#include <locus/nn/options.h>
#include <locus/ops/norm.h>

namespace locus::nn {

// What the layers share: an axis of channels with a gamma and a beta for each of them.
class NormLayer : public Block {
 public:
  // Parameters have f32 at least.
  void cast(DType dtype) override { Block::cast(dtype == f16 || dtype == bf16 ? f32 : dtype); }

 protected:
  using Init = std::optional<init::Initializer>;
  // The parameters of any layer's options.
  void add_affine(const auto& o) {
    options::expect(type_name(), "epsilon", o.epsilon, options::not_negative);
    add_gamma(o.in_channels, o.scale, o.gamma_initializer, o.dtype);
    if constexpr (requires { o.center; }) beta_ = add("beta", o.center, o.beta_initializer);
  }
  // Beside gamma, with its shape and dtype.
  Parameter add(const char* name, bool differentiable, const Init& init);
  // Checks the input, and completes the parameters with as many channels as its `axis` has.
  void prepare(const Tensor& x, int axis, int least_axes);
  std::string channels() const;  // "4", or "0" while it is not known

  Parameter gamma_, beta_;  // beta: not of RMSNorm

 private:
  void add_gamma(int64_t channels, bool scale, const Init& init, DType dtype);

  std::vector<Parameter> others_;  // all but gamma
};

struct BatchNormOptions {
  int axis = 1;  // of the channels; -1 for channels last
  double momentum = .9, epsilon = 1e-5;
  bool center = true, scale = true;
  bool use_global_stats = false;  // the running statistics while training, too
  std::optional<init::Initializer> beta_initializer = {}, gamma_initializer = {};
  std::optional<init::Initializer> running_mean_initializer = {}, running_variance_initializer = {};
  int64_t in_channels = 0;
  DType dtype = f32;
};
// Over all axes but that of the channels. While training (autograd::is_training()) by the
// statistics of the batch, of which running_mean and running_var keep an average; otherwise by
// these. They are parameters that never have a gradient, saved and moved with the others, and are
// written in place, each replica's by the inputs of its context: save_parameters() writes their
// mean.
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
// Along one axis.
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
// Over groups of the channels, axis 1, of each sample. gamma and beta have one value a channel, as
// in Gluon 2; those of MXNet 1 have one a group.
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
// Over each channel of each sample.
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
// Along one axis, by the root of the mean square, without a beta.
class RMSNorm : public NormLayer {
 public:
  explicit RMSNorm(const RMSNormOptions& = {});
  Tensor forward(const Tensor& x) override;
  std::string repr() const override;

 private:
  RMSNormOptions options_;
};

}  // namespace locus::nn
