// Dense, and layers without parameters. Containers are in containers.h, activations in
// activation_layers.h, normalizations in norm_layers.h, convolutions in conv_layers.h.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include <locus/nn/activation_layers.h>
#include <locus/nn/block.h>

namespace locus::nn {

struct DenseOptions {
  bool use_bias = true;
  bool flatten = true;   // (N, a, b) is read as (N, a*b); false: uses the last axis
  int64_t in_units = 0;  // 0: taken from the first input
  std::optional<init::Initializer> weight_initializer = {};  // unset: the one given to initialize()
  std::optional<init::Initializer> bias_initializer = {};    // unset: zeros
  DType dtype = f32;
};

// activation(x . weight^T + bias): (N, in) -> (N, units); weight is (units, in), bias (units).
class Dense : public Block {
 public:
  explicit Dense(int64_t units, const Activation& activation = {}, const DenseOptions& = {});
  Tensor forward(const Tensor& x) override;
  std::string repr() const override;
  int64_t units() const { return units_; }
  const Activation& activation() const { return activation_; }
  const DenseOptions& options() const { return options_; }

 private:
  int64_t units_;
  Activation activation_;
  DenseOptions options_;
  Parameter weight_, bias_;
};

// (N, a, b, ...) -> (N, a*b*...). A view if the memory layout allows.
class Flatten : public Block {
 public:
  Tensor forward(const Tensor& x) override;
  std::string repr() const override { return "Flatten"; }
};

// In training, zeroes each element with probability `rate` and scales the others by 1 / (1 - rate).
// Otherwise the identity. rate in [0, 1).
class Dropout : public Block {
 public:
  explicit Dropout(double rate = 0.5);
  Tensor forward(const Tensor& x) override;
  std::string repr() const override;

 private:
  double rate_;
};

// Any function of a tensor.
class Lambda : public Block {
 public:
  // ValueError for an empty function.
  explicit Lambda(std::function<Tensor(const Tensor&)> function, std::string name = "function");
  Tensor forward(const Tensor& x) override { return function_(x); }
  std::string repr() const override { return "Lambda(" + name_ + ")"; }

 private:
  std::function<Tensor(const Tensor&)> function_;
  std::string name_;
};

// Moves its input to context `to`, for networks that span contexts. Differentiable. Reports of
// copies name the line that created the layer.
class To : public Block {
 public:
  explicit To(Context to, Caller from = Caller::here()) : to_(to), from_(from) {}
  Tensor forward(const Tensor& x) override { return x.as_in_context(to_, from_); }
  std::string repr() const override { return "To(" + to_string(to_) + ")"; }

 private:
  Context to_;
  Caller from_;
};

}  // namespace locus::nn
